"""What a plan says of the steps in the body of a ForEach."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from drivetrain.targets.deployer import StartRequest
from drivetrain.targets.sagemaker.deploy.executions import executions
from drivetrain.targets.sagemaker.deploy.executions.execution_report import measured_seconds
from drivetrain.targets.sagemaker.deploy.planning.consequences import warnings
from drivetrain.targets.sagemaker.deploy.planning.forecast import forecast
from drivetrain.targets.sagemaker.document.difference.difference import differences
from tests.fixtures.sagemaker_service.playing import Playing
from tests.unit.targets.sagemaker.deploy.conftest import NAME, Place, definition, processing


def looping(*body: dict[str, Any], items: Any = ("a", "b")) -> dict[str, Any]:
    """A definition whose steps are run once an item, and a step that reads what came of them."""
    arguments = {"IterableItems": list(items), "MaxConcurrency": 2, "ForEachBody": list(body)}
    after = processing("report", result={"Get": "Steps.each.IterationOutputs[0].prepare.Arn"})  # type: ignore[arg-type]
    return {**definition(), "Steps": [{"Name": "each", "Type": "ForEach", "Arguments": arguments}, after]}


def cached(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, tuple[str, ...] | None]:
    """Step -> None where it can be taken from the cache, else why not."""
    found = forecast(old, new, differences(old, new) if old is not None else ())
    return {step.step: None if step.cached else step.why for step in found}


def test_steps_of_a_for_each_body_are_listed() -> None:
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


def test_changed_code_in_a_body_is_reported() -> None:
    def with_code(digest: str) -> dict[str, Any]:
        step = processing("prepare")
        source = {"S3Uri": f"s3://bucket/{digest}", "LocalPath": "/opt/ml/processing/input/code"}
        step["Arguments"]["ProcessingInputs"] = [{"InputName": "code", "S3Input": source}]
        return looping(step)

    assert cached(with_code("a"), with_code("b"))["prepare"] == ("code of each changed",)


def test_default_quotas_are_noted_for_loop_bodies(place: Place) -> None:
    resources = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 32}
    training = {"Name": "big", "Type": "Training", "Arguments": {"ResourceConfig": resources}}
    [told] = warnings(place.wanted(definition=looping(training)))
    assert told.startswith("big: 32 instances of a training job; a new account may have ")


def iterated(place: Place, step: str, minutes: list[int], **last: Any) -> executions.Execution:
    """An execution in which each iteration of a body's step took so long; `last` is said of the last one."""
    playing = Playing(place.outside.backend(), executions.start(place.account, NAME, StartRequest()))
    began = datetime(2026, 1, 1, tzinfo=UTC)
    for index, took in enumerate(minutes):
        ended = began + timedelta(minutes=took)
        playing.begin(f"{step}-{index}", "Processing", ProcessingStartTime=began, ProcessingEndTime=ended)
        context = {"ParentStepName": "each", "Index": index, "Item": "a"}
        more = last if index == len(minutes) - 1 else {}
        playing.end(f"{step}-{index}", IterationContext=context, StepDisplayName="The same for all", **more)
    playing.conclude("Succeeded")
    return executions.describe(place.account, playing.arn)


def test_the_times_of_all_iterations_are_those_of_the_body_step(place: Place) -> None:
    place.apply(place.wanted(definition=looping(processing("size-2"))))
    found = iterated(place, "size-2", [3, 4])
    assert [(step.name, step.title, step.body_step) for step in found.steps] == [
        (f"each[{index}].size-2", f"each[{index}].size-2", "size-2") for index in range(2)
    ]
    assert measured_seconds(place.account, NAME) == {"size-2": 420}
    iterated(place, "size-2", [3, 4], CacheHitResult={"SourcePipelineExecutionArn": found.arn})
    assert measured_seconds(place.account, NAME) == {}
