"""Which steps wait for a fail step, and how the compiled pipeline says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from drivetrain import Dependency, SpecError, fail, register, step, when
from drivetrain.spec.pipeline import Graph
from drivetrain.targets.kubeflow.compile import checks, fails
from drivetrain.targets.kubeflow.compile.notes import notes as uncounted
from tests.fixtures.kubeflow_examples import compiled, load, pipeline, score, tasks, trained

RAW = "s3://own/raw/"
KEPT = {"checkpoint_claim": "kept"}
DATA = step(load, name="data", raw=RAW)
SCORES = step(score, name="scores", data=DATA["data"])
MODEL = trained(name="model")


def held(*steps: Any) -> dict[str, tuple[str, ...]]:
    return fails.held(Graph(pipeline(*steps, settings=KEPT)))


def loaded(name: str, *after: Any) -> Any:
    return step(load, name=name, raw=RAW, after=list(after))


def stopped(condition: Any, name: str = "gate", *then: Any) -> Any:
    return when(condition, then=[*then, fail("no", name=f"{name}-stop")], name=name)


def test_steps_with_more_dependencies_than_the_fail_step_wait_for_it() -> None:
    gate = stopped(SCORES.metric("a") < 0.5)
    steps = [DATA, SCORES, gate, loaded("beside", SCORES), loaded("before", DATA), loaded("free")]
    assert held(*steps, loaded("later", steps[3])) == {"gate-stop": ("later",)}
    assert held(*steps, loaded("after-the-gate", gate)) == {"gate-stop": ("after-the-gate",)}


def test_of_two_steps_with_equal_dependencies_the_later_one_waits() -> None:
    """As many decisions come before both: then the order of the pipeline says which begins."""
    value = SCORES.metric("a")
    first, second = stopped(value < 0.5), when(value > 0.1, then=[loaded("second")], name="other")
    assert held(DATA, SCORES, first, second) == {"gate-stop": ("second",)}
    assert held(DATA, SCORES, second, first) == {"gate-stop": ()}
    assert held(DATA, SCORES, stopped(value < 0.5, "gate", loaded("same"))) == {"gate-stop": ()}


def test_steps_of_other_branches_do_not_wait() -> None:
    gate = when(
        SCORES.metric("a") > 0.5,
        then=[register(model=MODEL["model"], group="g", name="version")],
        otherwise=[fail("no", name="stop")],
        name="gate",
    )
    assert held(DATA, SCORES, MODEL, gate) == {"stop": ()}


def test_a_registration_waits_unless_it_begins_before() -> None:
    version = register(model=MODEL["model"], group="g", name="version")
    gate = stopped(SCORES.metric("a") < 0.5)
    assert held(DATA, SCORES, MODEL, version, gate) == {"gate-stop": ("version",)}
    after = step(score, name="scores", data=DATA["data"], after=[MODEL])
    assert held(DATA, MODEL, after, version, stopped(after.metric("a") < 0.5)) == {"gate-stop": ()}


def test_a_fail_step_stands_beside_the_conditions_that_lead_to_it() -> None:
    """So that what waits for it does not wait for the rest of the branch, and can be read in it."""
    later = loaded("later", loaded_after := loaded("more", SCORES))
    value = SCORES.metric("a")
    inner = when(value < 0.3, then=[loaded("deep")], otherwise=[fail("no", name="stop")], name="inner")
    outer = when(value < 0.5, then=[step(load, name="long", raw=later["data"]), inner], name="outer")
    built = compiled(DATA, SCORES, loaded_after, later, outer)
    assert "stop" in tasks(built)["later"]["dependentTasks"]
    assert "outer" not in tasks(built)["later"]["dependentTasks"]
    (reached,) = built.ir["components"]["comp-stop"]["dag"]["tasks"].values()
    named = "inputs.parameter_values['pipelinechannel--scores--a']"
    assert reached["triggerPolicy"] == {"condition": f"({named} < 0.5) && !({named} < 0.3)"}
    assert set(built.ir["components"]["comp-inner"]["dag"]["tasks"]) == {"inner-then"}
    assert set(built.ir["components"]["comp-outer-then"]["dag"]["tasks"]) == {"long", "inner"}


def test_a_condition_with_nothing_else_in_it_is_the_fail_step() -> None:
    gate = stopped(SCORES.metric("a") < 0.5)
    built = compiled(DATA, SCORES, gate, loaded("later", gate))
    assert "gate" not in tasks(built)
    assert tasks(built)["later"]["dependentTasks"] == ["gate-stop", "import-code", "import-data-raw"]


def test_values_of_a_branch_stay_in_it() -> None:
    """Others wait for the branch, then."""
    inside = step(score, name="inside", data=DATA["data"])
    outer = when(
        SCORES.metric("a") < 0.5,
        then=[inside, when(inside.metric("a") > 0.1, then=[fail("no", name="stop")], name="inner")],
        name="outer",
    )
    version = register(model=MODEL["model"], group="g", name="version")
    built = compiled(DATA, SCORES, outer, MODEL, version, settings=KEPT)
    assert "outer" in tasks(built)["version"]["dependentTasks"]
    assert "stop" in built.ir["components"]["comp-outer-then"]["dag"]["tasks"]


def test_steps_that_would_wait_for_each_other_are_refused() -> None:
    version = register(model=MODEL["model"], group="g", name="version")
    branch = when(SCORES.metric("a") < 0.5, then=[version], name="branch")
    value = step(score, name="value", data=DATA["data"], after=[branch])
    stop = stopped(value.metric("a") < 0.5)
    with pytest.raises(
        SpecError, match=r"Kubeflow Pipelines cannot express this pipeline\.\n  The pipeline: .*->.*: would"
    ):
        compiled(DATA, SCORES, MODEL, branch, value, stop, settings=KEPT)


@pytest.mark.parametrize("registers", [False, True])
def test_steps_that_run_after_any_end_cannot_be_delayed(registers: bool) -> None:
    gate = stopped(SCORES.metric("a") < 0.5)
    anyhow: Sequence[Any] = [Dependency(step="later", trigger="Any")]
    steps: list[Any] = [DATA, SCORES, gate, MODEL, loaded("later", SCORES, gate)]
    if registers:
        steps.append(register(model="s3://own/model/", group="g", name="last", after=anyhow))
    else:
        steps.append(step(load, name="last", raw=RAW, after=anyhow))
    found = pipeline(*steps, settings=KEPT)
    problems, notes = [str(each) for each in checks.check(found)], uncounted(found)
    if registers:
        assert problems == [
            "Step 'last': after 'later': it registers a model, and runs there however 'later' ended: fail step "
            "'gate-stop' cannot keep it from starting. Leave the trigger out."
        ]
    else:
        assert problems == [] and [note for note in notes if note.startswith("Step 'last' runs however 'later' ended")]
