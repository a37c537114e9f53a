"""Warnings of a plan: default quotas, services that AWS retires, images that AWS no longer patches.

Quotas can be raised and images still run, so nothing is refused.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from drivetrain.base.json_text import object_in
from drivetrain.catalog import quotas
from drivetrain.targets.sagemaker.deploy.desired import Desired
from drivetrain.targets.sagemaker.document.document import StepNode, from_json
from drivetrain.targets.sagemaker.document.retirements import endings
from drivetrain.targets.sagemaker.images import unpatched

NEARLY = 0.8


def warnings(wanted: Desired) -> tuple[str, ...]:
    """A sentence each; the figures are those of quotas.py, with their sources."""
    return tuple(dict.fromkeys(_warnings(wanted)))


def _warnings(wanted: Desired) -> Iterator[str]:
    size = len(wanted.text)
    if size > quotas.MAX_DEFINITION_CHARACTERS:
        yield (
            f"The definition has {size:,} characters, more than the {quotas.MAX_DEFINITION_CHARACTERS:,} of a request: "
            "it goes through the bucket, whose folder `applied` the pipeline's role must be able to read."
        )
    elif size > NEARLY * quotas.MAX_DEFINITION_CHARACTERS:
        yield f"The definition has {size:,} of {quotas.MAX_DEFINITION_CHARACTERS:,} characters that a request takes."
    definition = from_json(dict(wanted.definition), "the compiled definition")
    for step in definition.all_steps:
        if step.type == "Training":
            yield from _training(step)
    yield from endings(definition)
    yield from unpatched(wanted.definition, datetime.datetime.now(datetime.UTC).date())


def _training(step: StepNode) -> Iterator[str]:
    resources = object_in(step.arguments, "ResourceConfig")
    stopping = object_in(step.arguments, "StoppingCondition")
    for given, most, what in (
        (resources.get("InstanceCount"), quotas.DEFAULT_INSTANCES_PER_TRAINING_JOB, "instances of a training job"),
        (stopping.get("MaxRuntimeInSeconds"), quotas.DEFAULT_MAX_RUN_SECONDS, "seconds of a training job"),
        (
            resources.get("KeepAlivePeriodInSeconds"),
            quotas.DEFAULT_WARM_POOL_SECONDS,
            "seconds that a warm pool is kept",
        ),
    ):
        if isinstance(given, int) and given > most:
            yield (
                f"{step.name}: {given:,} {what}; a new account may have {most:,}. Ask for a higher quota where yours "
                "is not raised yet."
            )
