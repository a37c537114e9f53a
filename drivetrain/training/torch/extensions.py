"""Extensions that torch compiles when a script first uses them (torch.utils.cpp_extension.load): where, and one at a
time.

torch's own lock is a file, which a killed process leaves behind and at which every later one waits in silence. Ours is
held by its process, ends with it, and names it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from drivetrain.base.file_locks import hold

FOLDER = "TORCH_EXTENSIONS_DIR"


def folder(environment: Mapping[str, str]) -> str:
    """The folder of a job's extensions: as given, or one folder for these versions, compiler and processor."""
    if given := environment.get(FOLDER):
        return given
    compiler = environment.get("CXX", "c++")
    parts = [platform.python_version(), *(_version(name) for name in ("torch", "deepspeed"))]
    parts += [_compiler(compiler), _compiler("nvcc"), environment.get("CUDA_HOME", ""), _processor()]
    name = f"torch{parts[1]}-deepspeed{parts[2]}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]}"
    cache = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/tmp"), ".cache")  # nosec B108
    return str(Path(cache, "torch_extensions", name))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _compiler(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        return ""
    shown = subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return f"{os.path.realpath(path)} {shown.stdout}"


def _processor() -> str:
    """Its instructions: extensions are compiled for the machine that compiles them."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.exists() else []
    return platform.machine() + next((line for line in lines if line.startswith(("flags", "Features"))), "")


class Lock:
    """In the place of torch's FileBaton. Who has waited goes on to the build, which finds what is there already."""

    def __init__(self, lock_file_path: str, *given: object, **options: object) -> None:
        self._path, self._file = f"{lock_file_path}.held", -1

    def try_acquire(self) -> bool:
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            hold(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._file, 1000, 0).decode(errors="replace")
            # The processes of one job would all say it.
            if f"of {_job()}" not in owner:
                _say(f"waiting for {owner or 'another process'}, which compiles {self._name}")
            hold(self._file, fcntl.LOCK_EX)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"process {os.getpid()} of {_job()}".encode(), 0)
        if not any(Path(self._path).parent.glob("*.so")):
            _say(f"compiling {self._name} in {Path(self._path).parent}; this takes minutes the first time")
        return True

    def wait(self) -> None:
        raise AssertionError("try_acquire waits itself")

    def release(self) -> None:
        os.close(self._file)

    @property
    def _name(self) -> str:
        return Path(self._path).parent.name


def _job() -> str:
    return f"job {os.getppid()} on {socket.gethostname()}"


def _say(text: str) -> None:
    print(f"torch extension: {text}", file=sys.stderr, flush=True)


def own_locks() -> None:
    """Lock extensions of this process by `Lock`."""
    from torch.utils import file_baton

    file_baton.FileBaton = Lock  # type: ignore[misc,assignment]
    if loaded := sys.modules.get("torch.utils.cpp_extension"):
        vars(loaded)["FileBaton"] = Lock
