"""The statuses that a job goes through, and how long it may."""

from __future__ import annotations

from itertools import count

import pytest

from drivetrain.targets.sagemaker.run.interruption_simulation.course import Transitions, limit


def test_each_status_ends_when_the_next_begins() -> None:
    clock = count(100.0)
    course = Transitions(lambda: next(clock))
    for status in ("Starting", "Training"):
        course.enter(status)
    course.enter("Interrupted", "taken back")
    course.enter("Starting")
    assert [(one["Status"], one["StartTime"], one["EndTime"]) for one in course.finished()] == [
        ("Starting", 100.0, 101.0),
        ("Training", 101.0, 102.0),
        ("Interrupted", 102.0, 103.0),
        ("Starting", 103.0, 104.0),
        ("Completed", 104.0, 104.0),
    ]
    assert course.finished()[2]["StatusMessage"] == "taken back"
    assert course.began("Training") == 101.0


@pytest.mark.parametrize(
    ("stopping", "worked", "elapsed", "field", "left"),
    [
        ({"MaxRuntimeInSeconds": 60}, 10.0, 50.0, "MaxRuntimeInSeconds", 50.0),
        ({"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 100}, 10.0, 50.0, "MaxRuntimeInSeconds", 50.0),
        ({"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 100}, 10.0, 90.0, "MaxWaitTimeInSeconds", 10.0),
    ],
)
def test_the_earliest_limit_ends_a_job(
    stopping: dict[str, int], worked: float, elapsed: float, field: str, left: float
) -> None:
    found = limit({"StoppingCondition": stopping}, worked_s=worked, elapsed_s=elapsed)
    assert found is not None and (found.field, found.left_s) == (field, left)
    assert f"StoppingCondition.{field}" in found.exceeded
    assert limit({}, worked_s=1.0, elapsed_s=1.0) is None
