"""Selective execution: what is run, what is reused, and what the service would refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store.events import StepStarted
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.run.execution.execution import Execution
from drivetrain.targets.sagemaker.run.options import Options, Request
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.fixtures.local_runs import BUCKET, LocalRuns, output_of

WRITE = """
import sys
from pathlib import Path
Path("/opt/ml/processing/output/out/n.txt").write_text(sys.argv[1])
"""
READ = """
from pathlib import Path
text = Path("/opt/ml/processing/input/data/n.txt").read_text()
Path("/opt/ml/processing/output/out/n.txt").write_text(text + "!")
"""


def gate(then: list[Any], otherwise: list[Any], *needs: str) -> dict[str, Any]:
    conditions = [{"Type": "Equals", "LeftValue": {"Get": "Parameters.Word"}, "RightValue": "yes"}]
    arguments = {"Conditions": conditions, "IfSteps": then, "ElseSteps": otherwise}
    return {"Name": "gate", "Type": "Condition", "Arguments": arguments, "DependsOn": list(needs)}


@pytest.fixture
def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    """prepare -> train -> evaluate -> gate -> deploy | tell, and aside."""
    return [
        runs.processing("prepare", WRITE, outputs=["out"], arguments=[{"Get": "Parameters.Word"}]),
        runs.processing("train", READ, inputs={"data": output_of("prepare", "out")}, outputs=["out"]),
        runs.processing("evaluate", READ, inputs={"data": output_of("train", "out")}, outputs=["out"]),
        gate([runs.processing("deploy", "pass")], [runs.processing("tell", "pass")], "evaluate"),
        runs.processing("aside", "pass"),
        runs.processing("mend", "pass", DependsOn=[{"Step": "train", "Trigger": "Failed"}]),
    ]


PARAMETERS = [{"Name": "Word", "Type": "String", "DefaultValue": "yes"}]


def test_selected_steps_run_with_what_an_earlier_execution_made_of_the_others(
    runs: LocalRuns, steps: list[dict[str, Any]]
) -> None:
    first = runs.start(steps, {"Word": "one"}, parameters=PARAMETERS)
    between = runs.start(steps, {"Word": "two"}, parameters=PARAMETERS)
    runs.put("code/evaluate/evaluate.py", READ.replace('"!"', '"?"'))
    chosen = runs.start(
        steps, {"Word": "one"}, parameters=PARAMETERS, selected=("evaluate",), selected_from=first.execution
    )
    assert chosen.status == "Succeeded"
    assert [event.step for event in runs.of(StepStarted)] == ["evaluate"]
    assert runs.read(f"{BUCKET}/runs/{chosen.execution}/evaluate/out/n.txt") == "one!?"
    with Ledger(runs.home) as ledger:
        rows = {row.name: row for row in ledger.steps(chosen.execution)}
        told = [event.step for event in ledger.events(chosen.execution)]
    assert {name: (row.status, row.cache_of) for name, row in rows.items()} == {
        "prepare": ("Cached", first.execution),
        "train": ("Cached", first.execution),
        "evaluate": ("Succeeded", None),
        "gate": ("NotExecuted", None),
        "deploy": ("NotExecuted", None),
        "tell": ("NotExecuted", None),
        "aside": ("NotExecuted", None),
        "mend": ("NotExecuted", None),
    }
    assert {rows[name].reason for name in ("gate", "aside")} == {"not selected"}
    assert told == [None, "evaluate", "evaluate", None]
    # Without a name it is the latest; what that itself reused is of the execution that made it.
    again = runs.start(steps, parameters=PARAMETERS, selected=("evaluate",))
    with Ledger(runs.home) as ledger:
        assert ledger.step(again.execution, "train").cache_of == first.execution
    assert between.execution != first.execution


def test_a_condition_that_is_not_selected_has_the_outcome_that_it_had(
    runs: LocalRuns, steps: list[dict[str, Any]]
) -> None:
    runs.start(steps, {"Word": "yes"}, parameters=PARAMETERS)
    chosen = runs.start(steps, {"Word": "no"}, parameters=PARAMETERS, selected=("deploy",))
    assert chosen.status == "Succeeded"
    assert [event.step for event in runs.of(StepStarted)] == ["deploy"]
    with pytest.raises(UserError, match=r"the condition gate took the other branch. Select gate, too"):
        runs.start(steps, parameters=PARAMETERS, selected=("tell",))
    both = runs.start(steps, {"Word": "no"}, parameters=PARAMETERS, selected=("gate", "tell", "deploy"))
    assert both.status == "Succeeded"
    assert [event.step for event in runs.of(StepStarted)] == ["tell"]


@pytest.mark.parametrize(
    ("selected", "said"),
    [
        (("prepare", "evaluate"), "train lies between steps that are selected"),
        (("train", "deploy"), "evaluate, gate lie between steps that are selected"),
        (("trian",), "there is no such step. Did you mean 'train'"),
        (("train",), "it needs prepare, and there is no execution to take that from"),
        (("mend",), "it runs when train ends as Failed, so that is to be selected, too"),
        (tuple(f"s{n}" for n in range(51)), "--select names 51 steps. Allowed: 1 to 50"),
    ],
)
def test_invalid_selections_are_reported_before_anything_starts(
    runs: LocalRuns, steps: list[dict[str, Any]], selected: tuple[str, ...], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        runs.start(steps, parameters=PARAMETERS, selected=selected)
    with Ledger(runs.home) as ledger:
        assert ledger.executions() == []


def test_the_reference_must_have_what_is_needed_and_be_of_the_same_pipeline(
    runs: LocalRuns, steps: list[dict[str, Any]]
) -> None:
    broken = runs.processing(
        "train", "raise SystemExit(3)", inputs={"data": output_of("prepare", "out")}, outputs=["out"]
    )
    failing = [steps[0], broken, *steps[2:5]]
    failed = runs.start(failing, parameters=PARAMETERS)
    assert failed.status == "Failed"
    with pytest.raises(UserError, match=f"it needs train, which is Failed there .execution {failed.execution}."):
        runs.start(steps, parameters=PARAMETERS, selected=("evaluate",))
    runs.processing("train", READ)  # the script as it was
    assert runs.start(steps, parameters=PARAMETERS, selected=("train",)).status == "Succeeded"
    with pytest.raises(UserError, match="it is an execution of test, not of other"):
        runs.start(steps, parameters=PARAMETERS, selected=("train",), selected_from=failed.execution, pipeline="other")


def test_a_step_of_a_body_is_selected_with_its_for_each(runs: LocalRuns) -> None:
    fields = {"IterableItems": ["a"], "MaxConcurrency": 1, "ForEachBody": [runs.processing("inner", "pass")]}
    with pytest.raises(UserError, match=r"it stands in the body of each. Select each."):
        runs.start([{"Name": "each", "Type": "ForEach", "Arguments": fields}], selected=("inner",))


@pytest.mark.parametrize(
    ("need", "said"),
    [
        ("first", "--select each: it needs first, which is Failed there"),
        ({"Step": "first", "Trigger": "Failed"}, "--select each: it runs when first ends as Failed, so that is to be"),
    ],
)
def test_a_for_each_needs_what_its_body_depends_on_outside(runs: LocalRuns, need: Any, said: str) -> None:
    body = {"Name": "inner", "Type": "Lambda", "Arguments": {}, "DependsOn": [need]}
    fields = {"IterableItems": ["a"], "MaxConcurrency": 1, "ForEachBody": [body]}
    steps = [
        runs.processing("first", "raise SystemExit(3)"),
        {"Name": "each", "Type": "ForEach", "Arguments": fields},
    ]
    assert runs.start(steps, stubs={"inner": {}}).reason
    assert runs.statuses()["first"] == "Failed"
    with pytest.raises(UserError, match=said):
        runs.start(steps, stubs={"inner": {}}, selected=("each",))


def test_steps_that_are_not_selected_need_not_be_able_to_run_here(runs: LocalRuns, steps: list[dict[str, Any]]) -> None:
    strange = {"Name": "strange", "Type": "Unheard", "Arguments": {}, "DependsOn": ["aside"]}
    assert runs.start([*steps, strange], parameters=PARAMETERS, selected=("prepare",)).status == "Succeeded"


@pytest.fixture
def stopped(runs: LocalRuns, steps: list[dict[str, Any]]) -> Iterator[str]:
    """A selective execution of evaluate that failed, with its reference."""
    runs.start(steps, {"Word": "one"}, parameters=PARAMETERS)
    runs.put("code/evaluate/evaluate.py", "raise SystemExit(1)")
    yield runs.start(steps, {"Word": "one"}, parameters=PARAMETERS, selected=("evaluate",)).execution


def test_resuming_runs_only_selected_steps(runs: LocalRuns, stopped: str) -> None:
    runs.put("code/evaluate/evaluate.py", READ)
    summary = runs.resume(stopped, Options(pipeline="test"))
    assert summary.status == "Succeeded"
    assert [event.step for event in runs.of(StepStarted)] == ["evaluate"]
    assert runs.read(f"{BUCKET}/runs/{stopped}/evaluate/out/n.txt") == "one!!"


def test_the_same_request_with_another_selection_is_another_request(runs: LocalRuns, tmp_path: Path) -> None:
    requests = [
        Request("{}", {}, Options(pipeline="test", selected=names)) for names in ((), ("a",), ("a", "b"), ("b", "a"))
    ]
    hashes = [request.hash for request in requests]
    assert len(set(hashes)) == 3
    assert hashes[2] == hashes[3]
    requests[1].save(tmp_path)
    assert Request.load(tmp_path).options.selected == ("a",)
    assert Runner(runs.home).find_interrupted('{"Steps": []}', {}, Options(pipeline="test", selected=("a",))) is None


@pytest.mark.slow
def test_only_a_run_that_takes_the_others_from_the_same_execution_goes_on(
    runs: LocalRuns, steps: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = runs.start(steps, {"Word": "one"}, parameters=PARAMETERS).execution
    two = runs.start(steps, {"Word": "two"}, parameters=PARAMETERS).execution
    text = runs.text(steps, PARAMETERS)

    def options(source: str | None) -> Options:
        return Options(pipeline="test", selected=("evaluate",), selected_from=source)

    with monkeypatch.context() as patch:
        patch.setattr(Execution, "run", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Runner(runs.home).start(text, {}, options(one))
    with Ledger(runs.home) as ledger:
        interrupted = ledger.execution("latest").id

    def found(source: str | None) -> str | None:
        return Runner(runs.home).find_interrupted(text, {}, options(source))

    assert found(two) is None
    assert found(one) == found(one[:8]) == found(None) == found("latest") == interrupted
    assert Runner(runs.home).start(text, {}, options(two)).status == "Succeeded"
    assert found(one) == interrupted and found(None) is None
