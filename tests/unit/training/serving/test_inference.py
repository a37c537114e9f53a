"""The file that a server imports: the folder that it lies in stays as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.training.serving import inference
from drivetrain.training.serving.code_folder import ENTRY, MODULES

IMPORT = "import sys; sys.path.insert(0, sys.argv[1]); import inference; print(inference.__name__)"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """code/ of a model folder whose own modules are empty."""
    folder = tmp_path / "model" / "code"
    serving = folder / MODULES / "drivetrain" / "training" / "serving"
    serving.mkdir(parents=True)
    for package in (serving, serving.parent, serving.parents[1]):
        (package / "__init__.py").touch()
    for name in ("model", "request", "response"):
        (serving / f"{name}.py").touch()
    assert inference.__file__ is not None
    (folder / ENTRY).write_bytes(Path(inference.__file__).read_bytes())
    return folder


def imported(code: Path, *options: str) -> None:
    done = subprocess.run(
        [sys.executable, "-I", *options, "-c", IMPORT, str(code)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "inference\n", "")


def listed(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.parametrize("options", [(), ("-O",), ("-B",)], ids=" ".join)
def test_no_bytecode_is_left_in_the_model(options: tuple[str, ...], code: Path) -> None:
    before = listed(code)
    imported(code, *options)
    assert listed(code) == before


def test_other_files_stay(code: Path) -> None:
    other = code / "__pycache__" / "mine.cpython-311.pyc"
    other.parent.mkdir()
    other.touch()
    before = listed(code)
    imported(code)
    assert listed(code) == before


def test_bytecode_that_is_kept_elsewhere_stays(code: Path, tmp_path: Path) -> None:
    before = listed(code)
    imported(code, "-X", f"pycache_prefix={tmp_path / 'cache'}")
    assert listed(code) == before
    assert len(list((tmp_path / "cache").rglob("inference.*.pyc"))) == 1


def test_a_folder_that_cannot_be_written(code: Path) -> None:
    before = listed(code)
    code.chmod(0o555)
    try:
        imported(code)
    finally:
        code.chmod(0o755)
    assert listed(code) == before


def test_bytecode_that_cannot_be_taken_away(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder on a medium that became read-only: no reason not to serve."""

    def refused(path: Path, missing_ok: bool = False) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(inference, "__file__", str(code / ENTRY))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(Path, "unlink", refused)
    inference._leave_no_bytecode()
    assert sys.dont_write_bytecode
