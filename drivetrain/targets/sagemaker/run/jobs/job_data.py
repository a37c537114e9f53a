"""The data of a job. What it reads: InputDataConfig and ProcessingInputs, as far as folders can stand for them. What it
leaves: its outputs, merged from its hosts, checked, hashed and staged in the attempt's folder.

No output reaches its place in the store here. The stage holds every output; the ledger then enters the step as
succeeded together with the list of moves, and the moves are renames, which can be repeated. Every byte is on the disk
before the ledger says so; otherwise later steps might read incomplete outputs.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import list_in, object_in
from drivetrain.base.records import dataclass
from drivetrain.run_store.durable import make_durable
from drivetrain.run_store.objects import (
    ObjectStore,
    StoredObject,
    artifact,
    fetch,
    missing,
    sha256_of,
    stored,
    walk,
)
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.schema import ArtifactEntry, Move, ObjectEntry
from drivetrain.targets.sagemaker.run.execution import StepFailedError

BASE = "/opt/ml"
# The member of a job's arguments that says what it starts: of a processing and of a training job.
PROGRAMS = ("AppSpecification", "AlgorithmSpecification")
STAGE = "publish"
_LONGEST_CHAIN = 40  # of links, as in the kernel
PROCESSING = "/opt/ml/processing"
TRAINING = "/opt/ml/input/data"
_CHANNEL = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_OTHER_SOURCES = ("DatasetDefinition", "AthenaDatasetDefinition", "RedshiftDatasetDefinition", "FileSystemDataSource")


@dataclass(frozen=True)
class Channel:
    """One input of a job: what lies below `uri` (or what the `manifest` there lists) comes to `local_path` in the
    container, to every host or, `sharded`, dealt out to them. `uri` and `local_path` are None while they are not known
    yet."""

    name: str
    uri: str | None
    local_path: str | None
    sharded: bool = False
    gzipped: bool = False
    manifest: bool = False

    def objects(self, store: ObjectStore) -> list[StoredObject]:
        """The objects that come to the container, sorted by name.

        Raises:
            UserError: the manifest is invalid, or lists missing objects.
        """
        assert self.uri is not None
        if not self.manifest:
            return store.find(self.uri)
        from drivetrain.targets.sagemaker.run.jobs.manifests import listed

        return sorted(listed(self.uri, store), key=lambda item: item.name)


def processing_channels(arguments: Mapping[str, Any]) -> list[Channel]:
    """The ProcessingInputs of resolved (or partly resolved) arguments.

    Raises:
        UserError: a kind of input that a folder cannot stand for.
    """
    found: list[Channel] = []
    for entry in entries(arguments, "ProcessingInputs"):
        name = str(entry.get("InputName"))
        where = f"input {name!r}"
        source = member(entry, "S3Input")
        if source is None:
            _refuse_source(where, entry)
            raise UserError(f"{where} has no S3Input. Allowed: S3Input with S3Uri and LocalPath.")
        _refuse_mode(where, "S3InputMode", source.get("S3InputMode"))
        local_path = text(source.get("LocalPath"))
        # An expression may have no value yet.
        if not isinstance(source.get("LocalPath"), dict) and not _below(local_path or "", PROCESSING):
            raise UserError(f"{where}: LocalPath is {source.get('LocalPath')!r}. Allowed: a path below {PROCESSING}/.")
        found.append(_channel(where, name, source, local_path, gzip=source.get("S3CompressionType")))
    return found


def training_channels(arguments: Mapping[str, Any]) -> list[Channel]:
    """The InputDataConfig of resolved (or partly resolved) arguments.

    Raises:
        UserError: a kind of input that a folder cannot stand for.
    """
    found: list[Channel] = []
    algorithm = object_in(arguments, "AlgorithmSpecification")
    for entry in entries(arguments, "InputDataConfig"):
        name = str(entry.get("ChannelName"))
        where = f"channel {name!r}"
        if not _CHANNEL.fullmatch(name):
            raise UserError(f"{where}: the name. Allowed: letters, digits, '.', '-' and '_', and no '.' first.")
        data_source = object_in(entry, "DataSource")
        source = member(data_source, "S3DataSource")
        if source is None:
            _refuse_source(where, data_source)
            raise UserError(f"{where} has no S3DataSource. Allowed: DataSource.S3DataSource with S3Uri.")
        channel = _channel(where, name, source, f"{TRAINING}/{name}", gzip=entry.get("CompressionType"))
        _refuse_mode(where, "InputMode", entry.get("InputMode") or algorithm.get("TrainingInputMode"))
        if entry.get("RecordWrapperType") not in (None, "None"):
            raise UserError(f"{where}: RecordWrapperType {entry['RecordWrapperType']!r}. Allowed locally: None.")
        found.append(channel)
    return found


def place(
    channels: Sequence[Channel],
    store: ObjectStore,
    folders: Callable[[Channel], Sequence[Path]],
    ledger: Ledger,
) -> tuple[ArtifactEntry, ...]:
    """Copy the data of every channel to the hosts, and say what was read.

    Args:
        folders: the channel's folder on each host, in the hosts' order.
        ledger: knows the checksums of objects that steps wrote and nobody changed since.

    Raises:
        UserError: nothing lies below a channel's URI.
    """

    def known(item: StoredObject) -> str | None:
        return store.checksums.get(item) or ledger.checksum(item)

    read: list[ArtifactEntry] = []
    for channel in channels:
        assert channel.uri is not None
        objects = channel.objects(store)
        if not objects:
            _, writer = ledger.writer_of(channel.uri)
            if writer is not None:
                raise UserError(f"input {channel.name!r} is empty: step {writer!r} wrote nothing to {channel.uri}.")
            raise UserError(missing(f"input {channel.name!r}", channel.uri, store))
        targets = folders(channel)
        for target in targets:
            target.mkdir(parents=True, exist_ok=True)
        if channel.sharded and len(targets) > 1:
            hashed: dict[str, str] = {}
            for index, target in enumerate(targets):  # dealt out by key, like cards
                hashed |= fetch(objects[index :: len(targets)], [target], known=known, gzipped=channel.gzipped)
        else:
            hashed = fetch(objects, targets, known=known, gzipped=channel.gzipped)
        store.checksums |= {item: hashed[item.name] for item in objects}
        read.append(artifact("input", channel.name, channel.uri, objects, hashed))
    return tuple(read)


def input_uris(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> URI of each input of a processing or training job; None for one that is not in S3."""
    sources = {
        str(entry.get("InputName")): object_in(entry, "S3Input") for entry in entries(arguments, "ProcessingInputs")
    } | {
        str(entry.get("ChannelName")): object_in(object_in(entry, "DataSource"), "S3DataSource")
        for entry in entries(arguments, "InputDataConfig")
    }
    return {name: source.get("S3Uri") for name, source in sources.items()}


