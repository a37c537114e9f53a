"""Environments of their own for the peers and for us, made on demand and kept in the user's cache folder.

An environment is named by the hash of what was asked for, so a changed pin makes a new one and ends the old. It is made
without pip: all that lies in it is there because the requirements asked for it, and can be counted.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from tests.benchmarks.harness.timing import OURS

ROOT = Path(__file__).resolve().parents[3]
PEERS = ROOT / "tests" / "benchmarks" / "peers"
SCIKIT_LEARN = PEERS / "scikit-learn.txt"
CONSTRAINTS = ROOT / "constraints.txt"
# Written last: an environment without it was interrupted and is made again.
MARKER = "environment.json"
SOURCES = ("drivetrain", "components", "pipelines", "training_scripts", "infra")

Progress = Callable[[str], None]


class UnavailableError(RuntimeError):
    """The environment cannot be made here (no index, no wheel for this platform); the row says so."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment with what its core install cost: `packages` distributions, `size` bytes.

    As long as it lives nobody else changes the environment.
    """

    folder: Path
    packages: int
    size: int
    lock: TextIO

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def python(self) -> Path:
        return self.bin / "python"


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "drivetrain" / "bench"


def peer(name: str, progress: Progress) -> Environment:
    """The environment of a peer; one that has the pipeline (digits.py) gets scikit-learn beside it.

    Raises:
        UnavailableError: when it cannot be installed.
    """
    requirements = PEERS / name / "requirements.txt"
    has_pipeline = (PEERS / name / "digits.py").exists()
    key = requirements.read_text(encoding="utf-8") + (SCIKIT_LEARN.read_text(encoding="utf-8") if has_pipeline else "")
    core = ["-r", requirements]
    # kfp.local calls pip for a component unless told not to.
    made = _made(name, key, core, ["-r", SCIKIT_LEARN, "pip"] if has_pipeline else [], progress)
    fcntl.flock(made.lock, fcntl.LOCK_SH)  # others may measure with it too
    return made


def ours(progress: Progress) -> Environment:
    """Our core install from a wheel of this tree, with scikit-learn beside it.

    What we depend on is kept between runs; we ourselves are built and installed anew each time.

    Raises:
        UnavailableError: when it cannot be installed.
    """
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    key = "\n".join(asked) + CONSTRAINTS.read_text(encoding="utf-8") + SCIKIT_LEARN.read_text(encoding="utf-8")
    made = _made(OURS, key, ["-c", CONSTRAINTS, *asked], ["-r", SCIKIT_LEARN], progress)
    with tempfile.TemporaryDirectory() as scratch:
        _pip(made.folder, "--no-deps", "--force-reinstall", _wheel(Path(scratch)))
    packages, size = _count(made.folder, f"{OURS}*")
    return replace(made, packages=made.packages + packages, size=made.size + size)


def _made(
    name: str, key: str, core: Iterable[str | Path], more: Iterable[str | Path], progress: Progress
) -> Environment:
    """The environment under an exclusive lock; `core` is what is counted, `more` what is added after."""
    version = f"{name}-py{sys.version_info.major}.{sys.version_info.minor}-"
    folder = cache_folder() / (version + hashlib.sha256(key.encode()).hexdigest()[:12])
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = _locked(folder, progress)
    marker = folder / MARKER
    if not marker.exists():
        progress(f"installing {name} into {folder}")
        shutil.rmtree(folder, ignore_errors=True)
        _call([sys.executable, "-m", "venv", "--without-pip", folder], 120)
        _pip(folder, *core)
        packages, size = _count(folder, "*")
        if more := list(more):
            _pip(folder, *more)
        marker.write_text(json.dumps({"packages": packages, "size": size}), encoding="utf-8")
        _end_older(version, folder)
    counted = json.loads(marker.read_text(encoding="utf-8"))
    return Environment(folder=folder, packages=counted["packages"], size=counted["size"], lock=lock)


def _locked(folder: Path, progress: Progress) -> TextIO:
    """Two benchmarks on one machine share the cache; a lock that the kernel frees keeps them apart."""
    lock = open(f"{folder}.lock", "w", encoding="utf-8")  # noqa: SIM115 - held for as long as the environment is used
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        progress(f"another benchmark uses {folder.name}: waiting for it to end")
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _end_older(version: str, kept: Path) -> None:
    """Remove environments of other pins, unless somebody measures with them at this moment."""
    for folder in kept.parent.glob(f"{version}*"):
        if folder == kept or not folder.is_dir():
            continue
        with open(f"{folder}.lock", "w", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(folder)


def _count(folder: Path, names: str) -> tuple[int, int]:
    """Distributions, and bytes of all files, in site-packages below entries of these names."""
    site = next(folder.glob("lib/python*/site-packages"))
    files = [path for entry in site.glob(names) for path in (entry.rglob("*") if entry.is_dir() else [entry])]
    return len(list(site.glob(f"{names}.dist-info"))), sum(file.lstat().st_size for file in files if not file.is_dir())


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
        raise UnavailableError(f"{' '.join(words[:5])} ... took more than {limit:.0f} s") from error
    if done.returncode != 0:
        reasons = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise UnavailableError(reasons[-1][:300] if reasons else f"{' '.join(words[:5])} ended with {done.returncode}")
