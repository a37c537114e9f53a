"""The power goes while a process works in a folder: what it had made durable is there, and of the rest any part.

`recorded` runs a command with durable.c, which notes what is durable at each instant, and ends it at one of them.
`lose_power` then makes of the folder what a disk may have kept. The model is that of lossy_disk.py: of a folder's names
since its last fsync each is what it is or what it was; of a file's bytes each piece of 512 is there, as before, or
zeros, and its length is any in between. What has not changed is left alone, so that its times stay.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from drivetrain.training.launch.processes.parent import follows_parent
from tests.faults.harness.killing import ROOT

_SOURCE = Path(__file__).with_name("durable.c")
_PIECE = 512
_AT_FDCWD, _NO_FOLLOW, _BIRTH = -100, 0x100, 0x800
_libc = ctypes.CDLL(None, use_errno=True)


def missing() -> str:
    """What this machine lacks to record a process; empty where nothing is."""
    return "" if shutil.which("cc") else "no C compiler: apt-get install gcc"


def built(folder: Path) -> Path:
    """The library that notes what is durable."""
    library = folder / "durable.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"], check=True)
    return library


def recorded(
    command: Sequence[str], library: Path, root: Path, shadow: Path, at: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a command that works below `root`; it is ended at its instant `at`, 0 for never."""
    shadow.mkdir(parents=True)
    told = {"LD_PRELOAD": str(library), "POWER_ROOT": str(root), "POWER_SHADOW": str(shadow), "POWER_AT": str(at)}
    follow = follows_parent(signal.SIGKILL)
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **told}, preexec_fn=follow, capture_output=True, text=True
    )


def instants(shadow: Path) -> int:
    """Of a command that came to its end."""
    return int((shadow / "instants").read_text())


def lose_power(root: Path, shadow: Path, draw: random.Random, likely: float) -> None:
    """Make of the folder what may be left of it.

    Args:
        shadow: what is durable.
        likely: that what was not made durable is there as it was written last.
    """
    _Loss(shadow, draw, likely).folder(root)


class _Loss:
    def __init__(self, shadow: Path, draw: random.Random, likely: float) -> None:
        self._shadow, self._draw, self._likely = shadow, draw, likely

    def folder(self, path: Path) -> None:
        before = self._names(_key_of(path))
        now = {name: (_key_of(path / name), "d" if _is_folder(path / name) else "f") for name in os.listdir(path)}
        for name in sorted({**before, **now}):
            place = path / name
            chosen = now.get(name) if self._is_kept() else before.get(name)
            if chosen is not None and chosen == now.get(name):
                self.folder(place) if chosen[1] == "d" else self._file(place)
                continue
            if name in now:
                shutil.rmtree(place) if now[name][1] == "d" else place.unlink()
            if chosen is not None:
                self._come_back(place, *chosen)

    def _file(self, path: Path) -> None:
        if path.is_symlink():
            return
        before, now = self._durable(_key_of(path)), path.read_bytes()
        if before == now or self._is_kept():
            return
        times = path.stat()
        path.write_bytes(self._torn(before or b"", now))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _torn(self, before: bytes, now: bytes) -> bytes:
        longest = max(len(before), len(now))
        length = self._draw.choice([len(before), len(now), self._draw.randint(0, longest)])
        pieces: list[bytes] = []
        for start in range(0, length, _PIECE):
            chosen = self._draw.choice([now, before, b""])
            pieces.append(chosen[start : start + _PIECE].ljust(_PIECE, b"\0"))
        return b"".join(pieces)[:length]

    def _come_back(self, path: Path, key: str, kind: str) -> None:
        """A name leads to what it led to at the last fsync of its folder."""
        if kind == "f":
            path.write_bytes(self._durable(key) or b"")
            return
        path.mkdir()
        for name, (below, its_kind) in self._names(key).items():
            self._come_back(path / name, below, its_kind)

    def _names(self, key: str) -> Mapping[str, tuple[str, str]]:
        listed = self._durable(key)
        words = (line.split(" ", 2) for line in (listed or b"").decode().splitlines())
        return {name: (its_key, kind) for its_key, kind, name in words}

    def _durable(self, key: str) -> bytes | None:
        noted = self._shadow / key
        return noted.read_bytes() if noted.exists() else None

    def _is_kept(self) -> bool:
        return self._draw.random() < self._likely


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _key_of(path: Path) -> str:
    """Inode and time of birth, as durable.c has it (struct statx of linux/stat.h)."""
    about = ctypes.create_string_buffer(256)
    if _libc.statx(_AT_FDCWD, os.fsencode(path), _NO_FOLLOW, 0x100 | _BIRTH, about):
        raise OSError(ctypes.get_errno(), "statx", str(path))
    inode = int.from_bytes(about.raw[32:40], "little")
    seconds, nanoseconds = int.from_bytes(about.raw[80:88], "little"), int.from_bytes(about.raw[88:92], "little")
    return f"{inode}-{seconds}.{nanoseconds}"
