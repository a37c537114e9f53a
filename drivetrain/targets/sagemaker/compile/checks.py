"""What SageMaker Pipelines cannot express, by step and field."""

from __future__ import annotations

from drivetrain.spec.pipeline import Pipeline
from drivetrain.spec.steps import JobStep, flatten
from drivetrain.targets.target import Problem

TITLE = "SageMaker Pipelines"


def check(pipeline: Pipeline) -> list[Problem]:
    """All problems, in the order of the steps: resources of a shared machine."""
    return [
        Problem(step.name, "cluster.resources", "a job has machines of its own. Give an instance_type.")
        for step in flatten(pipeline.steps)
        if isinstance(step, JobStep) and step.cluster.resources is not None and step.cluster.instance_type == ""
    ]
