"""The steps of a run: what its spec says there is, joined with what its tasks say happened.

The Workflow tells all of it (workflow.py). Without it there are the run's task details, which know neither pods nor
attempts, nor which result came from the cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from typing import Any

from drivetrain.deploying.runs import RemoteStep
from drivetrain.run_store.model import StepRun
from drivetrain.targets.kubeflow.compile.notices import STEPS
from drivetrain.targets.kubeflow.compile.tasks import DOCUMENT
from drivetrain.targets.kubeflow.deploy.executions.workflow import Attempt, Seen
from drivetrain.targets.kubeflow.deploy.service import seconds

Json = Mapping[str, Any]
CONDITION, LOOP, TASK = "Condition", "ForEach", "Task"
_STATUSES = {"SUCCEEDED": "Succeeded", "FAILED": "Failed", "CANCELED": "Stopped", "SKIPPED": "NotExecuted"}
_WHY_NO_LOG = {"Cached": "its result comes from the cache", "NotExecuted": "it was not run"}
_TRY = re.compile(r"\(\d+\)$")
# Of several iterations, the status that is told first.
_FIRST = ("Failed", "Stopped", "Executing", "Succeeded", "Cached", "NotExecuted")


@dataclass(frozen=True, kw_only=True)
class PlannedStep(StepRun):
    """A step that a spec has."""

    loop: str = ""
    """The outermost loop in whose body it is."""
    trains: bool = False
    """It is a training that keeps checkpoints, which says what it starts from."""


@dataclass(frozen=True, kw_only=True)
class PodStep(RemoteStep):
    """One step of a run, and the pods of its program. In the body of a loop it is all of its iterations.

    `attempts` is 1 from its begin on; the pods that the platform tried one after the other are in `programs`.
    """

    messages: tuple[str, ...] = ()
    """Messages of the platform about its failure: of its last pod, then why no other came."""
    iterations: int = 1
    """Those that began."""
    programs: tuple[tuple[Attempt, ...], ...] = ()
    """The attempts of each iteration that ran its program."""
    branch: str = ""
    """The answer of a condition that was decided: yes or no."""
    failed_by: Attempt | None = None
    """The attempt whose program says why it failed."""
    trains: bool = False
    """It is a training that keeps checkpoints."""
    starts: str = ""
    """The start of its training, as its program says it; or that its log cannot be read."""

    @property
    def tried(self) -> int:
        """Pods that ran its program; in a loop, those of the iteration with most."""
        return max(map(len, self.programs), default=0)

    @property
    def pending(self) -> str | None:
        """Why a pod of it has not begun."""
        return next((each[-1].pending for each in self.programs if each[-1].pending), None)

    @property
    def pods(self) -> tuple[str, ...]:
        """The newest pod of each iteration."""
        return tuple(attempts[-1].pod for attempts in self.programs)


def planned(spec: Json) -> list[PlannedStep]:
    """The steps of a spec, in an order in which they may run; those of branches and bodies follow theirs."""
    pipeline: Json = spec.get("pipeline_spec", spec)
    return list(_walk(pipeline, pipeline.get("root", {}).get("dag", {})))


def _walk(pipeline: Json, dag: Json, *, loop: str = "") -> Iterator[PlannedStep]:
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
            executor: Json = executors.get(component.get("executorLabel", ""), {})
            trains = _keeps_checkpoints(executor)
            yield PlannedStep(name=name, type=TASK, title=title, loop=loop, trains=trains)
            continue
        if name == STEPS:  # all of a pipeline that has a notice
            yield from _walk(pipeline, inner)
            continue
        loops = "parameterIterator" in task
        yield PlannedStep(name=name, type=LOOP if loops else CONDITION, title=title, loop=loop)
        for branch in _branches(pipeline, name, inner) or (inner,):
            yield from _walk(pipeline, branch, loop=loop or (name if loops else ""))


def _keeps_checkpoints(executor: Json) -> bool:
    """True where the document of our program has a folder for checkpoints."""
    variables: Iterable[Json] = executor.get("container", {}).get("env") or ()
    return any(each.get("name") == DOCUMENT and '{"place":' in str(each.get("value")) for each in variables)


def _branches(pipeline: Json, name: str, dag: Json) -> list[Json]:
    """The DAGs of a condition's branches; none where it is no condition."""
    tasks: Json = dag.get("tasks", {})
    labels = [tasks[task]["componentRef"]["name"] for branch in ("then", "otherwise")
              if (task := f"{name}-{branch}") in tasks]  # fmt: skip
    dags = [pipeline["components"][label].get("dag") for label in labels]
    return dags if all(dags) else []  # in a pipeline that others compiled, such a task may be a program


