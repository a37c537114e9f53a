"""What SageMaker Pipelines cannot express, by step and field."""

from __future__ import annotations

from drivetrain.rules.rules import problems_on
from drivetrain.spec.pipeline import Pipeline
from drivetrain.spec.steps import JobStep, flatten
from drivetrain.targets.target import Problem

NAME, TITLE = "sagemaker", "SageMaker Pipelines"


def check(pipeline: Pipeline) -> list[Problem]:
    """Resources of a shared machine, and for a pipeline of another target SageMaker's own rules."""
    found = [
        Problem(step.name, "cluster.resources", "a job has machines of its own. Give an instance_type.")
        for step in flatten(pipeline.steps)
        if isinstance(step, JobStep) and step.cluster.machine is None
    ]
    return found or [Problem("", "", message) for message in problems_on(pipeline, NAME)]
