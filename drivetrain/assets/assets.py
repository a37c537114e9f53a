"""Objects that must lie in a target's storage before a pipeline can run: the code, and data from this machine.

Every asset is named by the hash of its content, so putting it there twice changes nothing, and a step whose inputs
did not change keeps its cache key.

Hashes that were worked out before are kept in the user's cache folder, by what they depend on:

    stamp = stamp_of([("drivetrain/steps/start.py", "/.../steps/start.py"), ...])
    known_hash(key)          # None, or what `keep_hash(key, sha256)` was given

A stamp holds what the file system knows of files without reading them: inode, size, and the times of the last change of
content and inode. The latter (ctime) cannot be set, so an edit that keeps a file's size and restores its time is
noticed. Two edits within one tick of the file system's clock may leave the same stamp. So a hash may be kept only for
files that had settled when the stamp was taken, and have the same stamp after they were read.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import drivetrain
from drivetrain.assets.step_code import NOTHING, ROOMS, Used
from drivetrain.base.errors import UserError
from drivetrain.base.records import dataclass
from drivetrain.steps.start import plain_header

if TYPE_CHECKING:
    from drivetrain.assets.wheels import Wheel


# No file system in use counts in longer ticks than FAT's, of two seconds.
SETTLED_S = 3.0
# Each is a line of 64 characters; a hash that is needed again is worked out again.
MOST_KEPT = 256
_HEXADECIMAL = frozenset(b"0123456789abcdef")


class Stamp(NamedTuple):
    """`digest` differs when a file was renamed, replaced or changed. `settled` is False if a file is so new that
    another edit could leave the stamp unchanged."""

    digest: str
    settled: bool


def stamp_of(files: Iterable[tuple[str, str]]) -> Stamp:
    """The stamp of files, each with the name that it has in what is hashed, and its path.

    Raises:
        OSError: a file is not there.
    """
    return _stamp((name, path, os.stat(path)) for name, path in files)


def _stamp(files: Iterable[tuple[str, str, os.stat_result]]) -> Stamp:
    now = time.time_ns()
    newest = 0
    seen: list[tuple[str, str, int, int, int, int, int]] = []
    for name, path, found in files:
        written, changed = found.st_mtime_ns, found.st_ctime_ns
        if written > newest or changed > newest:
            newest = max(written, changed)
        seen.append((name, path, found.st_dev, found.st_ino, found.st_size, written, changed))
    seen.sort()
    # marshal takes a fifth of the time of text for the hundreds of files of ours; version 2 writes equal values alike.
    return Stamp(hashlib.sha256(marshal.dumps(seen, 2)).hexdigest(), now - newest > SETTLED_S * 1e9)


def known_hash(key: str) -> str | None:
    """The hash that is kept for a key."""
    folder = _folder()
    if folder is None:
        return None
    try:
        with open(f"{folder}/{key}", "rb") as file:
            found = file.read(65)
    except OSError:
        return None
    # A computer that went down may leave a file with other content.
    return found.decode() if len(found) == 64 and _HEXADECIMAL.issuperset(found) else None


def keep_hash(key: str, sha256: str) -> None:
    """Keep a hash; where that is not possible, it is worked out each time."""
    folder = _folder()
    if folder is None:
        return
    beside = f"{folder}/{os.urandom(8).hex()}.part"
    try:
        os.makedirs(folder, exist_ok=True)
        with open(beside, "xb") as file:
            file.write(sha256.encode())
        os.replace(beside, f"{folder}/{key}")
        _remove_oldest(folder)
    except OSError:
        return


def _folder() -> str | None:
    """$XDG_CACHE_HOME/drivetrain/code or ~/.cache/drivetrain/code; None for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        base = os.path.expanduser("~/.cache")
    return f"{base}/drivetrain/code" if base.startswith("/") else None


def _remove_oldest(folder: str) -> None:
    with os.scandir(folder) as entries:
        by_age = sorted((entry.stat().st_mtime_ns, entry.path) for entry in entries)
    for _, path in by_age[:-MOST_KEPT]:
        os.unlink(path)


EXAMPLES = "example:"
# In an archive that holds all of the user's files: why.
WHOLE_FOLDER = "whole_folder.txt"
_PACKAGE_FILES = (".py", ".json", ".yaml")
_OWN_NAMES = "drivetrain/__init__.py"
_BLOCK, _RECORD = 512, 10_240  # bytes of a tar


@dataclass(frozen=True)
class Asset:
    """One object: its URI, the SHA-256 of its bytes, and the bytes, what makes them or the file that holds them."""

    uri: str
    sha256: str
    source: bytes | CodeArchive | Path = field(compare=False)

    @property
    def content(self) -> bytes | Path:
        """The bytes, or the file that holds them.

        Raises:
            UserError: the code has changed since its hash was found.
        """
        return self.source.content if isinstance(self.source, CodeArchive) else self.source


