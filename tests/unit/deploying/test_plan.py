"""A plan is data: it comes back from its file, whatever target it is of, and nothing else does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drivetrain.base.errors import SpecError, UserError
from drivetrain.deploying.plan import (
    Difference,
    Forecast,
    Origin,
    Plan,
    Terms,
    TriggerChange,
    Upload,
    as_given,
    lines,
    read_plan,
)

PLAN = Plan(
    target="kubeflow",
    pipeline="nightly",
    place="namespace team-a at http://cluster",
    action="update",
    state="s",
    code="c",
    definition_sha256="d",
    version="2-0123456789ab",
    num_steps=3,
    num_parameters=1,
    changes=(
        Difference(text="train: epochs 20 -> 30", place="steps.train", kind="hyperparameter", old=20, new=30),
        Difference(text="", place="steps.evaluate", kind="code", new=None),
    ),
    triggers=(TriggerChange(action="create", kind="schedule", name="daily", lines=("cron 0 0 2 * * ?",)),),
    uploads=(Upload(uri="s3://b/x", bytes=2048), Upload(uri="s3://b/y", bytes=1024)),
    storage="the bucket",
    steps=(Forecast(step="train", cached=False, why=("epochs",)),),
    cost={"lines": ["1 $"], "of": {"train": None}},
    findings=("To run: train (epochs)",),
    notes=("GPU quota",),
    origin=Origin(target="nightly.py", config="a b.yaml", set=("rows=20",), on="kubeflow"),
    discarded=("steps.train",),
)
WRONG: list[tuple[str, Any]] = [
    ("pipeline", 7),
    ("action", "destroy"),
    ("action", None),
    ("state", ["x"]),
    ("num_steps", "3"),
    ("changes", {}),
    ("changes", ["x"]),
    ("changes", [{}]),
    ("triggers", [{"action": "create"}]),
    ("triggers", [{"action": "create", "kind": "rule", "name": "x", "lines": None}]),
    ("uploads", [1]),
    ("drift", None),
    ("overwritten", "all"),
    ("foreign", "no"),
    ("adopted", 1),
    ("num_parameters", True),
    ("uploads", [{"uri": "s3://b/x", "bytes": "7"}]),
    ("steps", [{"step": "train", "cached": "no"}]),
    ("lost", 1),
    ("last_write", ["ana"]),
    ("discarded", "all"),
    ("discarded", [1]),
    ("steps", [{"step": 1, "x": 2}]),
    ("notes", [None]),
    ("cost", []),
    ("permissions", "x"),
    ("origin", {"target": 7}),
    ("origin", {"set": "a=1"}),
    ("origin", {"withheld": 7}),
    ("stranger", 1),
]


def test_a_plan_round_trips_through_its_file() -> None:
    assert read_plan(PLAN.text().encode(), "plan.json") == PLAN
    first, second = json.loads(PLAN.text())["changes"]
    assert (first["old"], first["new"]) == (20, 30)
    assert "old" not in second and second["new"] is None, "null is a value, and what is absent is left out"


def test_a_lone_surrogate_round_trips_through_the_file() -> None:
    plan = PLAN.model_copy(update={"changes": (Difference(text="default", new="\ud800"),)})
    assert read_plan(plan.text().encode(), "plan.json") == plan


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_damaged_plan_file_is_one_clear_error(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=rf"^plan\.json: This is no plan: Plan\.{name}.* Make a new one: ") as refused:
        read_plan(json.dumps({**PLAN.to_json(), name: value}), "plan.json")
    assert "\n" not in str(refused.value)


def test_each_field_must_be_there() -> None:
    said = PLAN.to_json()
    for name in said:
        with pytest.raises(UserError, match=rf"^plan\.json: This is no plan: `{name}` is missing\. Make a new one: "):
            read_plan(json.dumps({key: value for key, value in said.items() if key != name}), "plan.json")


@pytest.mark.parametrize(("text", "says"), [("[]", "This is no plan."), ('{"format": 3}', "of format 4; given 3.")])
def test_invalid_plans_and_earlier_formats_are_refused(text: str, says: str) -> None:
    with pytest.raises(UserError, match=f"^plan.json: .*{says} Make a new one: drivetrain plan PIPELINE --out FILE"):
        read_plan(text, "plan.json")


def test_plans_are_immutable() -> None:
    with pytest.raises(SpecError, match="cannot be changed"):
        PLAN.action = "none"  # pyright: ignore[reportAttributeAccessIssue]


def test_advice_names_the_pipeline_as_it_was_named() -> None:
    assert PLAN.as_given == "nightly.py --target kubeflow -c 'a b.yaml' --set rows=20"
    assert as_given(Origin(definition="x.json", name="n"), "n") == "-d x.json --name n"
    assert as_given(None, "nightly") == "nightly"


def test_only_the_terms_of_a_plan_file_are_trusted() -> None:
    assert PLAN.terms == Terms(discarded=("steps.train",), origin=PLAN.origin)


def test_a_plan_in_words() -> None:
    assert lines(PLAN) == [
        "~ pipeline 'nightly' in namespace team-a at http://cluster",
        "    train: epochs 20 -> 30",
        "+ version 2-0123456789ab",
        "+ schedule 'daily'",
        "    cron 0 0 2 * * ?",
        "+ 2 objects in the bucket, 3.1 kB",
        "To run: train (epochs)",
        "note: GPU quota",
    ]
    made = PLAN.model_copy(update={"action": "create"})
    assert lines(made)[0] == "+ pipeline 'nightly' in namespace team-a at http://cluster: 3 steps, 1 parameters"
    empty = PLAN.model_copy(update={"action": "none"})
    assert lines(empty)[0].startswith("Nothing to do: pipeline 'nightly' in") and empty.is_empty
