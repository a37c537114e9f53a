"""Environments of their own for the peers and for us, made on demand and kept in the user's cache folder.

An environment is named by the hash of what was asked for, so a changed pin makes a new one. It is made without pip:
all that lies in it is there because the requirements asked for it, and can be counted.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PEERS = ROOT / "tests" / "benchmarks" / "peers"
SCIKIT_LEARN = PEERS / "scikit-learn.txt"
# Written last: an environment without it was interrupted and is made again.
MARKER = "environment.json"
SOURCES = ("components", "pipelines", "training_scripts", "infra")


class Unavailable(RuntimeError):
    """The environment cannot be made here (no index, no wheel for this platform); the row says so."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment with what its core install cost: `packages` distributions, `size` bytes."""

    folder: Path
    packages: int
    size: int

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def python(self) -> Path:
        return self.bin / "python"


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "drivetrain" / "bench"


def peer(name: str, progress: Callable[[str], None]) -> Environment:
    """The environment of a peer, with scikit-learn for the pipeline beside it.

    Raises:
        Unavailable: when it cannot be installed.
    """
    requirements = PEERS / name / "requirements.txt"

    def core(folder: Path) -> None:
        _pip(folder, "-r", requirements)

    def more(folder: Path) -> None:
        _pip(folder, "-r", SCIKIT_LEARN, "pip")  # kfp.local calls pip for a component unless told not to

    key = requirements.read_text(encoding="utf-8") + SCIKIT_LEARN.read_text(encoding="utf-8")
    return _made(name, key, core, more, progress)


def ours(progress: Callable[[str], None]) -> Environment:
    """Our core install from a wheel of this tree, with scikit-learn beside it.

    What we depend on is kept between runs; we ourselves are built and installed anew each time.

    Raises:
        Unavailable: when it cannot be installed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        wheel = _wheel(Path(scratch))

        def core(folder: Path) -> None:
            _pip(folder, "-c", ROOT / "constraints.txt", wheel)

        def more(folder: Path) -> None:
            _pip(folder, "-r", SCIKIT_LEARN)

        key = (ROOT / "pyproject.toml").read_text(encoding="utf-8") + SCIKIT_LEARN.read_text(encoding="utf-8")
        made = _made("drivetrain", key, core, more, progress)
        with _locked(made.folder):
            _pip(made.folder, "--no-deps", "--force-reinstall", wheel)
        return made


def _made(
    name: str,
    key: str,
    core: Callable[[Path], None],
    more: Callable[[Path], None],
    progress: Callable[[str], None],
) -> Environment:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(f"{version}\n{key}".encode()).hexdigest()[:12]
    folder = cache_folder() / f"{name}-py{version}-{digest}"
    with _locked(folder):
        marker = folder / MARKER
        if not marker.exists():
            progress(f"installing {name} into {folder}")
            shutil.rmtree(folder, ignore_errors=True)
            _call([sys.executable, "-m", "venv", "--without-pip", folder], 120)
            core(folder)
            packages, size = installed(folder)
            more(folder)
            marker.write_text(json.dumps({"packages": packages, "size": size}), encoding="utf-8")
        counted = json.loads(marker.read_text(encoding="utf-8"))
    return Environment(folder=folder, packages=counted["packages"], size=counted["size"])


def installed(folder: Path) -> tuple[int, int]:
    """Distributions in an environment, and the bytes of all files in its site-packages."""
    site = next(folder.glob("lib/python*/site-packages"))
    size = sum(path.lstat().st_size for path in site.rglob("*") if not path.is_dir())
    return len(list(site.glob("*.dist-info"))), size


def _wheel(scratch: Path) -> Path:
    """Our wheel, built from a copy: setuptools writes into the tree that it builds."""
    copy = scratch / "tree"
    copy.mkdir()
    for folder in SOURCES:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / file, copy / file)
    _call([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", scratch, copy], 300)
    return next(scratch.glob("*.whl"))


def _pip(folder: Path, *arguments: str | Path) -> None:
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "-q"]
    _call([*pip, "--disable-pip-version-check", "--retries", "1", *arguments], 1200)


def _call(command: list[str | Path], limit: float) -> None:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{' '.join(words[:5])} ... took more than {limit:.0f} s") from error
    if done.returncode != 0:
        reasons = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise Unavailable(reasons[-1][:300] if reasons else f"{' '.join(words[:5])} ended with {done.returncode}")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two benchmarks on one machine share the cache; a lock file that the kernel frees keeps them apart."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
