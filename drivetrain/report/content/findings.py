"""The evaluations and decisions among what the steps of a run wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError
from drivetrain.report.content.facts import ArtifactFacts

if TYPE_CHECKING:
    from drivetrain.report.content.card import CardFacts
    from drivetrain.report.content.datasets import DatasetFacts
    from drivetrain.report.content.decision import DecisionFacts
    from drivetrain.report.content.evaluation import EvaluationFacts
    from drivetrain.targets.local.home import Home

# As in the files that read them, which are imported for runs that have such a file.
_DECISION_FILE, _EVALUATION_FILE, _CARD_FILE = "decision.json", "evaluation.json", "card.json"
_MANIFEST_FILE = "manifest.json"


def evaluations(home: Home, artifacts: Iterable[ArtifactFacts]) -> tuple[EvaluationFacts, ...]:
    """What the steps that evaluate a model found, in the order of the steps."""
    folders = list(folders_with(_EVALUATION_FILE, home, artifacts))
    if not folders:
        return ()
    from drivetrain.report.content.evaluation import read_evaluation

    found = (read_evaluation(step, folder) for step, folder in folders)
    return tuple(one for one in found if one is not None)


def decisions(home: Home, artifacts: Iterable[ArtifactFacts]) -> tuple[DecisionFacts, ...]:
    """What the steps that compare models decided, in the order of the steps."""
    folders = list(folders_with(_DECISION_FILE, home, artifacts))
    if not folders:
        return ()
    from drivetrain.report.content.decision import read_decision

    found = (read_decision(step, folder) for step, folder in folders)
    return tuple(one for one in found if one is not None)


def datasets(home: Home, artifacts: Iterable[ArtifactFacts]) -> tuple[DatasetFacts, ...]:
    """The data sets that steps prepared, in the order of the steps."""
    folders = list(folders_with(_MANIFEST_FILE, home, artifacts))
    if not folders:
        return ()
    from drivetrain.report.content.datasets import read_dataset

    found = (read_dataset(step, folder) for step, folder in folders)
    return tuple(one for one in found if one is not None)


def cards(home: Home, artifacts: Iterable[ArtifactFacts]) -> tuple[CardFacts, ...]:
    """What steps show of their own, in the order of the steps."""
    folders = list(folders_with(_CARD_FILE, home, artifacts))
    if not folders:
        return ()
    from drivetrain.report.content.card import read_card

    found = (read_card(step, folder) for step, folder in folders)
    return tuple(one for one in found if one is not None)


def folders_with(file: str, home: Home, artifacts: Iterable[ArtifactFacts]) -> Iterator[tuple[str, Path]]:
    """The steps and folders of outputs that hold a file of this name, perhaps one that cannot be read."""
    from drivetrain.targets.local.storage.objects import ObjectStore

    store = ObjectStore(home.objects)
    for artifact in artifacts:
        if artifact.flow != "output":
            continue
        try:
            folder = store.path(artifact.uri)
        except UserError:
            continue  # no URI of an object store
        if _is_there(folder / file):
            yield artifact.step, folder


def _is_there(path: Path) -> bool:
    """Whether there is a file, also where this user may not see it: whoever reads it says so."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
