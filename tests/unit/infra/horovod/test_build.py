"""Wheels of Horovod: what is kept, what a build lacks, and that it ends in time. (`make horovod` builds real ones.)"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.infra.horovod import build


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "drivetrain" / "wheels"


@pytest.fixture
def python(tmp_path: Path) -> str:
    """An interpreter that answers as one with torch of a local version does."""
    program = tmp_path / "python"
    program.write_text(f"""#!{sys.executable}
import json, sys
has = {{"torch": "2.13.0+cpu", "psutil": "7"}}
print(json.dumps([{{name: has[name] for name in sys.argv[3:] if name in has}}, "cp311-x86_64"]))
""")
    program.chmod(0o755)
    return str(program)


def test_a_kept_wheel_is_taken_without_tools(
    cache: Path, python: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = build.place_of("torch", python)
    assert place.parent == cache / "horovod-0.28.1"
    # Horovod's CMake files cannot have a + in the path.
    assert place.name.startswith("torch-2.13.0_cpu-cp311-x86_64-")
    assert build.main(["torch", "--python", python, "--kept"]) == 75
    assert f"there is no Horovod for torch here: no wheel in {place}" in capsys.readouterr().err
    place.mkdir(parents=True)
    (place / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl").touch()
    monkeypatch.setenv("PATH", "")
    for words in ([], ["--kept"]):
        assert build.main(["torch", "--python", python, *words]) == 0
        assert capsys.readouterr().out.strip() == str(place / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl")


def test_another_patch_is_another_wheel(
    python: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = build.key("torch", python)
    monkeypatch.setattr(build, "PATCHES", tmp_path)
    (tmp_path / "one.patch").write_text("another")
    assert build.key("torch", python) != before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["torch", "--python", "/nowhere/python"], "--python /nowhere/python: "),
        (["tensorflow", "--python", "PYTHON"], "has no tensorflow, which Horovod is compiled against"),
        (
            ["torch", "--python", "PYTHON"],
            "needs c++, cmake, make, patch, mpicxx, not on PATH. Install: apt-get install",
        ),
    ],
)
def test_build_problems_are_reported(
    words: list[str],
    said: str,
    cache: Path,
    python: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", "")
    assert build.main([python if word == "PYTHON" else word for word in words]) == 2
    assert said in capsys.readouterr().err


def test_a_command_ends_with_all_that_it_started_when_its_time_is_over(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    command = ["sh", "-c", f"sleep 60 & echo $! > {file}; wait"]
    with (tmp_path / "log").open("a") as log:
        with pytest.raises(build.NotYetError):
            build.call(command, log, time.monotonic() + 0.9)
        with pytest.raises(build.NotYetError):  # nothing is begun after it
            build.call(["touch", str(tmp_path / "begun")], log, time.monotonic() - 1)
    assert not (tmp_path / "begun").exists()
    state = subprocess.run(["ps", "-o", "stat=", "-p", file.read_text()], capture_output=True, text=True).stdout
    assert state.strip()[:1] in ("", "Z")


def test_a_failed_command_says_what_it_said_last(tmp_path: Path) -> None:
    with (tmp_path / "log").open("a") as log, pytest.raises(build.BuildError, match="ended with 3:\nno such header\n"):
        log.write("of an earlier build\n")
        log.flush()
        build.call(["sh", "-c", "echo no such header; exit 3"], log, None)


def test_a_wheel_without_compiled_parts_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "horovod.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("root/horovod/torch/mpi_lib_v2.cpython-311-x86_64-linux-gnu.so", "")
    with pytest.raises(build.BuildError, match="has no horovod/torch/mpi_lib"):
        build.refuse_without_library(wheel, "torch")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("horovod/torch/mpi_lib_v2.cpython-311-x86_64-linux-gnu.so", "")
    build.refuse_without_library(wheel, "torch")


def test_tools_are_named_by_their_packages() -> None:
    with pytest.raises(UserError, match="apt-get install g\\+\\+ cmake make patch libopenmpi-dev"):
        build.refuse_missing_tools({"PATH": os.devnull})
