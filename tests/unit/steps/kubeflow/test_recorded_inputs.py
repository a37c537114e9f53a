"""A task with each executor input that real drivers gave writes what the launcher reads, and touches nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drivetrain.steps.kubeflow import __main__ as program
from drivetrain.steps.kubeflow.__main__ import Earlier
from drivetrain.steps.kubeflow.program import Reporter
from drivetrain.steps.kubeflow.task import COPIES, Task
from drivetrain.steps.kubeflow.train_job import Identity
from tests.fixtures.kfp_launcher import LOGS, Launched, Recorded, launched, recorded

Json = dict[str, Any]
RETURNED = {"loss": 0.5, "rows": 7, "kept": True, "why": "ok"}


@pytest.fixture(autouse=True)
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv(COPIES, str(tmp_path / "objects"))


def document_of(given: Recorded) -> Json:
    """What the compiler writes for a task of that kind."""
    if given.run == "decide-no" and not given.outputs:
        return {"step": "stop", "fail": "enough"}
    if "fit-model" in given.outputs:
        chosen = {"pick": "MaxBy", "values": "fit-logged-quality"}
        return {"step": "sweep-selected", "select": {**chosen, "outputs": ["fit-model"], "parameters": []}}
    texts = {name: "why" for name in given.parameters if name.startswith("text-of-")}
    logged = {name: "quality" for name in given.parameters if name.startswith("logged-")}
    metrics = {name: "loss" for name in given.parameters if name not in texts and name not in logged}
    arguments = [{"option": [f"--{name}", {"output": name}]} for name in given.outputs]
    return {
        "step": "work",
        "program": "small:work",
        "arguments": arguments,
        "outputs": list(given.outputs),
        "metrics": metrics,
        "texts": texts,
        "logs": {"quality": r"quality=(\S+)"},
        "logged": logged,
    }


def worked(command: Sequence[str], environment: Mapping[str, str], log: program.Log) -> int:
    """The step's program, in this process."""
    words = command[command.index("small:work") + 1 :]
    for option, folder in zip(words[::2], words[1::2], strict=True):
        assert list(Path(folder).iterdir()) == []
        file, content = ("metrics.json", json.dumps(RETURNED)) if option == "--metrics" else ("made.txt", "made")
        Path(folder, file).write_text(content)
    log.take(b"quality=0.75\n")
    return 0


def run(task: Launched, document: Json, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(program, "start", worked)
    told = Task(task.executor_input, json.dumps(document))
    return program.run(told, Reporter(told))


@pytest.mark.parametrize("given", recorded(), ids=str)
def test_recorded_inputs_have_the_format_of_the_launcher(
    given: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = document_of(given)
    with launched(given, tmp_path) as task:
        if "fail" in document:
            with pytest.raises(SystemExit) as ended:
                run(task, document, monkeypatch)
            assert ended.value.code == 1
        else:
            assert run(task, document, monkeypatch) == 0
    assert task.logs.read_text() == "the program's lines\n", "executor-logs is the launcher's"
    values, artifacts = task.published()
    assert values.keys() == set(given.parameters)
    assert all(value == {"t": '"ok"', "l": 0.75}.get(name[0], 0.5) for name, value in values.items())
    assert artifacts.keys() == {*given.outputs, LOGS}
    for name, artifact in artifacts.items():
        if name == "metrics":  # numbers only, of which newer platforms make metrics
            assert artifact["metadata"] == {"loss": 0.5, "rows": 7} and artifact["files"] == ["metrics.json"]
        elif name != LOGS:
            assert artifact["files"] == (["given.txt"] if "select" in document else ["made.txt"])
            assert artifact["uri"] == given.outputs[name]["uri"]


@pytest.mark.parametrize(("codes", "runs"), [([75, 75, 0], 3), ([75] * 9, 4), ([75, 1], 2), ([1], 1)])
def test_a_retryable_program_failure_is_retried(
    codes: list[int], runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its own pod, with empty outputs: the platform as it is installed tries no program again."""
    [given] = [each for each in recorded() if each.run == "retry-stock"]
    left = list(codes)

    def start(command: Sequence[str], environment: Mapping[str, str], log: program.Log) -> int:
        worked(command, environment, log)
        return left.pop(0)

    monkeypatch.setattr(program, "PAUSE_S", 0.0)
    monkeypatch.setattr(Earlier, "reason", lambda self: None)
    monkeypatch.setattr(Earlier, "write", lambda self, code, reason: None)
    with launched(given, tmp_path) as task:
        monkeypatch.setattr(program, "start", start)
        told = Task(task.executor_input, json.dumps({**document_of(given), "retries": True}))
        assert program.run(told, Reporter(told)) == codes[runs - 1]
    assert len(codes) - len(left) == runs


def test_a_stopped_program_is_not_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [given] = [each for each in recorded() if each.run == "retry-stock"]
    runs: list[int] = []

    def start(command: Sequence[str], environment: Mapping[str, str], log: program.Log) -> int:
        runs.append(1)
        log.is_stopped = True
        return 75

    monkeypatch.setattr(Earlier, "reason", lambda self: None)
    with launched(given, tmp_path) as task:
        monkeypatch.setattr(program, "start", start)
        told = Task(task.executor_input, json.dumps({**document_of(given), "retries": True}))
        assert program.run(told, Reporter(told)) == 75 and len(runs) == 1


def test_all_attempts_of_a_task_are_one() -> None:
    """The platform numbers executor-logs by the attempt, and all else stays."""
    attempts = [each for each in recorded() if each.run == "retry-notemplatedefaults"]
    assert [str(each)[-2:] for each in attempts] == ["-0", "-1", "-2"]
    document = json.dumps({"step": "flaky", "outputs": ["out", "metrics"], "retries": True})
    tasks = [Task(json.dumps(each.executor_input), document) for each in attempts]
    assert len({Identity.of(task) for task in tasks}) == 1
    assert len({Earlier.of(task) for task in tasks}) == 1


def test_a_value_that_json_cannot_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [given] = [each for each in recorded() if each.run == "nan"]
    given = replace(given, executor_input=json.loads(json.dumps(given.executor_input)))
    document = {**document_of(given), "texts": {}, "metrics": {"text-of-loss": "loss"}}
    monkeypatch.setitem(RETURNED, "loss", float("nan"))
    with launched(given, tmp_path) as task, pytest.raises(program.TaskError) as error:
        run(task, document, monkeypatch)
    assert str(error.value) == "step 'work' gave text-of-loss = nan. Allowed there: finite numbers."
