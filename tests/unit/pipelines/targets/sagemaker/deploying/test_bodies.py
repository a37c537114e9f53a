"""What a plan says of the steps in the body of a ForEach."""

from __future__ import annotations

from typing import Any

from drivetrain.pipelines.definition.difference import differences
from drivetrain.pipelines.targets.sagemaker.deploying.forecast import forecast
from drivetrain.pipelines.targets.sagemaker.deploying.limits import warnings
from tests.unit.pipelines.targets.sagemaker.deploying.conftest import Place, definition, processing


def looping(*body: dict[str, Any], items: Any = ("a", "b")) -> dict[str, Any]:
    """A definition whose steps are run once an item, and a step that reads what came of them."""
    arguments = {"IterableItems": list(items), "MaxConcurrency": 2, "ForEachBody": list(body)}
    after = processing("report", result={"Get": "Steps.each.IterationOutputs[0].prepare.Arn"})  # type: ignore[arg-type]
    return {**definition(), "Steps": [{"Name": "each", "Type": "ForEach", "Arguments": arguments}, after]}


def cached(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, tuple[str, ...] | None]:
    """Step -> None where it can be taken from the cache, else why not."""
    found = forecast(old, new, differences(old, new) if old is not None else ())
    return {step.step: None if step.cached else step.why for step in found}


def test_steps_in_the_body_of_a_for_each_are_told_too() -> None:
    item: Any = {"Get": "ForEach.CurrentItem"}
    base = looping(processing("prepare", rows="10"), processing("train", after="prepare"), processing("own", item=item))
    assert cached(None, base) == dict.fromkeys(("prepare", "train", "own", "report"), ("it is new",))
    assert cached(base, base) == dict.fromkeys(("prepare", "train", "own", "report"))
    rows = looping(processing("prepare", rows="20"), *base["Steps"][0]["Arguments"]["ForEachBody"][1:])
    found = cached(base, rows)
    assert found["prepare"] == ("--rows 10 -> 20",) and found["train"] == ("prepare runs again",)
    assert found["own"] is None and found["report"] == ("each runs again",)
    # Other items are of concern to those who read them.
    others = cached(base, looping(*base["Steps"][0]["Arguments"]["ForEachBody"], items=("a", "c")))
    assert others["own"] == ("IterableItems [a, b] -> [a, c]",) and others["prepare"] is None
    # How many go at once is no part of the key.
    slower = looping(*base["Steps"][0]["Arguments"]["ForEachBody"])
    slower["Steps"][0]["Arguments"]["MaxConcurrency"] = 1
    assert set(cached(base, slower).values()) == {None}


def test_a_step_that_moves_into_a_body_is_compared_with_what_it_was() -> None:
    outside = {**definition(), "Steps": [processing("prepare"), processing("train", after="prepare")]}
    moved = cached(outside, looping(processing("prepare")))
    assert moved["prepare"] is not None and moved["report"] == ("it is new",)
    assert "train" not in moved


def test_code_that_changed_in_a_body_is_said() -> None:
    def with_code(digest: str) -> dict[str, Any]:
        step = processing("prepare")
        source = {"S3Uri": f"s3://bucket/{digest}", "LocalPath": "/opt/ml/processing/input/code"}
        step["Arguments"]["ProcessingInputs"] = [{"InputName": "code", "S3Input": source}]
        return looping(step)

    assert cached(with_code("a"), with_code("b"))["prepare"] == ("code of each changed",)


def test_quotas_of_a_new_account_are_told_of_a_body(place: Place) -> None:
    resources = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 32}
    training = {"Name": "big", "Type": "Training", "Arguments": {"ResourceConfig": resources}}
    [told] = warnings(place.wanted(definition=looping(training)))
    assert told.startswith("big: 32 instances of a training job; a new account may have ")
