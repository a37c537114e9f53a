"""An execution that goes on with another definition: what is the same stays done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drivetrain.run_store.events import ExecutionStarted, StepStarted
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.targets.sagemaker.document.document import read
from drivetrain.targets.sagemaker.run.resume import redefining
from drivetrain.targets.sagemaker.run.resume.redefining import changed_steps, given_parameters
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.fixtures.local_runs import BUCKET, LocalRuns, output_of

MAKE = "import os; open('/opt/ml/processing/output/out/' + os.environ['NAME'], 'w').write('x')"
FAIL = "import os, sys; sys.exit(os.environ.get('CODE', '1') != '0')"
PARAMETERS = [
    {"Name": "Size", "Type": "Integer", "DefaultValue": 1},
    {"Name": "Other", "Type": "String", "DefaultValue": "x"},
]


def steps(runs: LocalRuns, *, name: Any = "a", code: str = "1") -> list[dict[str, Any]]:
    return [
        runs.processing("make", MAKE, outputs=["out"], environment={"NAME": name}),
        runs.processing("fail", FAIL, inputs={"data": output_of("make", "out")}, environment={"CODE": code}),
        runs.processing("last", "pass", DependsOn=["fail"]),
        runs.processing("apart", "pass", environment={"SIZE": {"Get": "Parameters.Size"}}),
    ]


def go_on(runs: LocalRuns, text: str) -> list[str]:
    """The steps that ran."""
    runs.events = []
    summary = Runner(runs.home, runs.events.append).resume("latest", text=text)
    assert summary.status == "Succeeded", summary.reason
    return [event.step for event in runs.of(StepStarted)]


def test_only_what_changed_and_what_needs_it_is_done_again(runs: LocalRuns) -> None:
    assert runs.start(steps(runs), parameters=PARAMETERS).status == "Failed"
    assert go_on(runs, runs.text(steps(runs, code="0"), PARAMETERS)) == ["fail", "last"]
    with Ledger(runs.home) as ledger:
        execution = ledger.execution("latest")
        assert [one.status for one in ledger.steps(execution.id)] == ["Succeeded"] * 4
        assert [one.status for one in ledger.attempts(execution.id, "fail")] == ["Failed", "Succeeded"]
    assert '"CODE": "0"' in (runs.home.run(execution.id) / "definition.json").read_text()


def test_outputs_of_a_changed_step_are_removed(runs: LocalRuns) -> None:
    execution = runs.start(steps(runs), parameters=PARAMETERS).execution
    prefix = f"{BUCKET}/runs/{execution}/make/out/"
    assert [item.name for item in runs.store.find(prefix)] == ["a"]
    assert go_on(runs, runs.text(steps(runs, name="b", code="0"), PARAMETERS)) == ["make", "fail", "last"]
    assert [item.name for item in runs.store.find(prefix)] == ["b"]


def test_steps_come_and_go(runs: LocalRuns) -> None:
    runs.start(steps(runs), parameters=PARAMETERS)
    changed = [runs.processing("first", "pass"), *steps(runs, code="0")[:2]]
    assert sorted(go_on(runs, runs.text(changed, PARAMETERS))) == ["fail", "first"]
    assert list(runs.statuses()) == ["first", "make", "fail"]


def test_given_values_stay_and_new_defaults_count(runs: LocalRuns) -> None:
    runs.start(steps(runs), {"Size": "3"}, parameters=PARAMETERS)
    changed = [{**PARAMETERS[0], "DefaultValue": 9}, {**PARAMETERS[1], "DefaultValue": "y"}]
    assert go_on(runs, runs.text(steps(runs, code="0"), changed)) == ["fail", "last"]
    with Ledger(runs.home) as ledger:
        assert ledger.execution("latest").parameters == {"Size": 3, "Other": "y"}


@pytest.mark.parametrize(("values", "expected"), [((), set[str]()), (("Size",), {"apart"}), (("Other",), set[str]())])
def test_a_parameter_with_another_value_changes_the_steps_that_use_it(
    runs: LocalRuns, values: tuple[str, ...], expected: set[str]
) -> None:
    definition = read(runs.text(steps(runs), PARAMETERS), "d")
    assert changed_steps(definition, definition, values) == expected
    assert given_parameters(definition, {"Size": 1, "Other": "z"}) == {"Other": "z"}


class KilledError(BaseException):
    """The runner died here."""


CHANGES = ["request.json", "definition.json", "ledger", "after the ledger", "outputs", "end"]


@pytest.mark.slow_cases(but=["with the definition-after the ledger"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("again", [False, True], ids=["as it was", "with the definition"])
def test_a_runner_that_dies_while_it_enters_another_definition_leaves_one_that_goes_on(
    runs: LocalRuns, monkeypatch: pytest.MonkeyPatch, change: str, again: bool
) -> None:
    execution = runs.start(steps(runs), parameters=PARAMETERS).execution
    text = runs.text([*steps(runs, name="b", code="0"), runs.processing("more", "pass")], PARAMETERS)

    def dies(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        if change == "ledger":
            patch.setattr(LedgerWriter, "redefine", dies)
        elif change == "outputs":
            patch.setattr(redefining, "items_file", dies)
        elif change in ("request.json", "definition.json", "end"):
            replaced, unlinked = Path.replace, Path.unlink

            def replace(self: Path, target: Path) -> Path:
                if target.name == change:
                    raise KilledError
                return replaced(self, target)

            def unlink(self: Path, missing_ok: bool = False) -> None:
                if change == "end" and self.name == "redefinition.json":
                    raise KilledError
                unlinked(self, missing_ok)

            patch.setattr(Path, "replace", replace)
            patch.setattr(Path, "unlink", unlink)
        else:
            entered = LedgerWriter.redefine

            def enter(self: LedgerWriter, execution: str, **arguments: Any) -> None:
                entered(self, execution, **arguments)
                raise KilledError

            patch.setattr(LedgerWriter, "redefine", enter)
        with pytest.raises(KilledError):
            Runner(runs.home).resume("latest", text=text)
    runs.events = []
    summary = Runner(runs.home, runs.events.append).resume("latest", text=text if again else None)
    assert summary.status == "Succeeded", summary.reason
    assert [item.name for item in runs.store.find(f"{BUCKET}/runs/{execution}/make/out/")] == ["b"]
    assert {event.step for event in runs.of(StepStarted)} == {"make", "fail", "last", "more"}
    assert not (runs.home.run(execution) / "redefinition.json").exists()


def test_a_training_that_went_on_with_another_setting_is_offered_to_no_other_run(runs: LocalRuns) -> None:
    program = "open('/opt/ml/model/w', 'w'); assert '4' in open('/opt/ml/input/config/hyperparameters.json').read()"
    first, then = (runs.training("train", program, hyperparameters={"epochs": epochs}, cache=True) for epochs in "34")
    assert runs.start([first]).status == "Failed"
    assert go_on(runs, runs.text([then])) == ["train"]
    (resumed,) = {event.execution for event in runs.of(ExecutionStarted)}
    runs.events = []
    runs.start([then])
    assert [event.why for event in runs.of(StepStarted)] == [(f"{resumed} was resumed with other settings",)]
    runs.start([then])
    assert runs.statuses() == {"train": "Cached"}
