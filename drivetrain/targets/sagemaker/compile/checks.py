"""What SageMaker Pipelines cannot express, by step and field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from drivetrain.base.errors import InputError
from drivetrain.catalog.instances import find_instance
from drivetrain.rules.rules import problems_on
from drivetrain.spec.pipeline import Pipeline
from drivetrain.spec.steps import JobStep, Step, TrainingStep, flatten
from drivetrain.targets.assets.image import runs_on_spark
from drivetrain.targets.sagemaker.settings import settings_of
from drivetrain.targets.target import Problem

if TYPE_CHECKING:
    from drivetrain.targets.vendor_libraries import Needed

_TRANSFORM = "drivetrain.components.transform_data:transform_data"
_ON_ONE_HOST = (
    _TRANSFORM,
    "drivetrain.components.prepare_data:prepare_data",
    "drivetrain.components.read_source:read_source",
    "drivetrain.components.source_version:source_version",
)
NAME, TITLE = "sagemaker", "SageMaker Pipelines"


def check(pipeline: Pipeline) -> list[Problem]:
    """Resources of a shared machine, and for a pipeline of another target SageMaker's own rules."""
    found = [
        Problem(step.name, "cluster.resources", "a job has machines of its own. Give an instance_type.")
        for step in flatten(pipeline.steps)
        if isinstance(step, JobStep) and step.cluster.machine is None
    ]
    found += [problem for step in flatten(pipeline.steps) if (problem := _hosts_problem(step))]
    if any(isinstance(step, TrainingStep) for step in flatten(pipeline.steps)):
        from drivetrain.targets.vendor_libraries import libraries_of

        found += [problem for needed in libraries_of(pipeline) for problem in _library_problems(needed, pipeline)]
    return found or [Problem("", "", message) for message in problems_on(pipeline, NAME)]


def _hosts_problem(step: Step) -> Problem | None:
    """Several hosts of a program that works on one: each would do all of it, and write over what the others wrote."""
    if not isinstance(step, JobStep) or step.program.target not in _ON_ONE_HOST or runs_on_spark(step):
        return None
    count = step.cluster.count
    if count == 1:
        return None
    given = count if isinstance(count, int) else f"{count.described()}, which may be more than 1"
    instead = (
        "engine=spark, or 1 and a larger machine" if step.program.target == _TRANSFORM else "1 and a larger machine"
    )
    return Problem(
        step.name,
        "cluster.count",
        f"is {given}, and its program works on one host: it needs all rows, for keys, order and splits. Each host "
        f"would do all of the work and write over the others' files. Give {instead}.",
    )


def _library_problems(needed: Needed, pipeline: Pipeline) -> Iterator[Problem]:
    """What SageMaker's own distributed libraries do not run on."""
    from drivetrain.targets.sagemaker.libraries import image_problem, machine_problem, region_problem

    place, name = settings_of(pipeline.deployment), needed.step.name
    library, framework = needed.library, needed.framework
    own = needed.step.image or place.image
    if problem := image_problem(library, framework, own):
        field = "image" if needed.step.image else "deployment.targets.sagemaker.image" if own else needed.field
        yield Problem(name, field, problem)
    elif own is None and (problem := region_problem(library, framework, place.region)):
        yield Problem(name, "deployment.targets.sagemaker.region", problem)
    for machine in needed.machines:
        if problem := machine_problem(library, framework, machine):
            yield Problem(name, "cluster.instance_type", problem)
        elif problem := _degree_problem(needed, machine):
            yield Problem(name, "distribution", problem)


def _degree_problem(needed: Needed, machine: str) -> str | None:
    """Degrees of a script's `distribution` that do not divide its processes, as far as those are known."""
    from drivetrain.steps.distribution import read, refuse_world

    step = needed.step
    text, count, own = step.parameters.get("distribution"), step.cluster.count, step.parameters.get("processes", 0)
    if needed.library != "smp" or not isinstance(text, str):
        return None
    if not isinstance(count, int) or not isinstance(own, int) or not (kind := find_instance(machine)):
        return None
    try:
        refuse_world(read(text).hyperparameters["mp_parameters"], count * (own or kind.default_processes))
    except InputError as error:
        return str(error).removeprefix("distribution: ")
    return None
