"""A disk that may lose, at a power loss, whatever was not fsynced: calls are recorded, and then any state that they
permit can be laid out in a folder.

The model is harsher than file systems in use, after the persistence properties that Pillai et al. found applications to
rely on by mistake (https://www.usenix.org/conference/osdi14/technical-sessions/presentation/pillai):

* Of a file's bytes since its last fsync each piece of 512 is there or not, in any combination; its length is any that
  it has had since. A piece that is not there reads as before, or as zeros.
* Of a folder's names since the folder's last fsync each is what it is now, or anything that it was since, each name for
  itself: a rename may have given the new name and kept the old, or lost the old name and not given the new one. (That
  the new name leads to the old or to the new content, and never to nothing, is the one promise of rename.)
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

_PIECE = 512


@dataclass
class _File:
    """Content, and for each piece and the length what they may be after a power loss."""

    data: bytearray = field(default_factory=bytearray)
    pieces: dict[int, list[bytes]] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=lambda: [0])

    def write(self, offset: int, data: bytes) -> None:
        first, last = offset // _PIECE, (offset + len(data) - 1) // _PIECE
        for piece in range(first, last + 1):
            self.pieces.setdefault(piece, [self._piece(piece)])
        end = offset + len(data)
        self.data.extend(bytes(max(0, end - len(self.data))))
        self.data[offset:end] = data
        self.lengths.append(len(self.data))
        for piece in range(first, last + 1):
            self.pieces[piece].append(self._piece(piece))

    def truncate(self, length: int) -> None:
        del self.data[length:]
        self.data.extend(bytes(length - len(self.data)))
        self.lengths.append(length)

    def sync(self) -> None:
        self.pieces.clear()
        self.lengths = [len(self.data)]

    def after_loss(self, choose: Callable[[list[Any]], Any]) -> bytes:
        length = choose(self.lengths)
        found = bytearray(self.data[:length].ljust(length, b"\0"))
        for piece, options in self.pieces.items():
            start = piece * _PIECE
            found[start : start + _PIECE] = choose(options)[: max(0, length - start)]
        return bytes(found[:length])

    def _piece(self, piece: int) -> bytes:
        return bytes(self.data[piece * _PIECE : (piece + 1) * _PIECE]).ljust(_PIECE, b"\0")


@dataclass
class _Folder:
    """Names, and what each may lead to after a power loss."""

    names: dict[str, _File | _Folder | None] = field(default_factory=dict)
    before: dict[str, list[_File | _Folder | None]] = field(default_factory=dict)

    def set(self, name: str, to: _File | _Folder | None) -> None:
        self.before.setdefault(name, [self.names.get(name)]).append(to)
        self.names[name] = to

    def sync(self) -> None:
        self.before.clear()

    def after_loss(self, choose: Callable[[list[Any]], Any]) -> dict[str, _File | _Folder]:
        found = {name: choose(self.before.get(name, [to])) for name, to in self.names.items()}
        return {name: to for name, to in found.items() if to is not None}


class LossyDisk:
    """What was done to one folder, call by call.

    `recording()` records the calls of this thread's process; `after_loss` lays out what may be left when the power goes
    after the first so many of them.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[tuple[Any, ...]] = []
        self.marks: list[tuple[int, Any]] = []
        self._open: dict[int, tuple[Path, int]] = {}

    def mark(self, what: Any) -> None:
        """Note something that holds from here on."""
        self.marks.append((len(self.calls), what))

    @contextmanager
    def recording(self) -> Generator[None]:
        """Record while inside. Only what the folder place calls is known: another call that changes is an error."""
        names = ["open", "close", "write", "pwrite", "ftruncate", "fsync", "link", "rename", "unlink", "mkdir", "rmdir"]
        real = {name: getattr(os, name) for name in names}

        def replaced(name: str) -> Callable[..., Any]:
            def call(*given: Any, **named: Any) -> Any:
                result = real[name](*given, **named)
                getattr(self, f"_after_{name}")(result, *given)
                return result

            return call

        def unknown(name: str) -> Callable[..., Any]:
            def refuse(*_given: Any, **_named: Any) -> Any:
                raise AssertionError(f"os.{name}: the model of the disk does not know this call")

            return refuse

        changing = ("writev", "pwritev", "sendfile", "copy_file_range", "truncate", "replace", "symlink", "fdatasync")
        with (
            mock.patch.multiple(os, **{name: replaced(name) for name in names}),
            mock.patch.multiple(os, **{name: unknown(name) for name in changing}),
        ):
            yield

    def after_loss(self, calls: int, draw: random.Random, likely: float, into: Path) -> None:
        """Lay out a state that the first `calls` calls permit.

        Args:
            likely: that what was not fsynced is there in its last state; else any of its states is, each alike.
        """

        def choose(options: list[Any]) -> Any:
            return options[-1] if draw.random() < likely else draw.choice(options)

        _lay_out(self._replay(calls), choose, into)

    def _replay(self, calls: int) -> _Folder:
        top = _Folder()
        for name, *given in self.calls[:calls]:
            _DO[name](top, *given)
        return top

    def _parts(self, path: Any) -> tuple[str, ...] | None:
        path = Path(os.fspath(path)) if isinstance(path, str | os.PathLike) else None
        return path.relative_to(self.root).parts if path is not None and path.is_relative_to(self.root) else None

    def _after_open(self, descriptor: int, path: Any, flags: int, *_mode: Any) -> None:
        parts = self._parts(path)
        if parts is None:
            return
        assert not flags & os.O_TRUNC, "an existing file would be written into"
        if flags & os.O_CREAT:
            assert flags & os.O_EXCL
            self.calls.append(("make_file", parts))
        self._open[descriptor] = (Path(*parts), 0)

    def _after_close(self, _result: None, descriptor: int) -> None:
        self._open.pop(descriptor, None)

    def _after_write(self, count: int, descriptor: int, data: Any) -> None:
        if descriptor in self._open:
            path, offset = self._open[descriptor]
            self.calls.append(("write", path.parts, offset, bytes(data[:count])))
            self._open[descriptor] = (path, offset + count)

    def _after_pwrite(self, count: int, descriptor: int, data: Any, offset: int) -> None:
        self.calls.append(("write", self._open[descriptor][0].parts, offset, bytes(data[:count])))

    def _after_ftruncate(self, _result: None, descriptor: int, length: int) -> None:
        self.calls.append(("truncate", self._open[descriptor][0].parts, length))

    def _after_fsync(self, _result: None, descriptor: int) -> None:
        if descriptor in self._open:
            self.calls.append(("sync", self._open[descriptor][0].parts))

    def _after_link(self, _result: None, source: Any, target: Any) -> None:
        self.calls.append(("link", self._parts(source), self._parts(target)))

    def _after_rename(self, _result: None, source: Any, target: Any) -> None:
        self.calls.append(("rename", self._parts(source), self._parts(target)))

    def _after_unlink(self, _result: None, path: Any) -> None:
        self.calls.append(("unlink", self._parts(path)))

    def _after_mkdir(self, _result: None, path: Any, *_mode: Any) -> None:
        if self._parts(path):
            self.calls.append(("mkdir", self._parts(path)))

    def _after_rmdir(self, _result: None, path: Any) -> None:
        self.calls.append(("unlink", self._parts(path)))


