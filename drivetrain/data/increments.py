"""Preparing only what is new: what a run leaves behind for the next one, and how that goes on from it.

A manifest's `lineage` says where its rows come from:

    {
      "parameters": {"key": "id", "salt": "", ...},     what decides on the rows and their sides
      "sources": [{"name": "2026-11-24.csv", "bytes": 1048576, "fingerprint": "<64 hex digits>"}, ...],
      "parent": "<content hash>",                       the set that this one went on from, or null
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Array, Schema, arrow
from drivetrain.data.manifest import Manifest
from drivetrain.data.sketches import STATE_VERSION
from drivetrain.data.source import Source
from drivetrain.data.split import among

STATISTICS_FILE = "statistics.json"
_ENDS = 1 << 20


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
    rows: tuple[KeptFile, ...] = ()
    groups: Mapping[str, KeptFile] | None = None
    """None where it was not looked for leakage."""

    @property
    def files(self) -> list[Path]:
        """Its shards, in their order."""
        return [self.folder / _plain(shard.file) for shard in self.manifest.shards]

    def hashes(self) -> Iterator[Array]:
        """The hashes of its keys."""
        return map(self._hashes, self.keys)

    def row_hashes(self) -> Iterator[Array]:
        """The hashes of its rows, without their keys."""
        return map(self._hashes, self.rows)

    def group_hashes(self) -> dict[str, Array]:
        """The hashes of the values of each group."""
        return {name: self._hashes(kept) for name, kept in (self.groups or {}).items()}

    def _hashes(self, kept: KeptFile) -> Array:
        pa = arrow()
        data = _read(self.folder / kept.file, kept)
        return pa.Array.from_buffers(pa.uint64(), len(data) // 8, [None, pa.py_buffer(data)])


@dataclass(frozen=True)
class Earlier:
    """An earlier run, by side."""

    sets: Mapping[str, EarlierSet]

    def arrow_schema(self) -> Schema:
        """The columns of its shards; one of the sets has some."""
        return arrow().parquet.read_schema(next(file for each in self.sets.values() for file in each.files))

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

    def out_of_order(self, new: Sequence[Source]) -> str:
        """The first new file that a run over everything would read before one that is known; empty for none."""
        last = max(self._known, default="")
        return next((source.name for source in new if source.name < last), "")

    def fingerprints(self, sources: Sequence[Source]) -> list[Mapping[str, Any]]:
        """What a manifest says of files; those that it read are as it says (`new_sources`)."""
        known = self._known
        return [known.get(source.name) or fingerprint(source) for source in sources]

    @property
    def _known(self) -> dict[str, Mapping[str, Any]]:
        """The files that it read, by name."""
        return {entry["name"]: entry for entry in next(iter(self.sets.values())).manifest.lineage["sources"]}

    def check_new_keys(self, hashes: Sequence[Array]) -> Array:
        """The new hashes that the earlier sets have, too."""
        pa = arrow()
        new = pa.concat_arrays([pa.array([], pa.uint64()), *hashes])
        found = [pa.array(among(earlier, new)) for each in self.sets.values() for earlier in each.hashes()]
        return pa.concat_arrays([pa.array([], pa.uint64()), *found])


def fingerprint(source: Source) -> dict[str, Any]:
    """What a manifest says of a file that was read."""
    size = source.path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with source.path.open("rb") as file:
        digest.update(file.read(_ENDS))
        if size > _ENDS:
            file.seek(max(_ENDS, size - _ENDS))
            digest.update(file.read(_ENDS))
    return {"name": source.name, "bytes": size, "fingerprint": digest.hexdigest()}


def open_earlier(root: Path, sides: Sequence[str], parameters: Mapping[str, Any]) -> Earlier:
    """The sets of an earlier run, in the folders of the sides below `root`.

    Raises:
        NotUsableError: it was prepared otherwise, or kept nothing to go on from.
        InputError: a folder of the sides has no manifest, or one that is damaged.
    """
    found: dict[str, EarlierSet] = {}
    for side in sides:
        manifest = Manifest.read(root / side, checksums=False)
        lineage = manifest.lineage
        if not {"parameters", "sources", "keys", "statistics"} <= lineage.keys():
            raise NotUsableError("it was prepared without incremental=true")
        for name in {**lineage["parameters"], **parameters}:
            value = parameters.get(name)
            if lineage["parameters"].get(name) != value:
                raise NotUsableError(f"{name} was {lineage['parameters'].get(name)!r}, and is {value!r} now")
        folder = root / side / manifest.version
        kept = KeptFile(**lineage["statistics"])
        state = cast("Mapping[str, Any]", json.loads(_read(folder / kept.file, kept)))
        if state.get("version") != STATE_VERSION:
            raise NotUsableError("its statistics are those of another version of drivetrain")
        compared = lineage.get("compared")
        found[side] = EarlierSet(
            manifest,
            folder,
            keys=_kept(lineage["keys"]),
            statistics=state,
            rows=_kept(compared["rows"]) if compared else (),
            groups={name: KeptFile(**entry) for name, entry in compared["groups"].items()} if compared else None,
        )
    sources = [each.manifest.lineage["sources"] for each in found.values()]
    if any(other != sources[0] for other in sources):
        raise NotUsableError(f"the sets below {root} are of different runs")
    return Earlier(found)


class Keeper:
    """Writes beside the shards of a version what the next run goes on from."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._keys: list[KeptFile] = []
        self._digest = hashlib.sha256()
        self._rows = 0
        self._earlier_rows: list[KeptFile] = []
        self._compared: dict[str, Any] = {}

    def continue_from(self, earlier: EarlierSet) -> None:
        """Take the keys of an earlier set over."""
        for kept in (*earlier.keys, *earlier.rows):
            take_over(earlier.folder / kept.file, self._folder / kept.file)
        self._keys += earlier.keys
        self._earlier_rows += earlier.rows

    def add(self, hashes: Array) -> None:
        """Take in the hashes of the next rows."""
        if not len(hashes):
            return
        data = memoryview(hashes.buffers()[1])[8 * hashes.offset : 8 * (hashes.offset + len(hashes))]
        with (self._folder / self._file).open("ab") as file:
            file.write(data)
        self._digest.update(data)
        self._rows += len(hashes)

    def compared(self, rows: Any, groups: Mapping[str, Any]) -> None:
        """Keep what leakage is looked for by: the hashes of the new rows, and of all values of groups."""
        number = len(self._earlier_rows)
        new = [self._write(f"rows-{number:05d}.u64", rows.tobytes())] if len(rows) else []
        kept = {
            name: asdict(self._write(f"group-{number:02d}.u64", hashes.tobytes()))
            for number, (name, hashes) in enumerate(groups.items())
        }
        self._compared = {"rows": [asdict(each) for each in (*self._earlier_rows, *new)], "groups": kept}

    def finish(self, statistics: Mapping[str, Any]) -> dict[str, Any]:
        """Make what was written durable; the entries of the lineage."""
        if self._rows:
            _make_durable(self._folder / self._file)
            self._keys.append(KeptFile(self._file, 8 * self._rows, self._digest.hexdigest()))
        kept = self._write(STATISTICS_FILE, json.dumps(statistics).encode())
        compared = {"compared": self._compared} if self._compared else {}
        return {"keys": [asdict(each) for each in self._keys], "statistics": asdict(kept), **compared}

    def _write(self, name: str, content: bytes) -> KeptFile:
        (self._folder / name).write_bytes(content)
        _make_durable(self._folder / name)
        return KeptFile(name, len(content), hashlib.sha256(content).hexdigest())

    @property
    def _file(self) -> str:
        return f"keys-{len(self._keys):05d}.u64"


def take_over(earlier: Path, file: Path) -> None:
    """Have a file of an earlier version in another folder, without a copy where both are on one disk."""
    try:
        os.link(earlier, file)
    except OSError:
        shutil.copyfile(earlier, file)
        _make_durable(file)


def _kept(entries: Sequence[Mapping[str, Any]]) -> tuple[KeptFile, ...]:
    return tuple(KeptFile(**entry) for entry in entries)


def _plain(file: str) -> str:
    return file.rpartition("/")[2]


def _make_durable(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def _read(path: Path, kept: KeptFile) -> bytes:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} is missing, but the manifest lists it. Leave out previous to prepare all.") from None
    if hashlib.sha256(data).hexdigest() != kept.sha256:
        raise InputError(f"{path} was altered since it was written. Leave out previous to prepare all.")
    return data
