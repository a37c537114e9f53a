"""Lineage: a record of actions, artifacts, contexts and what connects them.

The response gives the ARN of each by its name (`ActionArns['a']`, `ArtifactArns['m']`, `ContextArns['c']`), and the
associations (PipelineExecutionStepMetadata.Lineage of the service's model).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import object_in
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult
from drivetrain.targets.sagemaker.run.jobs.job_data import entries, member

# Entities -> what names one, and the answer's map.
_ENTITIES = (("Actions", "ActionName"), ("Artifacts", "ArtifactName"), ("Contexts", "ContextName"))
_ASSOCIATIONS = "Associations"
_ENDS = ("Source", "Destination")


def check(step: StepNode, plan: RunPlan) -> list[str]:
    try:
        given = {name: entries(plan.arguments, name) for name in (*(kind for kind, _ in _ENTITIES), _ASSOCIATIONS)}
    except UserError as error:
        return [f"step {step.name!r}: {error}"]
    if not any(given.values()):
        return [f"step {step.name!r} records nothing. Allowed: {', '.join(given)}, at least one of them."]
    problems = [
        f"step {step.name!r}: an entry of {kind} has no {name}."
        for kind, name in _ENTITIES
        if kind != "Artifacts"  # whose name is optional
        for each in given[kind]
        if not each.get(name)
    ]
    for each in given[_ASSOCIATIONS]:
        problems += [
            f"step {step.name!r}: an association has no {end}. Allowed: an object with Arn, or with Name and Type."
            for end in _ENDS
            if member(each, end) is None
        ]
    return problems


def described(context: StepContext) -> dict[str, Any]:
    response: dict[str, Any] = {}
    for kind, name in _ENTITIES:
        found = entries(context.arguments, kind)
        singular = kind.removesuffix("s")
        if found:
            response[f"{singular}Arns"] = {_named(each, name): _arn(context, singular, each, name) for each in found}
    associations = [
        {
            "SourceArn": _end(response, object_in(each, "Source")),
            "DestinationArn": _end(response, object_in(each, "Destination")),
        }
        for each in entries(context.arguments, _ASSOCIATIONS)
    ]
    return {**response, **({_ASSOCIATIONS: associations} if associations else {})}


def run(context: StepContext) -> StepResult:
    response = described(context)
    counts = {kind: len(entries(context.arguments, kind)) for kind in (*(kind for kind, _ in _ENTITIES), _ASSOCIATIONS)}
    words = [f"{n} {kind.lower() if n > 1 else kind.lower().removesuffix('s')}" for kind, n in counts.items() if n]
    return StepResult(response={**context.arguments, **response}, value=", ".join(words))


def _named(entity: Mapping[str, Any], name: str) -> str:
    """An entity's name; an artifact may have none, and is then known by its source."""
    source = object_in(entity, "Source")
    return str(entity.get(name) or source.get("SourceUri") or "")


def _arn(context: StepContext, kind: str, entity: Mapping[str, Any], name: str) -> str:
    if kind != "Artifact":
        return context.facts.arn(f"{kind.lower()}/{str(entity[name]).lower()}")
    # The service gives artifacts ids of their own; here what an artifact is gives its id.
    told = json.dumps([entity.get("Source"), entity.get("ArtifactType")], sort_keys=True)
    return context.facts.arn(f"artifact/{hashlib.sha256(told.encode()).hexdigest()[:32]}")


def _end(response: Mapping[str, Any], end: Mapping[str, Any]) -> str:
    """The ARN of an association's end, which may name an entity of the same step."""
    if "Arn" in end:
        return str(end["Arn"])
    arns: Mapping[str, Any] = object_in(response, f"{end.get('Type')}Arns")
    return str(arns.get(str(end.get("Name"))) or end.get("Name") or "")
