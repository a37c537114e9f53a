"""smdebug itself, in the environment that `drivetrain setup debugger` makes: what its hook saves is what is read.

make test-in ENV=debugger
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from drivetrain.base.errors import UserError
from drivetrain.infra.debugger import environment
from drivetrain.training.health.smdebug.files import read_trial
from drivetrain.training.health.smdebug.trial import records
from drivetrain.training_scripts import health

ROOT = Path(__file__).parents[2]
MADE = ROOT / ".venvs/debugger"
SCRIPT = ROOT / "tests/fixtures/smdebug/script.py"
# Which of the script's steps are saved: every second one, counted from 0.
SAVED = (1, 3, 5, 7)


@pytest.mark.debugger
def test_tensors_saved_by_an_smdebug_hook_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [str(MADE / "bin/python"), str(SCRIPT), str(tmp_path / "trial")]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    lengths = json.loads(ran.stdout.splitlines()[-1])
    found = {
        record.step: float(np.sqrt(record.tensors["grad_sq"].sum()))
        for record in records(read_trial(tmp_path / "trial"))
        if record.tensors is not None
    }
    assert found == pytest.approx({step: lengths[step - 1] for step in SAVED}, rel=1e-5, nan_ok=True)
    assert health.run(["show", str(tmp_path)]) == 0
    assert "stop  nan_or_inf at step 7: the loss is not finite" in capsys.readouterr().out


@pytest.mark.debugger
def test_a_second_run_leaves_the_environment_unchanged() -> None:
    def state() -> dict[str, int]:
        return {str(path): path.lstat().st_mtime_ns for path in MADE.rglob("*") if "__pycache__" not in path.parts}

    before, said = state(), list[str]()
    assert environment.make(MADE, said.append) == MADE / "bin/python"
    assert len(said) == 1 and said[0].startswith(f"{MADE} is there already, with torch ")
    assert {path: when for path, when in state().items() if Path(path).is_file()} == {
        path: when for path, when in before.items() if Path(path).is_file()
    }


@pytest.mark.debugger
def test_without_a_network_there_is_one_clear_error_and_the_next_run_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # the port of `discard`: nobody listens there
    monkeypatch.setenv("PIP_RETRIES", "1")
    said = list[str]()
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            environment.make(tmp_path / "new", said.append)
        assert "could not be installed: the package index does not answer" in str(caught.value)
        assert str(caught.value).startswith("torch ") and "\n" not in str(caught.value)
    assert said[0].startswith(f"making {tmp_path / 'new'} with Python") and said[2] == said[0]
