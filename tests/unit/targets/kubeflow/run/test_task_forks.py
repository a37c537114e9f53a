"""Tasks as forks of one interpreter: what they are given and give, and what happens when it is gone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from drivetrain.targets.kubeflow.run.task_forks import TaskForks
from tests.unit.steps.kubeflow.test_task_program import MODULE, given, working

SHA = "0" * 64
COMMAND = f'c={SHA}; test "$DRIVETRAIN_UNPACKED" = $c && exec "python3" -m drivetrain.steps.kubeflow "$0"'
OTHERWISE = 99


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "s3" / "bucket" / "data").mkdir(parents=True)
    (tmp_path / "s3" / "bucket" / "data" / "rows.csv").write_text("1")
    (tmp_path / "worked.py").write_text(MODULE)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("DRIVETRAIN_OBJECT_STORE", str(tmp_path / "s3"))
    return tmp_path


def otherwise(full_command: Sequence[str], env_vars: Mapping[str, str]) -> int:
    return OTHERWISE


@pytest.fixture
def forks(store: Path) -> Iterator[TaskForks]:
    found = TaskForks(otherwise, {SHA: [str(store / "package"), str(store)]})
    yield found
    found.end()


def command(store: Path) -> list[str]:
    return ["sh", "-c", COMMAND, json.dumps(given(store))]


def told(*more: object, **document: object) -> dict[str, str]:
    known = {"step": "work", "outputs": ["made", "metrics"]}
    return {"DRIVETRAIN_TASK": json.dumps({**known, **working(*more, **document)})}


def test_a_task_is_a_fork(forks: TaskForks, store: Path) -> None:
    before = dict(os.environ)
    assert forks.run(command(store), told({"option": ["--text", "it's"]}, metrics={"rows": "rows"})) == 0
    assert (store / "s3" / "out" / "made" / "text.txt").read_text() == "it's|0.0|['rows.csv']|[]"
    made = (store / "s3" / "out" / "made" / "process.txt").read_text()
    assert made.startswith("call.py ") and "drivetrain.steps.kubeflow.forks" in made
    assert json.loads((store / "out" / "executor_output.json").read_text())["parameterValues"] == {"rows": 7}
    assert forks.run(command(store), told({"option": ["--ends", "bad"]})) == 2
    assert forks.run(command(store), told({"option": ["--ends", "lost"]})) == 75
    assert dict(os.environ) == before


def test_other_commands_run_as_kfp_runs_them(forks: TaskForks, store: Path) -> None:
    assert forks.run(["sh", "-c", "true", "{}"], told()) == OTHERWISE
    assert forks.run([*command(store)[:2], COMMAND.replace(SHA, "1" * 64), "{}"], told()) == OTHERWISE
    assert forks.run(command(store), {}) == OTHERWISE


def test_without_the_interpreter_tasks_run_as_kfp_runs_them(forks: TaskForks, store: Path) -> None:
    forks.process.kill()
    forks.process.wait()
    assert forks.run(command(store), told()) == OTHERWISE


def test_a_task_whose_interpreter_is_killed_has_failed(
    forks: TaskForks, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have done anything, so it is not run again."""
    monkeypatch.setenv("DRIVETRAIN_SOURCE", str(store))
    (store / "killing.py").write_text("import os, signal, sys\nos.kill(int(sys.argv[1]), signal.SIGKILL)\n")
    document = {"step": "kill", "program": "script:killing.py", "arguments": [str(forks.process.pid)]}
    assert forks.run(command(store), {"DRIVETRAIN_TASK": json.dumps(document)}) == 137
