"""Notes on fields of a pipeline that do not count on Kubeflow Pipelines."""

from __future__ import annotations

from drivetrain.spec.pipeline import Graph, Pipeline
from drivetrain.spec.steps import JobStep, RegisterStep
from drivetrain.targets.kubeflow.compile import fails
from drivetrain.targets.kubeflow.compile.train_job import num_nodes
from drivetrain.targets.kubeflow.settings import settings_of


def notes(pipeline: Pipeline) -> list[str]:
    """A line each."""
    graph = Graph(pipeline)
    found = list(fails.notes(graph))
    jobs = [step for step in graph.steps if isinstance(step, JobStep)]
    if pipeline.cache.expire_after or any(step.cache and step.cache.expire_after for step in jobs):
        found.append(
            "Kubeflow Pipelines keeps cached results for as long as the cluster says: expire_after does not count."
        )
    if any(step.retry for step in jobs):
        found.append(
            "Kubeflow Pipelines retries a step whatever it failed of: the causes of a RetryPolicy do not count."
        )
    settings = settings_of(pipeline.deployment)
    if settings.image_pull_policy and any(num_nodes(step, settings) for step in jobs):
        found.append(
            "image_pull_policy does not count for trainings on several nodes: their runtime says when images are "
            "pulled."
        )
    for step in graph.steps:
        if isinstance(step, RegisterStep) and step.card:
            found.append(f"Step {step.name!r}: its card and its intended use do not reach the model registry there.")
    for parameter in pipeline.parameters:
        if parameter.choices:
            found.append(f"Parameter {parameter.name!r}: Kubeflow Pipelines does not hold a start to its choices.")
    return found
