"""A program or a recipe that is not there, or cannot be imported, through the real launcher: one line, exit code 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REASON = "error: recipe 'bad_import' cannot be imported: ModuleNotFoundError: No module named 'json.no' (bad_import.py"


@pytest.mark.slow
@pytest.mark.parametrize("processes", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_a_recipe_that_cannot_be_imported(processes: int, start: Any, digits: Path, tmp_path: Path) -> None:
    (tmp_path / "bad_import.py").write_text("import json.no\n")
    program = ["drivetrain.training_scripts.train", f"--train={digits}", "--model=model", "--recipe=bad_import"]
    ended = start(f"--processes={processes}", *program)
    _, err = ended.communicate(timeout=120)
    assert ended.returncode == 2
    # torch's store may warn, with its frames, that a rank has ended while another was asking.
    errors = [line for line in err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1 and errors[0].startswith(REASON)
    assert "Traceback" not in err
    assert (tmp_path / "failure").read_text().startswith(REASON)


@pytest.mark.slow
def test_a_recipe_that_cannot_be_imported_as_a_step(digits: Path, tmp_path: Path) -> None:
    (tmp_path / "bad_import.py").write_text("import json.no\n")  # a package that is missing as a whole is named before
    given = [f"--set=train={digits}", "--set=recipe=bad_import", "--processes=1", "--source=.", "--home=home"]
    command = [sys.executable, "-m", "drivetrain.cli.main", "submit", "train", *given]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode != 0
    assert REASON in ended.stderr + ended.stdout
    assert "importlib" not in ended.stderr + ended.stdout


@pytest.mark.slow
def test_a_module_that_does_not_exist(start: Any, tmp_path: Path) -> None:
    for name, said in {
        "drivetrain.training_scripts.trian": "Did you mean 'drivetrain.training_scripts.train'?",
        "no.such.module": "Give a module that Python finds from here, or --script PATH.",
    }.items():
        ended = start(name, "--epochs=1")
        out, err = ended.communicate(timeout=60)
        assert (ended.returncode, out) == (2, "")
        assert err.startswith(f"error: no module {name!r}. ") and said in err and err.count("\n") == 1
        assert (tmp_path / "failure").read_text() == err


@pytest.mark.slow
def test_a_module_that_is_missing_inside_the_program_is_the_programs_own_error(start: Any, tmp_path: Path) -> None:
    (tmp_path / "broken_program.py").write_text("import nosuchmodule\n")
    ended = start("broken_program")
    _, err = ended.communicate(timeout=60)
    assert ended.returncode == 1
    assert "No module named 'nosuchmodule'" in err and 'broken_program.py", line 1' in err
    assert os.path.isfile(tmp_path / "failure")


@pytest.mark.slow
def test_a_file_in_a_modules_place_is_not_run(start: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("print('it ran')\n")
    ended = start("mine.py")
    out, err = ended.communicate(timeout=60)
    assert (ended.returncode, out) == (2, "")
    assert err == "error: no module 'mine.py'. It is a file: give --script mine.py\n"