def words_in(arguments: Mapping[str, Any], field: str) -> list[Any]:
    """A list of words (ContainerEntrypoint, ContainerArguments) of the program of a processing or training job."""
    for name in PROGRAMS:
        if words := list_in(object_in(arguments, name), field):
            return words
    return []


def entries(arguments: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """A list of objects in arguments.

    Raises:
        UserError: it is something else.
    """
    given: Any = arguments.get(key) or []
    items = cast("list[Any]", given) if isinstance(given, list) else list[Any]([None])
    if not all(isinstance(item, dict) for item in items):
        raise UserError(f"{key} is {given!r:.80}. Allowed: a list of objects.")
    return items


def member(given: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    """An object in arguments; None if it is missing."""
    value = given.get(key)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def text(value: Any) -> str | None:
    """A value that is known by now."""
    return value if isinstance(value, str) else None


def _channel(where: str, name: str, source: Mapping[str, Any], local_path: str | None, *, gzip: Any) -> Channel:
    kind = source.get("S3DataType", "S3Prefix")
    if kind == "AugmentedManifestFile":
        raise UserError(
            f"{where}: S3DataType 'AugmentedManifestFile' is read in Pipe mode alone, which is not imitated here. "
            "Allowed locally: ManifestFile, S3Prefix; or the step's results with --stub STEP=outputs.json."
        )
    if isinstance(kind, str) and kind not in ("S3Prefix", "ManifestFile"):
        raise UserError(
            f"{where}: S3DataType {kind!r} cannot be read on this machine. Allowed: S3Prefix (a folder or an object), "
            "ManifestFile."
        )
    if gzip not in (None, "None", "Gzip") and isinstance(gzip, str):
        raise UserError(f"{where}: compression {gzip!r}. Allowed: None, Gzip.")
    distribution = source.get("S3DataDistributionType") or "FullyReplicated"
    if isinstance(distribution, str) and distribution not in ("FullyReplicated", "ShardedByS3Key"):
        raise UserError(f"{where}: S3DataDistributionType {distribution!r}. Allowed: FullyReplicated, ShardedByS3Key.")
    if not isinstance(source.get("S3Uri"), str | dict):
        raise UserError(f"{where}: S3Uri is {source.get('S3Uri')!r}. Allowed: s3://bucket/key.")
    return Channel(
        name=name,
        uri=text(source["S3Uri"]),
        local_path=local_path,
        sharded=distribution == "ShardedByS3Key",
        gzipped=gzip == "Gzip",
        manifest=kind == "ManifestFile",
    )


def _refuse_source(where: str, entry: Mapping[str, Any]) -> None:
    for kind in _OTHER_SOURCES:
        if kind in entry:
            raise UserError(
                f"{where}: {kind} cannot be read on this machine. Allowed: S3 folders and objects, for which a folder "
                "here may stand (--data S3URI=PATH); or the step's results with --stub STEP=outputs.json."
            )


def _refuse_mode(where: str, field: str, mode: Any) -> None:
    # FastFile shows the same files, fetched when they are opened.
    if isinstance(mode, str) and mode not in ("File", "FastFile"):
        raise UserError(f"{where}: {field} {mode!r} cannot be imitated on this machine. Allowed: File, FastFile.")


def _below(path: str, folder: str) -> bool:
    return path.startswith(folder + "/") and ".." not in path.split("/")


class Publication:
    """The outputs of one attempt, staged below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.moves: list[Move] = []
        self.artifacts: list[ArtifactEntry] = []
        self.objects: list[ObjectEntry] = []

    def stage(self) -> Path:
        """A place for the next output, in a folder that exists."""
        path = self.folder / STAGE / str(len(self.moves))
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def add(self, name: str, uri: str, staged: Path) -> None:
        """Enter a staged file, or a folder with what is in it, as the output `name` that goes to `uri`."""
        objects: list[StoredObject] = []
        hashed: dict[str, str] = {}
        below = uri.rstrip("/")
        for key, path in walk(staged) if staged.is_dir() else [("", staged)]:
            make_durable(path)
            item = stored(key or below.rpartition("/")[2], f"{below}/{key}" if key else uri, path)
            objects.append(item)
            hashed[item.name] = sha256_of(path)
            self.objects.append(ObjectEntry(item.uri, hashed[item.name], item.bytes, item.mtime_ns))
        for folder in _folders(staged):
            make_durable(folder)
        objects.sort(key=lambda item: item.name)
        self.moves.append(Move(str(staged.relative_to(self.folder)), uri))
        self.artifacts.append(artifact("output", name, uri, objects, hashed))


def _folders(staged: Path) -> Iterator[Path]:
    if staged.is_dir():
        yield from (Path(folder) for folder, _, _ in os.walk(staged, topdown=False))


def merge(output: str, folders: Mapping[str, Path], roots: Mapping[str, Path], target: Path) -> None:
    """Move what the hosts wrote into one folder.

    Args:
        output: the output's name, for messages.
        folders: host -> the folder in which it collected this output (it need not exist).
        roots: host -> the folder that was its /opt/ml.

    Raises:
        StepFailedError: two hosts wrote the same name; a link that leads out of /opt/ml or nowhere; a name that is
            not UTF-8; something that is no file (a socket, a device).
    """
    target.mkdir(parents=True)
    writer: dict[str, str] = {}
    found: list[tuple[str, Path, bool]] = []
    for host, folder in folders.items():
        for name, path, linked in files_below(output, folder, roots[host]):
            if name in writer:
                raise StepFailedError(
                    f"hosts {writer[name]} and {host} both wrote {name!r} to output {output!r}, and only one of the "
                    "two can be kept. Put the host's name or rank into the file's name, or write on one host only."
                )
            writer[name] = host
            found.append((name, path, linked))
    # What links lead to is copied first: it may be one of the files that are then moved.
    for name, path, linked in sorted(found, key=lambda item: not item[2]):
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if linked:
            shutil.copyfile(path, place)
        else:
            os.rename(path, place)


def files_below(output: str, folder: Path, root: Path) -> Iterator[tuple[str, Path, bool]]:
    """Every file of an output as (name, path, whether a link led to it). Links are followed as the job saw them."""
    base = os.path.realpath(root)
    # The program may have put something else in the folder's place; what a link leads to is not ours to move.
    through_link = os.path.realpath(folder) != os.path.join(base, os.path.relpath(folder, root))
    if through_link:
        folder = _followed(output, ".", folder, root, base)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise StepFailedError(f"output {output!r} is a file now. Write files into the folder, not in its place.")
    stack: list[tuple[str, Path, bool, tuple[str, ...]]] = [("", folder, through_link, ())]
    while stack:
        prefix, current, linked, above = stack.pop()
        real = os.path.realpath(current)
        if real in above:  # a link to a folder around it
            continue
        with os.scandir(current) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            name = prefix + entry.name
            if not _is_text(name):
                raise StepFailedError(f"output {output!r} has a file {name!r} whose name is not UTF-8. Rename it.")
            path, through_link = Path(entry.path), linked
            if entry.is_symlink():
                path, through_link = _followed(output, name, path, root, base), True
            mode = path.stat().st_mode
            if stat.S_ISDIR(mode):
                stack.append((name + "/", path, through_link, (*above, real)))
            elif stat.S_ISREG(mode):
                yield name, path, through_link
            else:
                raise StepFailedError(f"output {output!r} has {name!r}, which is no file (a socket, pipe or device).")


def _followed(output: str, name: str, link: Path, root: Path, base: str) -> Path:
    shown = os.readlink(link) if link.is_symlink() else os.path.realpath(link)  # a link in the way to it
    path = link
    for _ in range(_LONGEST_CHAIN):
        if not path.is_symlink():
            break
        target = os.readlink(path)
        inside = target == BASE or target.startswith(BASE + "/")
        # The job saw its root as /opt/ml; here that path means something else, or nothing.
        path = root / target[len(BASE) + 1 :] if inside else path.parent / target
    real = os.path.realpath(path)
    if not (real == base or real.startswith(base + "/")):
        raise StepFailedError(
            f"output {output!r}: {name!r} is a link to {shown}, outside {BASE}. Copy the file itself into the output."
        )
    if not os.path.exists(real):
        raise StepFailedError(f"output {output!r}: {name!r} is a link to {shown}, which does not exist.")
    return Path(real)


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
