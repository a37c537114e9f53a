"""Preparing only what is new: what a run leaves behind for the next one, and how that goes on from it.

A manifest's `lineage` says where its rows come from:

    {
      "parameters": {"key": "id", "salt": "", ...},     what decides on the rows and their sides
      "sources": [{"name": "2026-11-24.csv", "bytes": 1048576, "fingerprint": "<64 hex digits>"}, ...],
      "side": "train",                                  of a split: which of its sets this one is
      "parent": "<content hash>",                       the set that this one went on from, or null
      "profile": {"file": "profile.npz", ...},          see profile.py
      "keys": [{"file": "keys-00000.u64", "bytes": 11496, "sha256": "<64 hex digits>"}],
      "statistics": {"file": "statistics.json", ...},
      "compared": {"rows": [{"file": "rows-00000.u64", ...}], "groups": {"user": {"file": "group-00.u64", ...}}}
    }

`keys` (8 bytes a row: the hash of each key, little endian, in the order of the rows) and `statistics` (all that was
gathered, so that more can be added) lie in the folder of the version. They are there where a run was asked for them. So
is `compared` (leakage.py: the hash of each row, and those of the values of groups), where the run looked for leakage.

The fingerprint of a file is of its size and its first and last MiB. Files are appended by whole files; one that was
changed in its middle, and kept its size, is not noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from drivetrain.base.errors import InputError, first_line
from drivetrain.base.file_locks import make_durable
from drivetrain.data.accepted import accepted_set
from drivetrain.data.arrow import Array, DataType, Schema, arrow
from drivetrain.data.hash_runs import HashRuns, HashSet, num_parts
from drivetrain.data.manifest import MANIFEST_FILE, Manifest
from drivetrain.data.sketches import STATE_VERSION
from drivetrain.data.source import Source
from drivetrain.data.versions import current_since

STATISTICS_FILE = "statistics.json"
_ENDS = 1 << 20
# Of what an earlier run kept, so much is in memory at a time.
PIECE_BYTES = 8 << 20


class NotUsableError(Exception):
    """Why an earlier run cannot be gone on from, so that everything is prepared anew."""


@dataclass(frozen=True)
class KeptFile:
    """A file beside the shards."""

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class EarlierSet:
    """One side of an earlier run: its manifest, the folder of its version, and what it kept."""

    manifest: Manifest
    folder: Path
    keys: tuple[KeptFile, ...]
    statistics: Mapping[str, Any]
    since: int
    """When its version became current, in nanoseconds since 1970."""
    rows: tuple[KeptFile, ...] = ()
    groups: Mapping[str, KeptFile] | None = None
    """None where it was not looked for leakage."""

    @property
    def files(self) -> list[Path]:
        """Its shards, in their order."""
        return [self.folder / shard.name for shard in self.manifest.shards]

    def hashes(self) -> Iterator[Array]:
        """The hashes of its keys, some at a time."""
        return self._hashes(self.keys)

    def row_hashes(self) -> Iterator[Array]:
        """The hashes of its rows, without their keys, some at a time."""
        return self._hashes(self.rows)

    def group_hashes(self, name: str) -> Iterator[Array]:
        """The hashes of the values of a group, some at a time."""
        return self._hashes([(self.groups or {})[name]])

    def _hashes(self, files: Sequence[KeptFile]) -> Iterator[Array]:
        pa = arrow()
        for kept in files:
            for data in _pieces(self.folder / kept.file, kept):
                yield pa.Array.from_buffers(pa.uint64(), len(data) // 8, [None, pa.py_buffer(data)])


@dataclass(frozen=True)
class Earlier:
    """An earlier run, by side."""

    sets: Mapping[str, EarlierSet]
    not_accepted: tuple[Mapping[str, Any], ...] = ()
    """The files that later runs read, whose sets were not accepted."""

    def arrow_schema(self) -> Schema:
        """The columns of its shards; one of the sets has some.

        Raises:
            InputError: the end of a shard, which says where its columns lie, is damaged.
        """
        pa = arrow()
        found: list[Schema] = []
        for file in (file for each in self.sets.values() for file in each.files):
            try:
                found.append(pa.parquet.read_schema(file))
            except (pa.ArrowException, OSError) as error:
                advice = "Leave out previous to prepare all."
                raise InputError(f"{file} is damaged: {first_line(error)}. {advice}") from None
        written = {each.name: each.type for each in next(iter(self.sets.values())).manifest.schema}
        return pa.schema([each.with_type(_before_parquet(each.type, written[each.name])) for each in found[0]])

    def new_sources(self, sources: Sequence[Source]) -> list[Source]:
        """The files that it did not read.

        Raises:
            NotUsableError: a file that it read is gone or changed.
        """
        known = self._known
        given = {source.name: source for source in sources}
        if gone := sorted(known.keys() - given.keys()):
            raise NotUsableError(f"{gone[0]} is not in the data any more")
        changed = [name for name in known if fingerprint(given[name]) != known[name]]
        if changed:
            raise NotUsableError(f"{changed[0]} has changed since")
        return [source for source in sources if source.name not in known]

    def passed_over(self, sources: Sequence[Source]) -> list[str]:
        """A sentence for each file of a run that was not accepted: it is read again, was replaced, or is gone."""
        given = {source.name: source for source in sources}
        found: list[str] = []
        for entry in self.not_accepted:
            source = given.get(entry["name"])
            if source is None:
                what = "is gone: its rows are passed over"
            else:
                what = "is read again" if fingerprint(source) == entry else "was replaced, and is read"
            found.append(f"{entry['name']} of a run that was not accepted {what}")
        return found

    def out_of_order(self, new: Sequence[Source]) -> str:
        """The first new file that a run over everything would read before one that is known; empty for none."""
        last = max(self._known, default="")
        return next((source.name for source in new if source.name < last), "")

    def columns_without_values(self) -> set[str]:
        """The columns in which none of its rows has a value."""
        sets = [each.manifest for each in self.sets.values()]
        return {
            column.name
            for column in sets[0].schema
            if all(each.statistics[column.name]["nulls"] == each.rows for each in sets)
        }

    def fingerprints(self, sources: Sequence[Source]) -> list[Mapping[str, Any]]:
        """The manifest's entries for files; those that it read are unchanged (`new_sources`)."""
        known = self._known
        return [known.get(source.name) or fingerprint(source) for source in sources]

    @property
    def _known(self) -> dict[str, Mapping[str, Any]]:
        """The files that it read, by name."""
        return {entry["name"]: entry for entry in next(iter(self.sets.values())).manifest.lineage["sources"]}

    def check_new_keys(self, hashes: HashRuns) -> Array:
        """The new hashes that the earlier sets have, too."""
        pa = arrow()
        found = [pa.array([], pa.uint64())]
        for part in hashes.parts(num_parts(len(hashes))):
            new = HashSet(part)
            found += [pa.array(new.among(piece)) for each in self.sets.values() for piece in each.hashes()]
        return pa.concat_arrays(found)


