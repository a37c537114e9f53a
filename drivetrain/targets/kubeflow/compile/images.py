"""Check the image of a step: its name must be valid, and it must have what the program needs."""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.assets.image import runs_on_spark
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.steps import JobStep, Step
from drivetrain.targets.kubeflow.image_names import ALLOWED, image_name, image_problem
from drivetrain.targets.kubeflow.settings import settings_of
from drivetrain.targets.target import Problem

# What infra/kubeflow/images calls the images for steps and trainings.
_WITHOUT_JAVA = ("drivetrain-cpu", "drivetrain-gpu")


def problems(step: Step, graph: Graph) -> Iterator[Problem]:
    if not isinstance(step, JobStep):
        return
    if step.image and (problem := image_problem(step.image)):
        yield Problem(step.name, "image", f"{step.image!r:.80} is no name of an image: {problem}. Give {ALLOWED}.")
    image = step.image or settings_of(graph.pipeline.deployment).image
    if runs_on_spark(step) and image_name(image) in _WITHOUT_JAVA:
        yield Problem(
            step.name,
            "image",
            f"{image} has no Java, and its program runs on Spark, or may by a parameter. Give the name under which you "
            "have pushed what infra/kubeflow/images/spark.Dockerfile builds, or engine=polars where the step is "
            "transform_data.",
        )
