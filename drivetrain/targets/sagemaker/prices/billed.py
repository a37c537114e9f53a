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
from drivetrain.base.json_text import as_list, as_object, list_in, object_in, objects_in, text_in
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.document.expressions import Scope, UnresolvedReference, is_expression, resolve
from drivetrain.targets.sagemaker.document.step_types import is_processing, step_type

# Without a StoppingCondition a training or processing job ends after a day.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StoppingCondition.html
DEFAULT_MAX_SECONDS = 86_400
JOB, WARM_POOL = "job", "warm pool"
Json = dict[str, Any]
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
    request = as_object(_known(step.arguments, scope))
    if step.type == "Training":
        yield from _training(step, request, notes)
    elif is_processing(step.type):
        cluster = object_in(object_in(request, "ProcessingResources"), "ClusterConfig")
        yield _plain(step, "Processing", cluster, _seconds(request))
    elif step.type == "Transform":
        yield _plain(step, "Transform", object_in(request, "TransformResources"), None)
    elif step.type == "Tuning":
        yield from _tuning(step, request, notes)
    elif step.type == "ForEach":
        yield from _for_each(step, request, scope, notes)
    elif not step_type(step.type).is_free:
        yield _untold(step, f"the cost of a step of type {step.type} is not estimated.")


def _training(step: StepNode, request: Json, notes: list[str]) -> Iterator[Machines]:
    resources = object_in(request, "ResourceConfig")
    if not resources:
        serverless = "ServerlessJobConfig" in request
        yield _untold(step, "a serverless job has no price by the hour." if serverless else UNKNOWN_MACHINES)
        return
    if resources.get("TrainingPlanArn"):
        yield _untold(step, "it runs on a training plan, whose capacity is paid for beforehand.")
        return
    base = _plain(step, "Training", resources, _seconds(request), spot=request.get("EnableManagedSpotTraining") is True)
    # A heterogeneous cluster has hosts of several types, all for the whole job.
    groups = map(as_object, list_in(resources, "InstanceGroups"))
    parts = [replace(base, choices=(_choice(group),)) for group in groups] or [base]
    yield from parts
    keep = _number(resources.get("KeepAlivePeriodInSeconds"))
    if keep:
        for part in parts:
            yield replace(part, max_seconds=keep, what=WARM_POOL)
    elif resources.get("KeepAlivePeriodInSeconds"):
        notes.append("how long its warm pool stays is only known when it runs.")


def _tuning(step: StepNode, request: Json, notes: list[str]) -> Iterator[Machines]:
    config = object_in(request, "HyperParameterTuningJobConfig")
    limits = object_in(config, "ResourceLimits")
    several = [request.get("TrainingJobDefinition"), *list_in(request, "TrainingJobDefinitions")]
    definitions = [definition for definition in map(as_object, several) if definition]
    found = [_tuned(step, definition) for definition in definitions]
    if not found:
        yield _untold(step, UNKNOWN_MACHINES)
        return
    most = _number(limits.get("MaxNumberOfTrainingJobs"))
    if most is None and config.get("Strategy") == "Grid" and "MaxNumberOfTrainingJobs" not in limits:
        own = object_in(config, "ParameterRanges")
        most = _combinations([object_in(each, "HyperParameterRanges") or own for each in definitions])
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


def _tuned(step: StepNode, definition: Json) -> Machines:
    """The machines of one of a tuning's kinds of training jobs."""
    flexible = object_in(definition, "HyperParameterTuningResourceConfig")
    spot = definition.get("EnableManagedSpotTraining") is True
    base = _plain(
        step, "Training", object_in(definition, "ResourceConfig") or flexible, _seconds(definition), spot=spot
    )
    configs = [as_object(each) for each in list_in(flexible, "InstanceConfigs")]
    if not configs:
        return base
    volumes = [volume for each in configs if (volume := _number(each.get("VolumeSizeInGB"))) is not None]
    return replace(base, choices=tuple(map(_choice, configs)), volume_gb=max(volumes, default=base.volume_gb))


def _for_each(step: StepNode, request: Json, scope: Scope, notes: list[str]) -> Iterator[Machines]:
    items = _items(request.get("IterableItems"))
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


def _plain(
    step: StepNode, kind: str, resources: Mapping[str, Any], seconds: float | None, *, spot: bool = False
) -> Machines:
    """Machines of one type, or of the first type of a list that there is capacity of."""
    preferred = objects_in(resources, "InstancePreferences")
    return Machines(
        step=step.name,
        kind=kind,
        choices=tuple(_choice({**resources, **each}) for each in preferred) or (_choice(resources),),
        volume_gb=_number(resources.get("VolumeSizeInGB")),
        max_seconds=seconds,
        spot=spot,
    )


def _choice(resources: Mapping[str, Any]) -> Choice:
    count = _number(resources.get("InstanceCount"))
    return Choice(text_in(resources, "InstanceType"), None if count is None else int(count))


def _seconds(request: Json) -> float | None:
    given = object_in(request, "StoppingCondition").get("MaxRuntimeInSeconds")
    return DEFAULT_MAX_SECONDS if given is None else _number(given)


def _known(value: Any, scope: Scope) -> Any:
    """A value in which each reference that is known is replaced; another one stays: an expression, which is no
    number."""
    if isinstance(value, list):
        return [_known(item, scope) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    given = cast("Json", value)
    if not is_expression(given):
        return {name: _known(item, scope) for name, item in given.items()}
    try:
        return resolve(given, scope)
    except UnresolvedReference:
        return given
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