@dataclass(frozen=True)
class Code:
    """The `code` channel of a step: the URI of its folder, the hash that the start file verifies, and that of the start
    file, which its entry point verifies."""

    uri: str
    sha256: str
    start_sha256: str
    assets: tuple[Asset, ...]


def code_channel(root: str, used: Used = NOTHING, wheels: tuple[Wheel, ...] = ()) -> Code:
    """The folder that travels into a container: start file, archive of our package and the user's files, wheels.

    Args:
        root: URI of the pipeline's own folder, below which this one is put.
        used: the user's files, and what of the package they need.
        wheels: distributions that the image lacks.
    """
    files: dict[str, bytes | CodeArchive | Path] = {wheel.name: wheel.content for wheel in wheels}
    hashes = {wheel.name: _sha256(wheel.content) for wheel in wheels}
    archive = CodeArchive(used, hashes)
    digest, start = archive.sha256, (package_folder() / "steps" / "start.py").read_bytes()
    files |= {"start.py": start, f"{digest}.tar": archive}
    hashes |= {"start.py": _sha256(start), f"{digest}.tar": digest}
    folder = hashlib.sha256(repr(sorted(hashes.items())).encode()).hexdigest()
    uri = f"{root}/code/{folder}/"
    assets = tuple(Asset(uri + name, hashes[name], files[name]) for name in sorted(files))
    return Code(uri=uri, sha256=digest, start_sha256=hashes["start.py"], assets=assets)


class CodeArchive:
    """A tar of `drivetrain/` and `source/` that depends on nothing but their content: sorted names, zero times.

    Not compressed: compressors differ between machines, and the bytes name the archive. It lists the wheels' hashes,
    so that its own hash vouches for all code of the step.

    Many who compile need its hash alone. That is found without reading the package where it has not changed since the
    hash was worked out; the user's files are read each time.

    Args:
        used: the user's files, and the rooms of the package.
        wheels: name of each wheel -> its SHA-256.

    Attributes:
        names: of what it holds beside the package.
        rooms: of the package, that it holds.
    """

    def __init__(self, used: Used = NOTHING, wheels: Mapping[str, str] | None = None) -> None:
        files = {f"source/{name}": content for name, content in used.files.items()}
        if wheels:
            files["wheels.sha256"] = "".join(f"{wheels[name]}  {name}\n" for name in sorted(wheels)).encode()
        if used.whole:
            files[WHOLE_FOLDER] = f"{used.whole}\n".encode()
        self.names, self.rooms = frozenset(files), used.rooms
        self._beside_own = b"".join(part for name in sorted(files) for part in _member(name, files[name]))

    @cached_property
    def sha256(self) -> str:
        """The hash of the content."""
        stamp = _own_stamp()
        # The headers of long names depend on tarfile, and so on Python's version.
        key = f"{sys.version}\n{stamp.digest}\n{sorted(self.rooms)}\n"
        key = hashlib.sha256(key.encode() + self._beside_own).hexdigest()
        found = known_hash(key)
        if found is None:
            found = self._made()[1]
            if stamp.settled and _stamp(_what_own_parts_depend_on()).digest == stamp.digest:
                keep_hash(key, found)
        return found

    @cached_property
    def content(self) -> bytes:
        """
        Raises:
            UserError: a file of the package has changed since the hash was found.
        """
        parts, sha256 = self._made()
        if sha256 != self.sha256:
            raise UserError(
                f"The package in {package_folder()} has changed while this process used it, so the code that travels "
                "is not the code that the definition names. Start drivetrain again."
            )
        return b"".join(parts)

    def _made(self) -> tuple[tuple[bytes, ...], str]:
        """The parts of the archive, and their SHA-256."""
        # By name, drivetrain/ comes before source/ and the wheels.
        own, hashed = _own_parts(self.rooms)
        size = sum(map(len, own)) + len(self._beside_own) + 2 * _BLOCK
        end = bytes(2 * _BLOCK + -size % _RECORD)
        hashing = hashed.copy()
        hashing.update(self._beside_own)
        hashing.update(end)
        return (*own, self._beside_own, end), hashing.hexdigest()


def _member(name: str, content: bytes) -> tuple[bytes, bytes, bytes]:
    """A file as it is in a tar: its header, its content, and zeros up to a whole block.

    The header is that of tarfile, which takes twenty times as long for it (and five times as long to read it).
    """
    size = len(content)
    if len(name) > 100 or not name.isascii():
        import tarfile

        member = tarfile.TarInfo(name)
        member.size = size
        header = member.tobuf(tarfile.PAX_FORMAT)
    else:
        header = plain_header(name.encode(), b"%011o" % size)
    return header, content, bytes(-size % _BLOCK)


