"""Data that steps read from outside: whether it is on this machine, before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.run_store.durable import parse
from drivetrain.run_store.objects import ObjectStore
from drivetrain.spec.pipeline import Graph, Pipeline
from drivetrain.spec.steps import JobStep, RegisterStep, Step
from drivetrain.spec.values import ParameterRef


def lost_inputs(pipeline: Pipeline, parameters: Mapping[str, Any], store: ObjectStore) -> list[str]:
    """List a message for each input that is missing or has a wrong URI, in the order of the steps.

    Args:
        parameters: the pipeline's, which may hold URIs.
    """
    found: list[str] = []
    for step in Graph(pipeline).steps:
        for name, value in _inputs(step):
            if isinstance(value, ParameterRef):
                value = str(parameters[value.name])
            elif not (isinstance(value, str) and value.startswith("s3://")):
                continue  # an output of a step; data of this machine, which the compiler has looked for
            where = f"step {step.name!r}: input {name!r}"
            try:
                parse(value)
            except UserError as error:
                found.append(f"{where}: {error}")
                continue
            if not store.exists(value):
                found.append(
                    f"{where} reads {value}, and nothing is there on this machine ({store.path(value)}). Put it there."
                )
    return found


def _inputs(step: Step) -> Iterator[tuple[str, Any]]:
    if isinstance(step, JobStep):
        yield from step.inputs.items()
    elif isinstance(step, RegisterStep):
        for name in ("model", "metrics", "evaluation", "decision"):
            yield name, getattr(step, name)
