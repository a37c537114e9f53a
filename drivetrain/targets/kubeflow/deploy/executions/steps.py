"""The steps of a run: what its spec says there is, joined with what its tasks say happened.

A task of the platform shows as several: a driver that prepares it, the task itself, and below it the `executor` whose
pod runs the program, which is skipped where the result comes from the cache. The task itself is the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

from drivetrain.targets.kubeflow.compile.notices import STEPS
from drivetrain.targets.kubeflow.deploy.service import part, seconds

Json = Mapping[str, Any]
EXECUTOR = "executor"
CONDITION, LOOP, TASK = "Condition", "ForEach", "Task"
_STATUSES = {"SUCCEEDED": "Succeeded", "FAILED": "Failed", "CANCELED": "Stopped", "SKIPPED": "NotExecuted"}
# Of several iterations, the status that is told first.
_FIRST = ("Failed", "Stopped", "Executing", "Succeeded", "Cached", "NotExecuted")


@dataclass(frozen=True)
class Planned:
    """A step that a spec has."""

    name: str
    type: str
    title: str
    repeated: bool = False
    """In the body of a loop."""


@dataclass(frozen=True)
class StepRun:
    """What happened of one step. Times are seconds since the epoch."""

    name: str
    title: str
    type: str
    status: str
    started: float | None = None
    ended: float | None = None
    reason: str | None = None
    pods: tuple[str, ...] = ()
    """Those that run its program, one an iteration."""
    runs: int = 1
    """How often it ran: more than once in the body of a loop."""

    @property
    def shown_status(self) -> str:
        return self.status

    @property
    def seconds(self) -> float | None:
        """Wall time, when it has ended."""
        return None if self.started is None or self.ended is None else self.ended - self.started


def planned(spec: Json) -> list[Planned]:
    """The steps of a spec, in an order in which they may run; those of branches and bodies follow theirs."""
    pipeline: Json = spec.get("pipeline_spec", spec)
    return list(_walk(pipeline, pipeline.get("root", {}).get("dag", {})))


def _walk(pipeline: Json, dag: Json, *, repeated: bool = False) -> Iterator[Planned]:
    tasks: Json = dag.get("tasks", {})
    before = {name: sorted(tasks[name].get("dependentTasks", ())) for name in sorted(tasks)}
    executors: Json = pipeline.get("deploymentSpec", {}).get("executors", {})
    for name in TopologicalSorter(before).static_order():
        task: Json = tasks.get(name, {})
        component: Json = pipeline.get("components", {}).get(task.get("componentRef", {}).get("name"), {})
        if "importer" in executors.get(component.get("executorLabel", ""), {}):
            continue
        title = str(task.get("taskInfo", {}).get("name") or name)
        inner: Json | None = component.get("dag")
        if inner is None:
            yield Planned(name, TASK, title, repeated)
            continue
        if name == STEPS:  # all of a pipeline that has a notice
            yield from _walk(pipeline, inner)
            continue
        loops = "parameterIterator" in task
        yield Planned(name, LOOP if loops else CONDITION, title, repeated)
        for branch in _branches(pipeline, name, inner) or (inner,):
            yield from _walk(pipeline, branch, repeated=repeated or loops)


def _branches(pipeline: Json, name: str, dag: Json) -> list[Json]:
    """The DAGs of a condition's branches; none where it is no condition."""
    tasks: Json = dag.get("tasks", {})
    labels = [tasks[task]["componentRef"]["name"] for branch in ("then", "otherwise")
              if (task := f"{name}-{branch}") in tasks]  # fmt: skip
    return [pipeline["components"][label]["dag"] for label in labels]


def step_runs(spec: Json, details: Sequence[Json]) -> Iterator[StepRun]:
    """What happened of the steps that have begun."""
    by_name: dict[str, list[Json]] = {}
    for detail in details:
        by_name.setdefault(str(detail.get("display_name") or ""), []).append(detail)
    for step in planned(spec):
        found = by_name.get(step.name) or (by_name.get(step.title) if step.title != EXECUTOR else None)
        if found:
            yield _step_run(step, found, details)


def _step_run(step: Planned, found: Sequence[Json], details: Sequence[Json]) -> StepRun:
    executors = [each for one in found for each in _executors(one, details)]
    status = min((_status(one, details) for one in found), key=_FIRST.index)
    starts = [at for one in found if (at := seconds(one.get("start_time") or one.get("create_time"))) is not None]
    ends = [at for one in found if (at := seconds(one.get("end_time"))) is not None]
    messages: list[Any] = [part(one, "error").get("message") for one in (*found, *executors)]
    over = status != "Executing" and len(ends) == len(found)
    return StepRun(
        name=step.name,
        title=step.title,
        type=step.type,
        status=status,
        started=min(starts, default=None),
        ended=max(ends, default=None) if over else None,
        reason=next((str(each) for each in messages if each), None),
        pods=tuple(str(each["pod_name"]) for each in (executors or found) if each.get("pod_name")),
        runs=len(found),
    )


def _status(detail: Json, details: Sequence[Json]) -> str:
    status = _STATUSES.get(str(detail.get("state") or ""), "Executing")
    executors = _executors(detail, details)
    if status == "Succeeded" and executors and all(each.get("state") == "SKIPPED" for each in executors):
        return "Cached"
    return status


def _executors(detail: Json, details: Sequence[Json]) -> list[Json]:
    """The executors below a task, however deep: children are named by their ids, or by their pods."""
    found: list[Json] = []
    waiting, seen = [detail], {id(detail)}
    while waiting:
        above = waiting.pop()
        task = str(above.get("task_id") or "")
        children: Sequence[Json] = above.get("child_tasks") or ()
        named = {str(child[key]) for child in children for key in ("task_id", "pod_name") if child.get(key)}
        for each in details:
            own = {str(each[key]) for key in ("task_id", "pod_name") if each.get(key)}
            if id(each) not in seen and (own & named or (task and each.get("parent_task_id") == task)):
                seen.add(id(each))
                waiting.append(each)
                found += [each] if each.get("display_name") == EXECUTOR else []
    return found