def _lay_out(folder: _Folder, choose: Callable[[list[Any]], Any], into: Path) -> None:
    into.mkdir()
    for name, found in folder.after_loss(choose).items():
        if isinstance(found, _Folder):
            _lay_out(found, choose, into / name)
        else:
            (into / name).write_bytes(found.after_loss(choose))


def _find(top: _Folder, parts: tuple[str, ...]) -> Any:
    found: Any = top
    for part in parts:
        found = found.names[part]
    return found


def _make_file(top: _Folder, parts: tuple[str, ...]) -> None:
    _find(top, parts[:-1]).set(parts[-1], _File())


def _link(top: _Folder, source: tuple[str, ...], target: tuple[str, ...]) -> None:
    _find(top, target[:-1]).set(target[-1], _find(top, source))


def _rename(top: _Folder, source: tuple[str, ...], target: tuple[str, ...]) -> None:
    _find(top, target[:-1]).set(target[-1], _find(top, source))
    _find(top, source[:-1]).set(source[-1], None)


_DO: dict[str, Callable[..., None]] = {
    "make_file": _make_file,
    "mkdir": lambda top, parts: _find(top, parts[:-1]).set(parts[-1], _Folder()),
    "write": lambda top, parts, offset, data: _find(top, parts).write(offset, data),
    "truncate": lambda top, parts, length: _find(top, parts).truncate(length),
    "sync": lambda top, parts: _find(top, parts).sync(),
    "link": _link,
    "rename": _rename,
    "unlink": lambda top, parts: _find(top, parts[:-1]).set(parts[-1], None),
}
