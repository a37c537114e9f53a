"""An execution that goes on with another definition: what is the same stays done."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.pipelines.definition.document import read
from drivetrain.pipelines.targets.local.events import StepStarted
from drivetrain.pipelines.targets.local.ledger.reader import Ledger
from drivetrain.pipelines.targets.local.redefining import changed_steps, given_parameters
from drivetrain.pipelines.targets.local.runner import Runner
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


def test_what_a_changed_step_had_written_goes(runs: LocalRuns) -> None:
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
