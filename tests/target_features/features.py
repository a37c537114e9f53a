"""The features of a pipeline, each with the smallest pipeline that has it.

    @feature("Steps", "a decision with two branches")
    def branches() -> Pipeline: ...

The files of examples beside this one register theirs when they are imported, in the order of the page.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from drivetrain.authoring import Pipeline, step
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train import train
from drivetrain.spec.deployment import Deployment
from drivetrain.spec.resources import Cluster
from drivetrain.spec.steps import ProcessingStep, TrainingStep

EXAMPLES = ("example_steps", "example_values", "example_machines", "example_starts")


@dataclass(frozen=True)
class Feature:
    """What a pipeline can have, for people, and a pipeline that has it and as little else as possible."""

    group: str
    title: str
    build: Callable[[], Pipeline]

    @property
    def name(self) -> str:
        return self.build.__name__


_REGISTERED: list[Feature] = []


def feature(group: str, title: str) -> Callable[[Callable[[], Pipeline]], Callable[[], Pipeline]]:
    """Register the example of a feature."""

    def register(build: Callable[[], Pipeline]) -> Callable[[], Pipeline]:
        _REGISTERED.append(Feature(group, title, build))
        return build

    return register


def features() -> tuple[Feature, ...]:
    """All features, in the order of the page."""
    for name in EXAMPLES:
        importlib.import_module(f"{__package__}.{name}")
    return tuple(_REGISTERED)


def of(*steps: Any, kubeflow: Mapping[str, str] | None = None, **fields: Any) -> Pipeline:
    """A pipeline of these steps.

    Args:
        kubeflow: settings of Kubeflow's block beside the registry, which must outlive a pod.
    """
    block = {"registry": "kubeflow:http://registry.example.com", **(kubeflow or {})}
    return Pipeline(name="example", steps=list(steps), deployment=Deployment(targets={"kubeflow": block}), **fields)


def data(name: str = "prepare", **given: Any) -> ProcessingStep:
    """A processing step."""
    known: dict[str, Any] = {"raw": "example:digits", "key": "id", "label": "label", **given}
    return step(prepare_data, name=name, **known)


def training(on: ProcessingStep, name: str = "train", cluster: Cluster | None = None, **given: Any) -> TrainingStep:
    """A training step on one machine."""
    train_on, validation = on["train"], on["validation"]
    machines = cluster or Cluster(processes=1)
    return step(train, name=name, train=train_on, validation=validation, cluster=machines, **given)
