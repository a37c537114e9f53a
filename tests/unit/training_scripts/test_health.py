"""What `show` and `replay` say of a training's records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training.health.flight import COLUMNS, FlightRecorder
from drivetrain.training.health.recording import Recording
from drivetrain.training_scripts import health
from tests.contract.health_rules import overfitting, records
from tests.contract.health_rules.records import NAMES

Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Of a training that was killed after step 200, and had begun to overfit in step 100."""
    recording = Recording(tmp_path / "health", NAMES, 0)
    for record in records.healthy(0, 200):
        recording.add(overfitting.planted(record) if record.step >= 100 else record)
    recording.close()
    recorder = FlightRecorder(tmp_path / "health/flight", 2)
    for step in range(190, 201):
        recorder.add(step, 64.0 * step, 1.7e9, 0.01, 32.0, 64.0, *([0.01 * (step - 189)] * (len(COLUMNS) - 6)))
    recorder.ends("ValueError: no\nmore")
    recorder.close()
    return tmp_path


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def run(*words: Any) -> tuple[int, str, str]:
        code = health.run([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_what_a_training_left_is_shown(output: Path, said: Said) -> None:
    code, out, _ = said("show", output, "--steps", 2)
    assert code == 0
    assert out.startswith(
        "healthy: none of 18 rules failed the training, 1 warned; "
        "200 records, 200 of them with tensors, and 10 validations"
    )
    assert "(the training has not ended, or was killed" in out
    assert "  warn  overfitting at step 140, 4 times until step 200: validation_loss was best at step 80" in out
    assert "rank 2: last step 200, ended by ValueError: no\n" in out
    assert "  step 199  samples 12736  loss 0.5  " in out and "step 198" not in out
    assert "own ms a step" in out
    told = json.loads(said("show", output / "health", "--json")[1])
    assert told["findings"][0]["rule"] == "overfitting" and len(told["flights"][0]["steps"]) == health.LAST_STEPS


def test_what_a_training_left_is_judged_by_its_own_rules(output: Path, said: Said) -> None:
    """And by the usual ones where a module of its own is not here."""
    (output / "health/rules.json").write_text('{"overfitting": {"action": "fail", "validations": 1}}')
    out = said("show", output)[1]
    assert out.startswith("not healthy: 1 of 18 rules failed the training; ")
    assert "  fail  overfitting at step 100" in out
    (output / "health/rules.json").write_text('{"a_module_of_mine": {}}')
    code, out, err = said("show", output)
    assert code == 0 and "a_module_of_mine" in err
    assert out.startswith("healthy: none of 18 rules failed the training, 1 warned; ")


def test_the_killed_rank_is_named(output: Path, said: Said) -> None:
    (output / "health/flight/rank-00002.json").write_text('{"rank": 2, "reason": "SIGKILL (often)", "by": "signal"}')
    code, out, _ = said("show", output)
    assert code == 0 and out.splitlines()[1] == "rank 2 was ended after step 200 by SIGKILL (often)"
    assert "rank 2: last step 200, ended by SIGKILL (often)\n" in out


def test_rules_are_applied_anew(output: Path, said: Said) -> None:
    other = '{"overfitting": {"validations": 1, "action": "fail"}}'
    told = json.loads(said("replay", output, "--rules", other, "--json")[1])
    (finding,) = told["findings"]
    assert (finding["step"], finding["action"], told["healthy"]) == (100, "fail", False)
    code, out, _ = said("replay", output, "--rules", '{"overfitting": "off"}')
    assert code == 0 and out.startswith("healthy: none of 17 rules found anything; ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["show", "/nowhere"], "error: /nowhere holds no health/records.jsonl. Give the output folder"),
        (["replay", "{output}", "--rules", "{"], "error: health_rules '{' are not JSON"),
        (["replay", "{output}", "--rules", '{"overfit": {}}'], "error: no health rule 'overfit'. Did you mean"),
        (
            ["replay", "{output}", "--rules", '{"overfitting": {"share": -1}}'],
            "error: health rule 'overfitting': share=-1; allowed is a number from 0.",
        ),
    ],
)
def test_invalid_requests_are_refused(words: list[str], says: str, output: Path, said: Said) -> None:
    code, out, err = said(*(str(output) if word == "{output}" else word for word in words))
    assert (code, out) == (2, "") and err.startswith(says)


def test_a_damaged_file_is_refused(output: Path, said: Said) -> None:
    (output / "health/health.json").write_text("[]")
    assert said("show", output) == (2, "", f"error: {output}/health/health.json is no summary of ours. Give the output "
                                           "folder of a training.\n")  # fmt: skip
    (output / "health/health.json").unlink()
    (output / "health/flight/rank-00002.bin").write_bytes(b"x")
    code, _, err = said("show", output)
    assert code == 2 and "is no file of a flight recorder" in err


def test_a_reader_that_goes_away_is_no_error(output: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "drivetrain.training_scripts.health", "show", str(output)]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")