def data_asset(root: str, given: str, base: Path) -> tuple[str, tuple[Asset, ...]]:
    """The URI under which a path on this machine is uploaded, and the objects that go there.

    `example:digits` names data that come with the package.

    Raises:
        UserError: when there is no such file or folder.
    """
    if given.startswith(EXAMPLES):
        from drivetrain.assets.examples import example

        files = example(given.removeprefix(EXAMPLES))
    else:
        files = _files(given, base)
    hashes = {name: _sha256(content) for name, content in files.items()}
    folder = next(iter(files)).partition("/")[0]
    if folder in files:
        digest = hashes[folder]
        uri = f"{root}/data/{digest}/{folder}"
        return uri, (Asset(uri, digest, files[folder]),)
    hashes = {name.removeprefix(f"{folder}/"): sha256 for name, sha256 in hashes.items()}
    digest = hashlib.sha256(repr(sorted(hashes.items())).encode()).hexdigest()
    uri = f"{root}/data/{digest}/"
    named = zip(hashes.items(), files.values(), strict=True)
    return uri, tuple(Asset(uri + name, sha256, content) for (name, sha256), content in named)


def _files(given: str, base: Path) -> Mapping[str, Path | bytes]:
    """A file under its name, or those of a folder as FOLDER/FILE."""
    path = _found(Path(given), base)
    if path.is_file():
        return {path.name: path}
    if not path.is_dir():
        places = " or ".join(dict.fromkeys((str(base), str(Path.cwd()))))
        raise UserError(
            f"Input {given!r}: no such file or folder in {places}. Give a path that exists here, an "
            f"s3:// URI, or {EXAMPLES}NAME."
        )
    files = {f"{path.name}/{file.relative_to(path)}": file for file in sorted(path.rglob("*")) if file.is_file()}
    if not files:
        raise UserError(f"Input {given!r}: the folder {path} is empty.")
    return files


def _found(path: Path, base: Path) -> Path:
    """A path in the pipeline's code is meant from its folder, one on the command line from the current one."""
    path = path.expanduser()
    return base / path if (base / path).exists() else Path.cwd() / path


def holds(rooms: AbstractSet[str], name: str) -> bool:
    """Return True if a file of the package, `drivetrain/ROOM/...`, is in an archive with these rooms."""
    room, _, file = name.removeprefix("drivetrain/").partition("/")
    if room != "components":
        return room in rooms or name == _OWN_NAMES
    return room in rooms or file == "__init__.py" or f"{room}/{file.removesuffix('.py')}" in rooms


@cache
def _own_parts(rooms: frozenset[str]) -> tuple[tuple[bytes, ...], Any]:
    """Our own part of an archive in pieces, and their hash; made once a process."""
    _own_stamp()  # it must not be newer than what is read
    parts: list[bytes] = []
    hashing = hashlib.sha256()
    home = str(package_folder())
    own = {name: home + name.removeprefix("drivetrain") for name, _ in _own_files(home)}
    own[_OWN_NAMES] = f"{home}/steps/inert.py"
    for name, path in sorted(own.items()):
        if not holds(rooms, name):
            continue
        content = _content(path)
        if name == _OWN_NAMES:  # `import *` asks a module for its names: there it must find as many as at home
            content += f"\n\n__all__ = {sorted(drivetrain.__all__)!r}\n".encode()
        for part in _member(name, content):
            hashing.update(part)
            parts.append(part)
    return tuple(parts), hashing


@cache
def _own_stamp() -> Stamp:
    """The stamp of our own part of the archive; taken once a process, as that part is made."""
    return _stamp(_what_own_parts_depend_on())


def _what_own_parts_depend_on() -> Iterator[tuple[str, str, os.stat_result]]:
    """The files that travel, and those that decide how: this file, and the package's list of names."""
    home = str(package_folder())
    for name, entry in _own_files(home):
        yield name, home, entry.stat()
    for path in (__file__, drivetrain.__file__):
        yield "", path, os.stat(path)


def _own_files(home: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """The name in the archive of each file of ours, and its entry, which is to be asked before the next file: so long
    its folder is open, and need not be found anew for each file."""
    # A room may be a link; a room holds no links.
    pending = [f"drivetrain/{room}" for room in ROOMS]
    while pending:
        folder = pending.pop()
        opened = os.open(home + folder.removeprefix("drivetrain"), os.O_RDONLY)
        try:
            with os.scandir(opened) as entries:
                for entry in entries:
                    name = f"{folder}/{entry.name}"
                    if entry.name.endswith(_PACKAGE_FILES):
                        yield name, entry
                    elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                        pending.append(name)
        finally:
            os.close(opened)


def _content(path: str) -> bytes:
    """A file's bytes, in a third of the time of Path.read_bytes, which counts for the hundreds of files of ours."""
    file = os.open(path, os.O_RDONLY)
    try:
        content = os.read(file, 1 << 16)
        while more := os.read(file, 1 << 16):
            content += more
    finally:
        os.close(file)
    return content


def package_folder() -> Path:
    """The folder of the package: of an installed one, or of a checkout, where some of its rooms are links."""
    return Path(drivetrain.__file__).parent


def _sha256(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
