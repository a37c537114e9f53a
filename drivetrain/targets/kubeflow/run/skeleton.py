"""The steps of a pipeline as a definition: their names, types, order and branches, and nothing of how they run.

The ledger and the page of a run know pipelines by their definitions.
"""

from __future__ import annotations

from typing import Any

from drivetrain.base.json_text import text_of
from drivetrain.spec.pipeline import Graph, Pipeline
from drivetrain.spec.steps import ConditionStep, ForEachStep, ProcessingStep, Step
from drivetrain.spec.values import ParameterRef, references_in
from drivetrain.targets.target import files_read

Json = dict[str, Any]
TYPES = {
    "processing": "Processing",
    "training": "Training",
    "register": "RegisterModel",
    "condition": "Condition",
    "fail": "Fail",
    "for-each": "ForEach",
}


def skeleton(pipeline: Pipeline) -> str:
    """The definition's text."""
    graph = Graph(pipeline)
    parameters = [
        {
            "Name": parameter.name,
            "Type": parameter.type,
            **({} if parameter.default is None else {"DefaultValue": parameter.default}),
            **({"EnumValues": list(parameter.choices)} if parameter.choices else {}),
        }
        for parameter in pipeline.parameters
    ]
    definition: Any = {
        "Version": "2020-12-01",
        "Parameters": parameters,
        "Steps": [_step(each, graph) for each in pipeline.steps],
    }
    return text_of(definition, indent=2)


def _step(step: Step, graph: Graph) -> Json:
    built: Json = {"Name": step.name, "Type": TYPES[step.kind]}
    if step.display_name:
        built["DisplayName"] = step.display_name
    if needed := sorted(graph.needs[step.name]):
        built["DependsOn"] = list(needed)
    used = {ref.name for ref in references_in(step) if isinstance(ref, ParameterRef)}
    arguments: Json = {name: {"Get": f"Parameters.{name}"} for name in sorted(used)}
    if isinstance(step, ConditionStep):
        arguments = {
            "Conditions": [],
            "IfSteps": [_step(each, graph) for each in step.then],
            "ElseSteps": [_step(each, graph) for each in step.otherwise],
        }
    elif isinstance(step, ForEachStep):
        given = step.items if isinstance(step.items, tuple) else ()
        items = [item for item in given if isinstance(item, str | int | float)]
        arguments = {
            "IterableItems": items,
            "MaxConcurrency": step.max_concurrency,
            "ForEachBody": [_step(each, graph) for each in step.body],
        }
    elif isinstance(step, ProcessingStep):
        built["PropertyFiles"] = [
            dict(zip(("PropertyFileName", "OutputName", "FilePath"), (each, *each.split("/", 1)), strict=True))
            for each in files_read(step, graph)
        ]
    return {**built, "Arguments": arguments}