def _before_parquet(stored: DataType, written: str) -> DataType:
    """The type that was written: Parquet has no seconds, and no dates of 64 bits."""
    pa = arrow()
    if written.startswith("timestamp[s"):
        return pa.timestamp("s", stored.tz)
    return {"time32[s]": pa.time32("s"), "date64[ms]": pa.date64()}.get(written, stored)


def fingerprint(source: Source) -> dict[str, Any]:
    """The entry of a manifest for a file that was read."""
    size = source.path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with source.path.open("rb") as file:
        digest.update(file.read(_ENDS))
        if size > _ENDS:
            file.seek(max(_ENDS, size - _ENDS))
            digest.update(file.read(_ENDS))
    return {"name": source.name, "bytes": size, "fingerprint": digest.hexdigest()}


def open_earlier(root: Path, sides: Sequence[str], parameters: Mapping[str, Any]) -> Earlier:
    """The sets of an earlier run, in the folders of the sides below `root`: the accepted versions (accepted.py), else
    the current ones.

    Raises:
        NotUsableError: it was prepared otherwise, or kept nothing to go on from.
        InputError: a folder of the sides has no manifest, one that is damaged, or that of another side; or the accepted
            version is gone or altered.
    """
    if all(sides) and (root / MANIFEST_FILE).is_file():  # a table alone lies in `root` itself
        raise InputError(f"{root} is one set. Give previous the folder above it, which holds {', '.join(sides)}.")
    found: dict[str, EarlierSet] = {}
    for side in sides:
        accepted = accepted_set(root, side)
        manifest = Manifest.read(accepted or root / side, checksums=False)
        lineage = manifest.lineage
        if not {"parameters", "sources", "keys", "statistics"} <= lineage.keys():
            raise NotUsableError("it was prepared without incremental=true")
        _check_side(root, side, manifest)
        for name in {**lineage["parameters"], **parameters}:
            value = parameters.get(name)
            if lineage["parameters"].get(name) != value:
                raise NotUsableError(f"{name} was {lineage['parameters'].get(name)!r}, and is {value!r} now")
        folder = root / side / manifest.version
        kept = KeptFile(**lineage["statistics"])
        state = cast("Mapping[str, Any]", json.loads(b"".join(_pieces(folder / kept.file, kept))))
        if state.get("version") != STATE_VERSION:
            raise NotUsableError("its statistics are those of another version of drivetrain")
        compared = lineage.get("compared")
        found[side] = EarlierSet(
            manifest,
            folder,
            keys=_kept(lineage["keys"]),
            statistics=state,
            since=current_since(root / side, manifest.version),
            rows=_kept(compared["rows"]) if compared else (),
            groups={name: KeptFile(**entry) for name, entry in compared["groups"].items()} if compared else None,
        )
    sources = [each.manifest.lineage["sources"] for each in found.values()]
    if any(other != sources[0] for other in sources):
        raise NotUsableError(f"the sets below {root} are of different runs")
    latest = Manifest.read(root / sides[0], checksums=False).lineage.get("sources", [])
    return Earlier(found, tuple(entry for entry in latest if entry not in sources[0]))


