"""Draw a pipeline that has not run, for a notebook."""

from __future__ import annotations

from pathlib import Path

from drivetrain.spec.pipeline import Pipeline
from drivetrain.targets.sagemaker.document.document import read
from drivetrain.targets.target import DEFAULT, find_target
from drivetrain.telling.content.from_definition import dag_of
from drivetrain.telling.dag.picture import dag_svg


def of_pipeline(pipeline: Pipeline) -> str:
    """The DAG as an SVG that stands alone."""
    built = find_target(DEFAULT).compile(pipeline, base=Path.cwd(), here=True)
    return str(dag_svg(dag_of(read(built.text, pipeline.name)), title=pipeline.name, standalone=True))
