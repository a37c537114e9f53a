"""What every target tells a step's program alike: flags, variables, and the name of its checkpoints' place.

A target says how values are spelled and where folders lie; the words here are the same for all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from drivetrain.spec.resources import Spot
from drivetrain.spec.steps import JobStep, TrainingStep

# What a component with `registry: str = "auto"` asks: the registry of the platform that it runs on.
REGISTRY_VARIABLE = "DRIVETRAIN_REGISTRY"


def flag(name: str) -> str:
    """The command-line spelling: `max_digits` is given as `--max-digits`."""
    return "--" + name.replace("_", "-")


def environment_of(step: JobStep, given: Mapping[str, Any], registry: str | None) -> dict[str, Any]:
    """The variables of a step's program.

    Args:
        given: the step's own, as the target spells them.
        registry: what `registry: auto` means there.
    """
    environment = dict(given)
    if registry is not None and step.parameters.get("registry") == "auto":
        environment.setdefault(REGISTRY_VARIABLE, registry)
    if step.cluster.processes is not None:
        environment["DRIVETRAIN_PROCESSES"] = str(step.cluster.processes)
    if isinstance(step.cluster.spot, Spot) and step.cluster.spot.max_interruptions is not None:
        environment["DRIVETRAIN_MAX_INTERRUPTIONS"] = str(step.cluster.spot.max_interruptions)
    return environment


def checkpoint_folder(step: TrainingStep, parameters: Mapping[str, Any]) -> str:
    """`<step>/<digest>`: where a training's checkpoints lie below its pipeline's.

    No execution id: a retried or repeated training finds its checkpoints, and the cache key stays the same. The
    launcher works in a subfolder named by the data, so that new data starts fresh. Parameters that may grow between
    a run and its resumption do not count.

    Args:
        parameters: the step's, as the target spells them.
    """
    configuration = {
        "program": step.program.target,
        "parameters": {name: value for name, value in parameters.items() if name not in step.resumable_parameters},
    }
    digest = hashlib.sha256(json.dumps(configuration, sort_keys=True).encode()).hexdigest()[:16]
    return f"{step.name}/{digest}"
