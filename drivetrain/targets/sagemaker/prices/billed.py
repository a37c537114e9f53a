"""The machines of a definition's steps, as far as they can be told before it runs.

What a step is billed for follows from the request that it makes: CreateTrainingJob, CreateProcessingJob,
CreateTransformJob or CreateHyperParameterTuningJob. A step that needs no machines (a condition, a registration) costs
nothing there; one whose cost cannot be told says so in a note.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import as_list, as_object
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.document.expressions import Scope, UnresolvedReference, resolve
from drivetrain.targets.sagemaker.document.step_types import is_processing, step_type

# Without a StoppingCondition a training or processing job ends after a day.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StoppingCondition.html
DEFAULT_MAX_SECONDS = 86_400
JOB, WARM_POOL = "job", "warm pool"
UNKNOWN_MACHINES = "on which machines it runs is only known when it runs."


@dataclass(frozen=True)
class Choice:
    """Machines that a job may get; None for what is only known when it runs."""

    instance_type: str | None
    count: int | None


@dataclass(frozen=True, kw_only=True)
class Machines:
    """Machines that are billed together: the hosts of one kind of one job, as often as the step runs it."""

    step: str
    """The step that runs it; in a ForEach that of its body."""
    kind: str
    """The price that counts: Training, Processing or Transform."""
    choices: tuple[Choice, ...]
    """Several where the service picks one by what it has."""
    volume_gb: float | None = None
    max_seconds: float | None = None
    spot: bool = False
    jobs: int = 1
    what: str = JOB
    """The job itself, or the warm pool that it leaves."""
    untold: str = ""
    """Why nothing can be told of what it costs; empty where it can."""


def machines(step: StepNode, scope: Scope) -> tuple[list[Machines], list[str]]:
    """The machines of a step, and notes on what cannot be told."""
    notes: list[str] = []
    found = list(_machines(step, scope, notes))
    for one in (step, *step.body):
        if (said := _retries(one)) and any(each.step == one.name for each in found):
            notes.append(said if one is step else f"{one.name}: {said}")
    return found, [f"{step.name}: {note}" for note in notes]


def _machines(step: StepNode, scope: Scope, notes: list[str]) -> Iterator[Machines]:
    request = step.arguments
    if step.type == "Training":
        yield from _training(step, scope, notes)
    elif is_processing(step.type):
        resources = as_object(_known(request.get("ProcessingResources"), scope))
        cluster = as_object(_known(resources.get("ClusterConfig"), scope))
        stopping = as_object(_known(request.get("StoppingCondition"), scope))
        yield _plain(step, "Processing", cluster, scope, _seconds(stopping, scope))
    elif step.type == "Transform":
        resources = as_object(_known(request.get("TransformResources"), scope))
        yield _plain(step, "Transform", resources, scope, None)
    elif step.type == "Tuning":
        yield from _tuning(step, scope, notes)
    elif step.type == "ForEach":
        yield from _for_each(step, scope, notes)
    elif not step_type(step.type).is_free:
        yield _untold(step, f"the cost of a step of type {step.type} is not estimated.")


def _training(step: StepNode, scope: Scope, notes: list[str]) -> Iterator[Machines]:
    request = step.arguments
    resources = as_object(_known(request.get("ResourceConfig"), scope))
    stopping = as_object(_known(request.get("StoppingCondition"), scope))
    if not resources:
        serverless = "ServerlessJobConfig" in request
        yield _untold(step, "a serverless job has no price by the hour." if serverless else UNKNOWN_MACHINES)
        return
    if resources.get("TrainingPlanArn"):
        yield _untold(step, "it runs on a training plan, whose capacity is paid for beforehand.")
        return
    spot = _known(request.get("EnableManagedSpotTraining"), scope) is True
    base = _plain(step, "Training", resources, scope, _seconds(stopping, scope))
    # A heterogeneous cluster has hosts of several types, all for the whole job.
    groups = [as_object(_known(group, scope)) for group in as_list(_known(resources.get("InstanceGroups"), scope))]
    parts = [replace(base, spot=spot, choices=(_choice(group, scope),)) for group in groups] or [
        replace(base, spot=spot)
    ]
    yield from parts
    keep = _number(_known(resources.get("KeepAlivePeriodInSeconds"), scope))
    if keep:
        for part in parts:
            yield replace(part, max_seconds=keep, what=WARM_POOL)
    elif resources.get("KeepAlivePeriodInSeconds"):
        notes.append("how long its warm pool stays is only known when it runs.")


def _tuning(step: StepNode, scope: Scope, notes: list[str]) -> Iterator[Machines]:
    request = step.arguments
    config = as_object(_known(request.get("HyperParameterTuningJobConfig"), scope))
    limits = as_object(_known(config.get("ResourceLimits"), scope))
    definitions = [request.get("TrainingJobDefinition"), *as_list(_known(request.get("TrainingJobDefinitions"), scope))]
    found: list[Machines] = []
    for definition in definitions:
        one = as_object(_known(definition, scope))
        if not one:
            continue
        spot = _known(one.get("EnableManagedSpotTraining"), scope) is True
        seconds = _seconds(as_object(_known(one.get("StoppingCondition"), scope)), scope)
        resources = as_object(_known(one.get("ResourceConfig"), scope))
        flexible = as_object(_known(one.get("HyperParameterTuningResourceConfig"), scope))
        base = _plain(step, "Training", resources or flexible, scope, seconds)
        configs = [as_object(_known(each, scope)) for each in as_list(_known(flexible.get("InstanceConfigs"), scope))]
        if configs:
            volumes = [_number(_known(each.get("VolumeSizeInGB"), scope)) for each in configs]
            known = [volume for volume in volumes if volume is not None]
            base = replace(
                base,
                choices=tuple(_choice(each, scope) for each in configs),
                volume_gb=max(known, default=base.volume_gb),
            )
        found.append(replace(base, spot=spot))
    if not found:
        yield _untold(step, UNKNOWN_MACHINES)
        return
    most = _number(_known(limits.get("MaxNumberOfTrainingJobs"), scope))
    if most is None and config.get("Strategy") == "Grid" and "MaxNumberOfTrainingJobs" not in limits:
        ranges = [
            _known(as_object(_known(each, scope)).get("HyperParameterRanges"), scope) for each in definitions if each
        ]
        most = _combinations(
            [as_object(one) or as_object(_known(config.get("ParameterRanges"), scope)) for one in ranges]
        )
    if most is None:
        notes.append("how many training jobs it runs is only known when it runs.")
        found = [replace(one, max_seconds=None) for one in found]
    jobs = 1 if most is None else max(int(most), 0)
    if len(found) == 1:
        yield replace(found[0], jobs=jobs)
        return
    if most is not None:
        notes.append(
            f"its {jobs} jobs use {len(found)} definitions; each is counted at the price of the most expensive one."
        )
    longest = [machine.max_seconds for machine in found if machine.max_seconds is not None]
    volumes = [machine.volume_gb for machine in found if machine.volume_gb is not None]
    yield replace(
        found[0],
        choices=tuple(choice for machine in found for choice in machine.choices),
        spot=all(machine.spot for machine in found),
        max_seconds=max(longest) if len(longest) == len(found) else None,
        volume_gb=max(volumes) if len(volumes) == len(found) else None,
        jobs=jobs,
    )


def _for_each(step: StepNode, scope: Scope, notes: list[str]) -> Iterator[Machines]:
    items = _items(_known(step.arguments.get("IterableItems"), scope))
    count = 1 if items is None else len(items)
    if items is None:
        notes.append("how many items it has is only known when it runs.")
    for child in step.body:
        inner: list[str] = []
        for each in _machines(child, scope, inner):
            yield replace(each, jobs=each.jobs * count, max_seconds=None if items is None else each.max_seconds)
        notes += [f"{child.name}: {note}" for note in inner]


def _items(value: Any) -> list[Any] | None:
    """The items of a ForEach: a list, or the JSON text of one, as a parameter has it."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return cast("list[Any]", value) if isinstance(value, list) else None