def step_runs(
    spec: Json, seen: Mapping[str, list[Seen]], *, ended: str | None, stopped: float | None = None
) -> Iterator[PodStep]:
    """The fate of each step: of all once the run has ended, before that of those that have begun.

    Args:
        ended: the run's status where it has ended. A step that is still told as running has then ended like it.
        stopped: when the run was asked to end. What failed after that was stopped.
    """
    for step in planned(spec):
        found = seen.get(step.name) or (seen.get(step.title) if step.title != step.name else None) or []
        branch = ""
        if step.type == CONDITION and (branches := [f"{step.name}-then", f"{step.name}-otherwise"]):
            taken = [each for each in branches if any(one.status != "NotExecuted" for one in seen.get(each, ()))]
            branch = "yes" if taken == branches[:1] else "no" if taken or seen.get(branches[0]) else ""
        if not found and ended is None:
            continue
        run = _step_run(step, found, ended, stopped)
        if branch and run.status != "NotExecuted":
            # It has decided; what its branch came to is told of the branch's steps.
            run = replace(run, status="Succeeded", ended=None, messages=(), reason=None, branch=branch)
        if run.status in ("Succeeded", "Cached") and any(one.status == "Executing" for one in seen.get(step.loop, ())):
            run = replace(run, status="Executing", ended=None) if ended is None else run
        why = None if run.programs else _WHY_NO_LOG.get(run.status, "no pod of it is known")
        begun = run.status not in _WHY_NO_LOG
        yield replace(run, attempts=int(begun), no_log=why, may_log=run.status == "Executing")


def _step_run(step: PlannedStep, found: list[Seen], ended: str | None, stopped: float | None) -> PodStep:
    told = [(each, _settled(each, ended, stopped)) for each in found]
    status = min((one for _, one in told), key=_FIRST.index, default="NotExecuted")
    begun = [each for each, one in told if one != "NotExecuted"]
    failed = next((each for each, one in told if one == "Failed"), None)
    starts = [each.started for each in begun if each.started is not None]
    ends = [each.ended for each in begun if each.ended is not None]
    programs = tuple(each.attempts for each in found if each.attempts)
    messages = failed.messages if failed else ()
    return PodStep(
        name=step.name,
        title=step.title,
        type=step.type,
        status=status,
        started=min(starts, default=None),
        ended=max(ends, default=None) if status != "Executing" and len(ends) == len(begun) else None,
        reason="; ".join(messages) or None,
        messages=messages,
        iterations=len(begun),
        programs=programs,
        failed_by=failed.attempts[-1] if failed and failed.by_program else None,
        trains=step.trains,
    )


def _settled(seen: Seen, ended: str | None, stopped: float | None) -> str:
    if seen.status == "Executing" and ended is not None:
        return ended
    if seen.status == "Failed" and stopped is not None and (seen.ended is None or seen.ended >= stopped):
        return "Stopped"
    return seen.status


def seen_in_details(details: Iterable[Json]) -> dict[str, list[Seen]]:
    """The fate of each task by a run's task details. One that never began has no state."""
    found: dict[str, dict[bool, list[Seen]]] = {}
    for detail in details:
        name = str(detail.get("display_name") or "")
        status = _STATUSES.get(str(detail["state"]), "Executing") if detail.get("state") else "NotExecuted"
        ended = seconds(detail.get("end_time")) if status != "Executing" else None
        started = seconds(detail.get("start_time") or detail.get("create_time"))
        # With stock 2.17.0 a task comes twice: `make`, and its try `make(0)`.
        tries = found.setdefault(_TRY.sub("", name), {True: [], False: []})
        tries[_TRY.search(name) is None].append(Seen(status, started, ended))
    return {name: both[True] or both[False] for name, both in found.items()}
