"""Which step runs when, and which never does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drivetrain.run_store.events import StepStatus
from drivetrain.targets.sagemaker.document.document import read
from drivetrain.targets.sagemaker.document.for_each import children
from drivetrain.targets.sagemaker.run.execution.scheduler import Scheduler


def step(name: str, *needs: Any, kind: str = "Processing", **arguments: Any) -> dict[str, Any]:
    return {"Name": name, "Type": kind, "Arguments": arguments, "DependsOn": list(needs)}


def gate(name: str, then: list[Any], otherwise: list[Any], *needs: Any) -> dict[str, Any]:
    conditions = [{"Type": "Equals", "LeftValue": 1, "RightValue": 1}]
    return step(name, *needs, kind="Condition", Conditions=conditions, IfSteps=then, ElseSteps=otherwise)


def scheduler(*steps: dict[str, Any]) -> Scheduler:
    return Scheduler(read(json.dumps({"Steps": steps})))


def play(scheduler: Scheduler, ends: dict[str, StepStatus | bool]) -> list[str]:
    """Run to the end with the given ends (Succeeded unless given; a bool is a condition's outcome); gives the order."""
    order: list[str] = []
    while True:
        for blocked, reason in scheduler.take_blocked():
            scheduler.settle(blocked.name, "NotExecuted", reason=reason)
        taken = scheduler.take()
        if not taken:
            if any(scheduler.blocked(name) for name in scheduler._ready):
                continue
            return order
        for one in taken:
            order.append(one.name)
            end = ends.get(one.name, True if one.type == "Condition" else "Succeeded")
            if isinstance(end, bool):
                scheduler.settle(one.name, "Succeeded", outcome=end)
            else:
                scheduler.settle(one.name, end, reason="it broke")


def test_steps_come_when_what_they_need_has_ended_in_the_definitions_order() -> None:
    plan = scheduler(step("c", "a", "b"), step("b", "a"), step("a"), step("free"))
    assert [one.name for one in plan.take()] == ["a", "free"]
    assert plan.take() == []
    plan.settle("a", "Succeeded")
    [b] = plan.take()
    assert b.name == "b"
    plan.put_back(b)
    assert [one.name for one in plan.take(limit=1)] == ["b"]
    plan.settle("b", "Cached")
    assert [one.name for one in plan.take()] == ["c"]


def test_steps_come_in_the_definitions_order_whichever_could_start_first() -> None:
    plan = scheduler(step("a"), step("b"), step("after b", "b"), step("after a", "a"))
    assert [one.name for one in plan.take()] == ["a", "b"]
    for name in ("a", "b"):
        plan.settle(name, "Succeeded")
    assert [one.name for one in plan.take()] == ["after b", "after a"]


def test_the_branch_not_taken_is_not_executed_nested_ones_neither() -> None:
    inner = gate("inner", [step("x")], [step("y")])
    plan = scheduler(gate("outer", [inner, step("a")], [step("b")]), step("after", "b"))
    assert play(plan, {"outer": True, "inner": False}) == ["outer", "inner", "a", "y"]
    assert {name for name, status in plan.statuses.items() if status == "NotExecuted"} == {"x", "b", "after"}
    assert plan.reasons["b"] == "outer took the other branch"
    assert plan.reasons["after"] == "b was not executed"
    assert plan.status(stopped=False) == ("Succeeded", None)


def test_the_steps_of_a_condition_that_failed_or_was_skipped_do_not_run() -> None:
    plan = scheduler(step("a"), gate("g", [step("x")], [step("y")], "a"))
    play(plan, {"a": "Failed"})
    assert plan.statuses == {"a": "Failed", "g": "NotExecuted", "x": "NotExecuted", "y": "NotExecuted"}
    assert plan.status(stopped=False) == ("Failed", "a: it broke")


@pytest.mark.parametrize(
    ("trigger", "end", "runs"),
    [
        ("Failed", "Failed", True),
        ("Failed", "Succeeded", False),
        ("Failed", "Stopped", False),
        ("Stopped", "Stopped", True),
        ("Any", "Failed", True),
        ("Any", "Succeeded", True),
    ],
)
def test_a_trigger_runs_a_step_because_of_how_another_ended(trigger: str, end: StepStatus, runs: bool) -> None:
    plan = scheduler(step("a"), step("cleanup", {"Step": "a", "Trigger": trigger}))
    play(plan, {"a": end})
    assert plan.statuses["cleanup"] == ("Succeeded" if runs else "NotExecuted")


def test_a_failure_that_a_trigger_took_care_of_completes_with_failures() -> None:
    handler = step("handler", {"Step": "a", "Trigger": "Failed"}, Reason={"Get": "Steps.a.FailureReason"})
    plan = scheduler(step("a"), step("b"), handler)
    play(plan, {"a": "Failed"})
    assert plan.statuses["handler"] == "Succeeded"
    assert plan.status(stopped=False) == ("CompletedWithFailures", "a failed")
    plan = scheduler(step("a"), step("b"), handler)
    play(plan, {"a": "Failed", "b": "Failed"})
    assert plan.status(stopped=False) == ("Failed", "b: it broke")


def test_nothing_starts_after_a_fail_step() -> None:
    plan = scheduler(step("stop", kind="Fail"), step("a"), step("b", "a"))
    [stop, a] = plan.take()
    plan.settle(stop.name, "Failed", reason="enough")
    plan.settle(a.name, "Succeeded")
    assert plan.take() == []
    assert [one.name for one in plan.rest()] == ["b"]
    assert plan.status(stopped=False) == ("Failed", "stop: enough")


def test_a_stopped_execution_is_stopped_whatever_else_happened() -> None:
    plan = scheduler(step("a"), step("b"))
    play(plan, {"a": "Failed", "b": "Stopped"})
    assert plan.status(stopped=True)[0] == "Stopped"


def test_a_thousand_steps_in_a_row_take_no_time_to_speak_of() -> None:
    steps = [step("s0"), *(step(f"s{n}", f"s{n - 1}") for n in range(1, 1000))]
    plan = scheduler(*steps)
    assert len(play(plan, {})) == 1000


def each(name: str, *body: dict[str, Any], needs: tuple[Any, ...] = ()) -> dict[str, Any]:
    return step(name, *needs, kind="ForEach", IterableItems=["x"], MaxConcurrency=2, ForEachBody=list(body))


def expanded(plan: Scheduler, count: int, most: int) -> None:
    """Take the ForEach, which is all that can start, and let its iterations come."""
    [loop] = plan.take()
    plan.expand(loop, [children(loop, index) for index in range(count)], most)


def test_a_for_each_starts_the_earliest_iterations_within_its_limit() -> None:
    plan = scheduler(each("each", step("a"), step("b", "a")), step("after", "each"))
    expanded(plan, 3, most=2)
    assert [one.name for one in plan.take()] == ["a-0", "a-1"]
    assert plan.take() == []
    plan.settle("a-1", "Succeeded")
    assert [one.name for one in plan.take()] == ["b-1"]
    plan.settle("a-0", "Succeeded")
    [b] = plan.take()
    assert b.name == "b-0"
    plan.put_back(b)  # no worker was free; it still counts among those that may run
    assert [one.name for one in plan.take()] == ["b-0"]
    plan.settle("b-0", "Succeeded")
    plan.settle("b-1", "Cached")
    assert [one.name for one in plan.take()] == ["a-2"]
    assert plan.ended_loops() == []
    plan.settle("a-2", "Failed", reason="broke")
    assert [(one.name, reason) for one, reason in plan.take_blocked()] == [("b-2", "a-2 failed")]
    plan.settle("b-2", "NotExecuted")
    [loop] = plan.ended_loops()
    assert (loop.step.name, plan.is_expanded(loop.step)) == ("each", True)
    plan.settle("each", "Failed", reason="a-2: broke")
    assert plan.ended_loops() == []
    assert [one.name for one, _ in plan.take_blocked()] == ["after"]
    assert plan.status(stopped=False) == ("Failed", "each: a-2: broke")


def test_an_iterations_step_that_was_put_back_counts_once_among_those_that_may_run() -> None:
    plan = scheduler(each("each", step("one")))
    expanded(plan, 3, most=2)
    first, second = plan.take()
    plan.put_back(first)
    plan.settle(second.name, "Succeeded")
    assert len(plan.take()) == 2


def test_steps_of_iterations_that_were_done_before_are_not_taken_again() -> None:
    plan = scheduler(each("each", step("a"), step("b", "a")))
    expanded(plan, 3, most=1)
    for name in ("a-0", "a-1", "b-1"):
        plan.settle(name, "Succeeded")
    plan.forget(["a-0", "a-1", "b-1"])
    order: list[str] = []
    while taken := plan.take():
        [one] = taken
        order.append(one.name)
        plan.settle(one.name, "Succeeded")
    assert order == ["b-0", "a-2", "b-2"]
    assert len(plan.ended_loops()) == 1


def test_a_trigger_within_an_iteration_is_of_that_iteration() -> None:
    plan = scheduler(each("each", step("a"), step("mend", {"Step": "a", "Trigger": "Failed"})))
    expanded(plan, 2, most=4)
    plan.take()
    plan.settle("a-0", "Failed", reason="broke")
    plan.settle("a-1", "Succeeded")
    assert [one.name for one in plan.take()] == ["mend-0"]
    assert [(one.name, reason) for one, reason in plan.take_blocked()] == [
        ("mend-1", "a-1 ended Succeeded, and the step waits for Failed")
    ]


@pytest.mark.parametrize("end", ["Failed", "NotExecuted"])
def test_a_for_each_does_not_run_when_what_its_body_depends_on_outside_did_not_succeed(end: StepStatus) -> None:
    plan = scheduler(step("a"), each("each", step("b", "a")), step("after", "each"))
    plan.take()
    plan.settle("a", end)
    words = {"Failed": "a failed", "NotExecuted": "a was not executed"}
    [(loop, reason)] = plan.take_blocked()
    assert (loop.name, reason) == ("each", words[end])
    plan.settle("each", "NotExecuted", reason=reason)
    assert [(one.name, reason) for one, reason in plan.take_blocked()] == [("after", "each was not executed")]


def test_a_for_each_runs_when_its_body_takes_care_of_a_failure_outside() -> None:
    plan = scheduler(step("a"), each("each", step("b", "a"), step("mend", {"Step": "a", "Trigger": "Failed"})))
    plan.take()
    plan.settle("a", "Failed", reason="broke")
    expanded(plan, 1, most=2)
    assert [one.name for one in plan.take()] == ["mend-0"]
    assert [(one.name, reason) for one, reason in plan.take_blocked()] == [("b-0", "a failed")]