def _combinations(ranges: Sequence[Mapping[str, Any]]) -> float | None:
    """How many trainings a grid has, of all its definitions together; None where a range is no list of values."""
    total = 0
    for one in ranges:
        lists = [as_object(each).get("Values") for each in as_list(one.get("CategoricalParameterRanges"))]
        if not lists or not all(isinstance(values, list) for values in lists):
            return None
        total += math.prod(len(cast("list[Any]", values)) for values in lists)
    return float(total) if total else None


def _retries(step: StepNode) -> str:
    """That a step may run its job more often than it is counted; empty where it may not."""
    by_service = as_object(as_object(step.arguments.get("TrainingJobDefinition")) or step.arguments).get(
        "RetryStrategy"
    )
    if not step.retry_policies and not by_service:
        return ""
    given = " and ".join(
        name for name, one in (("RetryPolicies", step.retry_policies), ("RetryStrategy", by_service)) if one
    )
    return f"what its {given} run again after a failure of the service's is not counted."


def _untold(step: StepNode, why: str) -> Machines:
    return Machines(step=step.name, kind="", choices=(Choice(None, None),), untold=why)


def _plain(step: StepNode, kind: str, resources: Mapping[str, Any], scope: Scope, seconds: float | None) -> Machines:
    """Machines of one type, or of the first type of a list that there is capacity of."""
    preferred = as_list(_known(resources.get("InstancePreferences"), scope))
    several = tuple(
        _choice({**resources, **as_object(_known(each, scope))}, scope) for each in preferred if isinstance(each, dict)
    )
    return Machines(
        step=step.name,
        kind=kind,
        choices=several or (_choice(resources, scope),),
        volume_gb=_number(_known(resources.get("VolumeSizeInGB"), scope)),
        max_seconds=seconds,
    )


def _choice(resources: Mapping[str, Any], scope: Scope) -> Choice:
    instance_type = _known(resources.get("InstanceType"), scope)
    count = _number(_known(resources.get("InstanceCount"), scope))
    return Choice(
        instance_type if isinstance(instance_type, str) else None,
        int(count) if count is not None and count >= 0 else None,
    )


def _seconds(stopping: Mapping[str, Any], scope: Scope) -> float | None:
    given = stopping.get("MaxRuntimeInSeconds")
    return DEFAULT_MAX_SECONDS if given is None else _number(_known(given, scope))


def _known(value: Any, scope: Scope) -> Any:
    """A value with its references replaced where all are known, else itself: an expression, which is no number."""
    if not isinstance(value, dict | list):
        return value
    try:
        return resolve(value, scope)
    except UnresolvedReference:
        return cast("Any", value)
    except UserError:
        return None  # not an expression that anybody could evaluate; `drivetrain check` says why


def _number(value: Any) -> float | None:
    """A number that is not negative; also one in a text, as a parameter of type String gives it."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number < 1e15 else None
