"""The evaluations and decisions among what the steps of a run wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from drivetrain.base.errors import UserError
from drivetrain.report.content.decision import DecisionFacts, read_decision
from drivetrain.report.content.evaluation import EvaluationFacts, read_evaluation
from drivetrain.report.content.facts import ArtifactFacts

if TYPE_CHECKING:
    from drivetrain.targets.local.home import Home

_Facts = TypeVar("_Facts")


def evaluations(home: Home, artifacts: Iterable[ArtifactFacts]) -> tuple[EvaluationFacts, ...]:
    """What the steps that evaluate a model found, in the order of the steps."""
    return tuple(_found(home, artifacts, read_evaluation))


def decisions(home: Home, artifacts: Iterable[ArtifactFacts]) -> tuple[DecisionFacts, ...]:
    """What the steps that compare models decided, in the order of the steps."""
    return tuple(_found(home, artifacts, read_decision))


def _found(
    home: Home, artifacts: Iterable[ArtifactFacts], read: Callable[[str, Path], _Facts | None]
) -> Iterator[_Facts]:
    from drivetrain.targets.local.storage.objects import ObjectStore

    store = ObjectStore(home.objects)
    for artifact in artifacts:
        if artifact.flow != "output":
            continue
        try:
            folder = store.path(artifact.uri)
        except UserError:
            continue  # no URI of an object store
        found = read(artifact.step, folder)
        if found is not None:
            yield found
