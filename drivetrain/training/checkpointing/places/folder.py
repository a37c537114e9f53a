"""Checkpoints in a folder: a disk of the host's own (which a sync agent may copy elsewhere), or a shared volume.

Why nothing is lost or torn, call by call (POSIX promises no order between two calls unless fsync stands between them,
and a new name is durable only when its folder has been fsynced: https://man7.org/linux/man-pages/man2/fsync.2.html):

* `write`: unlink(old), open(O_EXCL), write..., fsync(file), fsync(folder). It never writes into a file that is there,
  which may be linked elsewhere or be in use; and it is not atomic, because a file counts only when a manifest lists it.
* `create`, `replace`: open(name.XXXX.partial, O_EXCL) beside the final name, write, fsync(file), then link or rename to
  the final name, fsync(folder). Whenever the power goes, the final name leads to nothing, to the old content or to all
  of the new: the content was durable before the name was given. Never by way of TMPDIR: it may be another device, where
  a rename is a copy.
* `remove`: unlink..., fsync(folder). `retire` does so for the manifest while it holds the lock that readers share.
* `move`: rename, fsync of both parents: a folder is at the one place or at the other.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from drivetrain.base.file_locks import hold, hold_soon, make_durable
from drivetrain.training.checkpointing.store.direct_io import write_new
from drivetrain.training.checkpointing.store.manifest import MANIFEST_FILE, DamagedError, check_name, check_size

# What a file system answers that has no links (FUSE, SMB).
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
# What lies at the root of a volume, and nobody but root may look into.
_OF_THE_VOLUME = "lost+found"
_PIECE = 1 << 20  # read at once: it is in the processor's cache when its checksum is computed
_PLAIN = os.O_CLOEXEC | os.O_NOFOLLOW


def open_uri(uri: str) -> FolderPlace:
    """The place at a path."""
    return FolderPlace(Path(uri))


class FolderPlace:
    """The folder is made with the first file; places.Place documents the methods."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def uri(self) -> str:
        return os.fspath(self.root)

    def names(self, below: str = "") -> dict[str, int]:
        return dict(self._walk(below))

    def write(self, name: str, data: memoryview | bytes) -> int:
        path = self._path(name)
        self._make(path.parent)
        path.unlink(missing_ok=True)
        checksum = write_new(path, memoryview(data).cast("B"))
        make_durable(path.parent)
        return checksum

    def create(self, name: str, data: bytes) -> None:
        path = self._path(name)
        with self._partial(path, data) as partial:
            try:
                os.link(partial, path, follow_symlinks=False)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                # Two that create at the very same instant are told apart by links alone.
                if os.path.lexists(path):
                    raise FileExistsError(errno.EEXIST, "it is there already", os.fspath(path)) from None
                os.rename(partial, path)

    def replace(self, name: str, data: bytes) -> None:
        path = self._path(name)
        with self._partial(path, data) as partial:
            os.rename(partial, path)

    def swap(self, name: str, expected: bytes, data: bytes) -> bool:
        # In place, and opened anew each time: what is closed here is what the next to open sees, on NFS too.
        try:
            descriptor = os.open(self._path(name), os.O_RDWR | _PLAIN)
        except FileNotFoundError:
            return False
        try:
            if not hold_soon(descriptor) or os.fstat(descriptor).st_nlink == 0:
                return False
            if os.pread(descriptor, len(expected) + 1, 0) != expected:
                return False
            os.pwrite(descriptor, data, 0)
            os.ftruncate(descriptor, len(data))
            return True
        finally:
            os.close(descriptor)

    def mark(self, name: str) -> str:
        # The number of the device differs from host to host.
        try:
            return f"inode {os.lstat(self._path(name)).st_ino}"
        except FileNotFoundError:
            return ""

    def read(self, name: str) -> bytes:
        descriptor = self._open(name)
        with open(descriptor, "rb") as stream:
            return stream.read()

    def read_into(self, name: str, buffer: memoryview) -> int:
        buffer = buffer.cast("B")
        descriptor = self._open(name)
        try:
            check_size(name, len(buffer), os.fstat(descriptor).st_size)
            filled, checksum = 0, 0
            while filled < len(buffer) and (count := os.readv(descriptor, [buffer[filled : filled + _PIECE]])):
                checksum = zlib.crc32(buffer[filled : filled + count], checksum)
                filled += count
            check_size(name, len(buffer), filled + len(os.pread(descriptor, 1, filled)))
            return checksum
        finally:
            os.close(descriptor)

    def read_part(self, name: str, start: int, length: int) -> bytes:
        with open(self._open(name), "rb", buffering=0) as stream:
            stream.seek(start)
            parts: list[bytes] = []
            while length and (part := stream.read(length)):
                parts.append(part)
                length -= len(part)
            return b"".join(parts)

    def checksum(self, name: str) -> tuple[int, int]:
        size, checksum = 0, 0
        descriptor = self._open(name)
        try:
            room = memoryview(bytearray(_PIECE))
            while count := os.readv(descriptor, [room]):
                checksum = zlib.crc32(room[:count], checksum)
                size += count
            return size, checksum
        finally:
            os.close(descriptor)

    def remove(self, names: Sequence[str]) -> None:
        paths = [self._path(name) for name in names]
        for path in paths:
            path.unlink(missing_ok=True)
        for folder in sorted({path.parent for path in paths}, key=lambda path: -len(path.parts)):
            self._prune(folder)

    def retire(self, folder: str) -> bool:
        path = self._path(f"{folder}/{MANIFEST_FILE}")
        try:
            descriptor = os.open(path, os.O_RDWR | _PLAIN)
        except FileNotFoundError:
            return True
        try:
            hold(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        make_durable(path.parent)
        return True

    def move(self, folder: str, to: str) -> None:
        source, target = self._path(folder), self._path(to)
        self._make(target.parent)
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "it is there already", os.fspath(target))
        os.rename(source, target)
        make_durable(target.parent)
        make_durable(source.parent)

    @contextmanager
    def reading(self, folder: str) -> Generator[None]:
        path = self._path(f"{folder}/{MANIFEST_FILE}")
        descriptor = os.open(path, os.O_RDONLY | _PLAIN)
        try:
            hold(descriptor, fcntl.LOCK_SH)
            if os.fstat(descriptor).st_nlink == 0:  # it was removed between the two calls
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
            yield
        finally:
            os.close(descriptor)

    def _path(self, name: str) -> Path:
        """The path of a name; refuse links that lead elsewhere on the way."""
        path = self.root
        *folders, last = check_name(name).split("/")
        for part in folders:
            path = path / part
            if path.is_symlink():
                raise DamagedError(f"{path} is a link", file=name, expected="a folder", found="a link")
        return path / last

    def _open(self, name: str) -> int:
        path = self._path(name)
        try:
            # NONBLOCK: a pipe of that name must not hold us up.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _PLAIN)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise DamagedError(f"{name} is a link", file=name, expected="a file", found="a link") from None
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise DamagedError(f"{name} is no file", file=name, expected="a file", found="something else")
        return descriptor

    def _walk(self, below: str) -> Generator[tuple[str, int]]:
        folder = self._path(below) if below else self.root
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        except PermissionError:
            if below == _OF_THE_VOLUME:
                return
            raise
        for entry in entries:
            name = f"{below}/{entry.name}" if below else entry.name
            if not entry.name.isprintable() or "\\" in entry.name:
                continue  # nothing of ours, and no name that a manifest could hold
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(name)
            else:
                try:
                    yield name, entry.stat(follow_symlinks=False).st_size
                except FileNotFoundError:  # another rank has removed it in between
                    continue

    @contextmanager
    def _partial(self, path: Path, data: bytes) -> Generator[Path]:
        """A durable file beside `path` with that content, which gets its final name inside the context."""
        self._make(path.parent)
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
        write_new(partial, memoryview(data))
        try:
            yield partial
        finally:
            partial.unlink(missing_ok=True)
        make_durable(path.parent)

    def _make(self, folder: Path) -> None:
        """Make a folder and those above it, each durably."""
        missing: list[Path] = []
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
            make_durable(path.parent)

    def _prune(self, folder: Path) -> None:
        """Make removals in a folder durable; where it is empty now, remove it, too, and so on upwards."""
        while True:
            try:
                make_durable(folder)
                if folder == self.root:
                    return
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return
                raise
            folder = folder.parent