def _check_side(root: Path, side: str, manifest: Manifest) -> None:
    """
    Raises:
        InputError: the set of another side was put into the folder of this one.
    """
    found = manifest.lineage.get("side", side)
    if found == side and "compared" in manifest.lineage:  # manifests of earlier releases name no side
        found = side if side in ("", "train") or "rows" in manifest.leakage else "train"
    if found != side:
        raise InputError(
            f"{root / side} holds the {found} set of a run, not its {side} set. Give previous the folder of one run's "
            "sets, each in the folder of its name, or leave out previous to prepare all."
        )


class Keeper:
    """Writes beside the shards of a version what the next run goes on from."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._earlier_keys: tuple[KeptFile, ...] = ()
        self._earlier_rows: tuple[KeptFile, ...] = ()
        self._compared: dict[str, Any] = {}
        self._begin()

    def continue_from(self, earlier: EarlierSet) -> None:
        """Take the hashes of an earlier set over; the next ones get files of their own."""
        for kept in (*earlier.keys, *earlier.rows):
            take_over(earlier.folder / kept.file, self._folder / kept.file)
        self._earlier_keys, self._earlier_rows = earlier.keys, earlier.rows
        self._begin()

    def add(self, hashes: Array) -> None:
        """Take in the hashes of the keys of the next rows."""
        if len(hashes):
            self._keys.append(memoryview(hashes.buffers()[1])[8 * hashes.offset : 8 * (hashes.offset + len(hashes))])

    def add_rows(self, hashes: Any) -> None:
        """Take in the hashes of the next rows without their keys, a numpy array."""
        if len(hashes):
            self._rows.append(hashes.data)

    def compared(self, groups: Mapping[str, Iterable[Any]]) -> None:
        """Say that leakage was looked for, and keep the hashes of all values of groups."""
        kept: dict[str, Any] = {}
        for number, (name, pieces) in enumerate(groups.items()):
            file = _GrowingFile(self._folder / f"group-{number:02d}.u64")
            for hashes in pieces:
                file.append(hashes.data)
            kept[name] = asdict(file.finish())
        self._compared = {"rows": [asdict(each) for each in _all(self._earlier_rows, self._rows)], "groups": kept}

    def finish(self, statistics: Mapping[str, Any]) -> dict[str, Any]:
        """Make what was written durable; the entries of the lineage."""
        keys = [asdict(each) for each in _all(self._earlier_keys, self._keys)]
        file = _GrowingFile(self._folder / STATISTICS_FILE)
        file.append(json.dumps(statistics).encode())
        compared = {"compared": self._compared} if self._compared else {}
        return {"keys": keys, "statistics": asdict(file.finish()), **compared}

    def _begin(self) -> None:
        self._keys = _GrowingFile(self._folder / f"keys-{len(self._earlier_keys):05d}.u64")
        self._rows = _GrowingFile(self._folder / f"rows-{len(self._earlier_rows):05d}.u64")


class _GrowingFile:
    """A file beside the shards that is written piece by piece."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = hashlib.sha256()
        self.size = 0

    def append(self, data: Any) -> None:
        # Opened each time: the run may end at any instant, and then nobody closes it.
        with self._path.open("ab") as file:
            file.write(data)
        self._digest.update(data)
        self.size += memoryview(data).nbytes

    def finish(self) -> KeptFile:
        """Make it durable; an empty one is there, too."""
        with self._path.open("ab") as file:
            os.fsync(file.fileno())
        return KeptFile(self._path.name, self.size, self._digest.hexdigest())


def _all(earlier: Sequence[KeptFile], file: _GrowingFile) -> Sequence[KeptFile]:
    return (*earlier, file.finish()) if file.size else earlier


def take_over(earlier: Path, file: Path) -> bool:
    """Have a file of an earlier version in another folder, without a copy where both are on one disk. Whether it is a
    copy."""
    try:
        os.link(earlier, file)
    except OSError:
        shutil.copyfile(earlier, file)
        make_durable(file)
        return True
    return False


def _kept(entries: Sequence[Mapping[str, Any]]) -> tuple[KeptFile, ...]:
    return tuple(KeptFile(**entry) for entry in entries)


def _pieces(path: Path, kept: KeptFile) -> Iterator[bytes]:
    """The content of a file beside the shards, in pieces; reading all of it verifies its hash.

    Raises:
        InputError: it is gone, or another one.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while data := file.read(PIECE_BYTES):
                digest.update(data)
                yield data
    except FileNotFoundError:
        raise InputError(f"{path} is missing, but the manifest lists it. Leave out previous to prepare all.") from None
    if digest.hexdigest() != kept.sha256:
        raise InputError(f"{path} was altered since it was written. Leave out previous to prepare all.")
