"""Folders that stand for S3: `s3://bucket/key` lies at `<home>/s3/bucket/key`.

Prefixes mean what they mean on S3: `s3://b/data/train` is every key that begins with `data/train`, so also
`data/train_labels.csv`; end the URI with `/` to mean the folder alone. Objects appear whole or not at all: they are
written elsewhere in the store and renamed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from drivetrain.base.errors import UserError
from drivetrain.base.records import dataclass
from drivetrain.run_store.durable import copy, copy_and_hash, decompress, make_durable, make_folders_durable, parse
from drivetrain.run_store.schema import ArtifactEntry, ObjectEntry

if TYPE_CHECKING:
    import sqlite3

# A bucket's name cannot begin with a dot, so this folder is no bucket.
_INCOMING = ".incoming"


@dataclass(frozen=True)
class StoredObject:
    """One object below a prefix: `name` is where it lands in the folder that the prefix becomes."""

    name: str
    uri: str
    path: Path
    bytes: int
    mtime_ns: int
    ctime_ns: int


class Asset(Protocol):
    """An object that the definition reads, named by its content's hash (targets.assets.assets.Asset)."""

    @property
    def uri(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def content(self) -> bytes | Path: ...


class ObjectStore:
    """The store below `root`; `data` says which URIs lie elsewhere on this machine.

    Those folders are never written: what a run writes below such a URI comes to the store and lies over the folder, a
    file of the same name included, as on S3. Of the store only what this run holds (`hold`) is seen there: its folder
    stands for all that lay there before.

    Raises:
        UserError: an invalid URI, or one that leads outside; missing local data.
    """

    def __init__(self, root: Path, data: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.checksums: dict[StoredObject, str] = {}
        """The sha256 of objects that this process has read, as they were then."""
        self._elsewhere: dict[str, Path] = {}
        self._held: set[str] = set()
        self.in_s3: Callable[[str, bool], bool] = lambda uri, is_here: is_here
        """Asked for a URI that is not given: True where it will be provided before the run, or is here already."""
        for uri, path in (data or {}).items():
            if not Path(path).exists():
                raise UserError(f"{path}, given for {uri}, does not exist.")
            self.provide(uri, Path(path))
        self._alone = frozenset(self._elsewhere)  # a file or folder of the user's stands for the URI, neighbours do not

    def provide(self, uri: str, path: Path) -> None:
        """From now on, what begins with `uri` is read from where `path` and its neighbours begin so."""
        self._elsewhere["/".join(_parts(uri))] = path.absolute()

    @property
    def elsewhere(self) -> Mapping[str, Path]:
        """bucket/key -> what lies there for this run."""
        return self._elsewhere

    def hold(self, uri: str) -> None:
        """An object, or all that lies below the URI, belongs to this run."""
        self._held.add("/".join(_parts(uri)))

    def place(self, uri: str) -> Path:
        """The path in the store to which the object or folder is written."""
        return self.root.joinpath(*_parts(uri))

    def path(self, uri: str) -> Path:
        """The path of the object or folder, existing or not."""
        written, given = self.place(uri), self._given(uri)
        if given is None or (self._is_held(uri) and (written.exists() or not given.exists())):
            return written
        return given

    def _given(self, uri: str) -> Path | None:
        """Its path elsewhere on this machine, existing or not; None if the URI is not mapped."""
        parts = _parts(uri)
        for length in range(len(parts), 0, -1) if self._elsewhere else ():
            base = self._elsewhere.get("/".join(parts[:length]))
            if base is not None:
                return base.joinpath(*parts[length:])
        return None

    def _is_held(self, uri: str) -> bool:
        parts = _parts(uri)
        return any("/".join(parts[:length]) in self._held for length in range(len(parts), 0, -1))

    def covered(self, staged: Path, uri: str) -> int:
        """How many files elsewhere on this machine a staged file or folder would lie over."""
        given = self._given(uri)
        if given is None:
            return 0
        names = [name for name, _ in walk(staged)] if staged.is_dir() else [""]
        return sum((given / name).is_file() for name in names)

    def find(self, uri: str) -> list[StoredObject]:
        """The objects whose keys begin with the URI's key, sorted by name."""
        given = self._given(uri)
        if given is None:
            return self._found(self.place(uri), uri)
        found = {item.name: item for item in self._found(given, uri)}
        found |= {item.name: item for item in self._found(self.place(uri), uri) if self._is_held(item.uri)}
        return sorted(found.values(), key=lambda item: item.name)

    def _found(self, base: Path, uri: str) -> list[StoredObject]:
        folder_only, stem = uri.endswith("/") or not parse(uri)[1], uri.rstrip("/")
        found: list[StoredObject] = []
        if base.is_dir():
            found = [stored(name, f"{stem}/{name}", path) for name, path in walk(base)]
        elif base.is_file() and not folder_only:
            found.append(stored(stem.rpartition("/")[2], uri, base))
        if not folder_only:
            found += self._beside(base, stem)
        return sorted(found, key=lambda item: item.name)

    def exists(self, uri: str) -> bool:
        """Return True if any object's key begins so."""
        given = self._given(uri)
        is_here = self._is_there(given or self.place(uri), uri)
        if given is None:
            return is_here if self._is_held(uri) else self.in_s3(uri, is_here)
        return is_here or bool(self.find(uri))

    def _is_there(self, base: Path, uri: str) -> bool:
        if base.is_dir():
            return any(True for _ in walk(base)) or (not uri.endswith("/") and bool(self._beside(base, uri)))
        if uri.endswith("/"):
            return False
        return base.is_file() or bool(self._beside(base, uri))

    def put(self, uri: str, content: bytes | Path, *, unless: Callable[[], bool] | None = None) -> bool:
        """Write one object, whole or not at all; not when `unless` says so after the copy. Tells whether it did."""
        target, incoming = self.place(uri), self._incoming()
        self.hold(uri)
        try:
            if isinstance(content, bytes):
                incoming.write_bytes(content)
            else:
                shutil.copyfile(content, incoming)
            if unless is not None and unless():
                return False
            make_durable(incoming)
            self._replace(incoming, target, uri)
            return True
        finally:
            incoming.unlink(missing_ok=True)

    def check_place(self, staged: Path, uri: str) -> None:
        """Refuse to bring a staged file or folder to where it cannot be, before anybody relies on it.

        Raises:
            UserError: a part of the URI is a file here and a folder there.
        """
        target = self.place(uri)
        if not staged.is_dir() or not target.is_dir():
            self._check_free(target, uri, is_folder=staged.is_dir())
            return
        for name, _ in walk(staged):
            self._check_free(target / name, f"{uri.rstrip('/')}/{name}", is_folder=False)

    def _check_free(self, target: Path, uri: str, *, is_folder: bool) -> None:
        if target.is_dir() != is_folder and target.exists():
            raise _conflict(target, uri)
        for parent in target.parents:
            if parent == self.root or parent.is_dir():
                return
            if parent.exists():
                raise _conflict(target, uri)

    def adopt(self, staged: Path, uri: str) -> None:
        """Move a file, or the files of a folder, to its place; the disk has the names at the end. May be repeated after
        an interruption: what has been moved already is no longer staged."""
        target = self.place(uri)
        self.hold(uri)
        moved: list[tuple[Path, Path, str]] = []
        if staged.is_dir() and target.exists():
            moved += [(path, target / name, f"{uri.rstrip('/')}/{name}") for name, path in walk(staged)]
        elif staged.exists():
            moved.append((staged, target, uri))
        for source, place, shown in moved:
            self._replace(source, place, shown)
        above = {folder for _, place, _ in moved for folder in place.parents if folder.is_relative_to(self.root)}
        for folder in above:
            make_durable(folder)

    def remove(self, uri: str, *, below: str) -> None:
        """Remove one object, where it is there, and the folders below a prefix that it leaves empty; nobody else may
        write there at the time."""
        path, top = self.place(uri), self.place(below)
        path.unlink(missing_ok=True)
        for folder in path.parents:
            if not folder.is_relative_to(top) or folder == top or not folder.exists() or any(folder.iterdir()):
                return
            folder.rmdir()

    def _beside(self, base: Path, uri: str) -> list[StoredObject]:
        """Objects whose key begins with the last segment of `base`, except `base` itself and objects in it."""
        bucket, segments = parse(uri)
        if not segments or not base.parent.is_dir():
            return []
        if "/".join([bucket, *segments]) in self._alone:
            return []
        parent_uri = f"s3://{'/'.join([bucket, *segments[:-1]])}"
        found: list[StoredObject] = []
        with os.scandir(base.parent) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(base.name) and entry.name != base.name]
        for sibling in names:
            path = base.parent / sibling
            if path.is_dir():
                found += [stored(f"{sibling}/{n}", f"{parent_uri}/{sibling}/{n}", p) for n, p in walk(path)]
            else:
                found.append(stored(sibling, f"{parent_uri}/{sibling}", path))
        return found

    def _incoming(self) -> Path:
        folder = self.root / _INCOMING
        folder.mkdir(parents=True, exist_ok=True)
        return folder / os.urandom(8).hex()

    def _replace(self, source: Path, target: Path, uri: str) -> None:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(source, target)
        except (NotADirectoryError, FileExistsError, IsADirectoryError):
            raise _conflict(target, uri) from None


class Uploads(Protocol):
    """Remembers which bytes were uploaded (ledger.writer.LedgerWriter)."""

    def checksum(self, item: StoredObject) -> str | None: ...
    def transaction(self) -> AbstractContextManager[sqlite3.Connection]: ...


def put_assets(store: ObjectStore, assets: Iterable[Asset], ledger: Uploads, *, verify: bool = False) -> None:
    """Put the objects into the store that are not there, or are there with other bytes than their names say.

    A name is not trusted: a loss of power, or a person, may have left other bytes there. An object that is there is
    read once; from then on its size and times vouch for it, but not with `verify`.

    Raises:
        UserError: a file has changed since the pipeline was compiled.
    """
    entries: list[ObjectEntry] = []
    for asset in assets:
        path = store.place(asset.uri)
        store.hold(asset.uri)
        there = stored(path.name, asset.uri, path) if path.is_file() else None
        if there is not None and not verify and ledger.checksum(there) == asset.sha256:
            continue
        if there is None or sha256_of(path) != asset.sha256:
            content = asset.content
            store.put(asset.uri, content)
            if isinstance(content, Path) and sha256_of(path) != asset.sha256:
                path.unlink()
                raise UserError(f"{content} has changed while it was copied to {asset.uri}. Run it again.")
            make_folders_durable(path.parent, store.root)
            there = stored(path.name, asset.uri, path)
        entries.append(ObjectEntry(asset.uri, asset.sha256, there.bytes, there.mtime_ns, there.ctime_ns))
    if entries:
        with ledger.transaction() as db:
            ObjectEntry.enter(db, entries)


def missing(what: str, uri: str, store: ObjectStore) -> str:
    """Nothing is there: where it should be, and how to bring it."""
    return (
        f"{what} reads {uri}, and nothing is there on this machine ({store.path(uri)}). Give it with "
        f"--data {uri}=LOCAL_PATH, let `drivetrain run --read-s3` copy it, or put it there."
    )


def _parts(uri: str) -> list[str]:
    bucket, segments = parse(uri)
    return [bucket, *segments]


def _conflict(target: Path, uri: str) -> UserError:
    return UserError(
        f"{uri} cannot be written: a part of it is a file here and a folder there ({target}). Folders that stand for "
        "S3 cannot hold both; give the output another URI."
    )


def walk(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every regular file below a folder as (name with `/`, path). Links are followed, but not back up."""
    stack: list[tuple[str, str, tuple[tuple[int, int], ...]]] = [("", str(folder), ())]
    while stack:
        prefix, current, above = stack.pop()
        stat = os.stat(current)
        here = (stat.st_dev, stat.st_ino)
        if here in above:
            continue
        with os.scandir(current) as entries:
            for entry in entries:
                if entry.is_dir():
                    stack.append((f"{prefix}{entry.name}/", entry.path, (*above, here)))
                elif entry.is_file():
                    yield f"{prefix}{entry.name}", Path(entry.path)


def sha256_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(
    objects: Sequence[StoredObject],
    folders: Sequence[Path],
    *,
    known: Callable[[StoredObject], str | None],
    gzipped: bool = False,
) -> dict[str, str]:
    """Copy objects into every folder; gives their sha256 by name.

    `known` gives a checksum that need not be computed again. With `gzipped`, files are decompressed on the way and
    lose their `.gz`.
    """
    hashed: dict[str, str] = {}
    for item in objects:
        checksum = known(item)
        for folder in folders:
            target = folder / item.name
            target.parent.mkdir(parents=True, exist_ok=True)
            if gzipped:
                decompress(item.path, target.with_name(target.name.removesuffix(".gz")))
            elif checksum is None:
                checksum = copy_and_hash(item.path, target)
            else:
                copy(item.path, target)
        hashed[item.name] = checksum or sha256_of(item.path)
    return hashed


def artifact(
    flow: str, name: str, uri: str, objects: Sequence[StoredObject], hashed: Mapping[str, str]
) -> ArtifactEntry:
    """The entry of what a step read or wrote below a URI: the objects, sorted by name, and their sha256 by name."""
    return ArtifactEntry(
        flow=flow,
        name=name,
        uri=uri,
        digest=digest_of((item.name, hashed[item.name]) for item in objects),
        stamp=stamp_of(objects),
        files=len(objects),
        bytes=sum(item.bytes for item in objects),
    )


def digest_of(files: Iterator[tuple[str, str]]) -> str:
    """One sha256 for (name, sha256) of many files, whatever their order."""
    hashing = hashlib.sha256()
    for name, checksum in sorted(files):
        hashing.update(f"{checksum}  {name}\n".encode("utf-8", "surrogateescape"))
    return hashing.hexdigest()


def stamp_of(objects: Sequence[StoredObject]) -> str:
    """A fingerprint that needs no reading: equal stamps mean equal bytes unless someone set a file's time back."""
    hashing = hashlib.sha256()
    for item in objects:
        hashing.update(f"{item.bytes} {item.mtime_ns} {item.name}\n".encode("utf-8", "surrogateescape"))
    return hashing.hexdigest()


def stored(name: str, uri: str, path: Path) -> StoredObject:
    stat = path.stat()
    return StoredObject(name, uri, path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
