"""The answers of a registered version to its test set, as the report of its evaluation keeps them.

A version names its report (the place of model_quality.json) and the report's hash; evaluation.json there names the hash
of each file of predictions. So answers that were changed since the registration are never compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from drivetrain.base.errors import InputError
from drivetrain.base.json_text import object_in, text_in
from drivetrain.registry.artifacts import fetch
from drivetrain.registry.binding import REPORT
from drivetrain.registry.intact import difference
from drivetrain.registry.registration import EVALUATION_FILE, describe, is_evaluation, read_json
from drivetrain.registry.report_hash import PARTS, hash_of, report_hash

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelVersion

_PART = re.compile(r"predictions/part-\d{5,}\.parquet")


class KeptAnswers(NamedTuple):
    """A folder of Parquet files, and the task of the answers as evaluate takes it."""

    folder: Path
    task: str


def fetch_report(version: ModelVersion, folder: Path, store: Path | None = None) -> Path | str:
    """Bring evaluation.json of a version's report to this machine.

    Args:
        folder: gets what has to be downloaded.
        store: as `fetch` takes it.

    Returns:
        The folder where it lies; or why there is none, as a clause.

    Raises:
        InputError: it is not the report that was registered.
    """
    place, _, file = version.record.quality.rpartition("/")
    if not file.endswith(".json") or not place:
        return "the version names no report of an evaluation"
    registered = version.lineage.get(REPORT)
    try:
        path = fetch(f"{place}/{EVALUATION_FILE}", folder, store)  # beside the predictions: it names their classes
        evaluation = read_json(path, path.name, "Restore it.")
    except InputError as error:
        return f"its report cannot be read ({str(error).rstrip('.')})"
    if not is_evaluation(evaluation) or registered is None:
        return "its report is none of evaluate's, or the version does not name its hash"
    if report_hash(evaluation) != registered:
        raise InputError(
            f"{place}/{EVALUATION_FILE} is not the report that was registered: it was replaced. Restore it."
        )
    return path.parent


def fetch_parts(
    version: ModelVersion, evaluation: Mapping[str, Any], folder: Path, parts: Sequence[str], store: Path | None = None
) -> None:
    """Bring those of `parts`, such as rows.npz, that a version's evaluation.json names beside it.

    Args:
        evaluation: the content of the evaluation.json that `fetch_report` has brought to the same folder.

    Raises:
        InputError: a file is not the one that was registered.
    """
    place, named = version.record.quality.rpartition("/")[0], object_in(evaluation, PARTS)
    for name in (each for each in parts if each in named):
        if hash_of(fetch(f"{place}/{name}", (folder / name).parent, store)) != named[name]:
            raise InputError(f"{place}/{name} is not the file that {EVALUATION_FILE} names. Restore it.")


def predictions_in(evaluation: Mapping[str, Any]) -> list[str]:
    """The names of a report's files of predictions."""
    return [name for name in object_in(evaluation, PARTS) if _PART.fullmatch(name)]


def fetch_answers(
    version: ModelVersion, data_hash: str, folder: Path, *, of_functions: bool = False
) -> KeptAnswers | str:
    """Bring a version's answers to a test set to this machine.

    Args:
        data_hash: of the test set's content.
        folder: gets what has to be downloaded.
        of_functions: only those of a model of functions, whose own evaluation would say no more: a recipe has a loss.

    Returns:
        The answers; or why there are none, as a clause.

    Raises:
        InputError: the report or a file of its answers is not the one that was registered.
    """
    report = fetch_report(version, folder)
    if isinstance(report, str):
        return report
    evaluation = read_json(report, EVALUATION_FILE, "Restore it.")
    if text_in(object_in(evaluation, "data"), "content_hash") != data_hash:
        return "its report is of another test set"
    model = object_in(evaluation, "model")
    if of_functions and (model.get("recipe") or "answers" in model or not text_in(model, "task")):
        return "its report is none of a model of functions"
    parts = predictions_in(evaluation)
    if not parts:
        return "its report has no predictions (evaluate writes them with predictions=true)"
    fetch_parts(version, evaluation, folder, parts)
    task = text_in(model, "task") or text_in(object_in(evaluation, "task"), "kind")
    return KeptAnswers(report / "predictions", task or "")


def asked_or_kept(
    version: ModelVersion, data_hash: str, folder: Path, *, prefer_kept: bool
) -> tuple[Path | None, KeptAnswers | None]:
    """Bring a version's model to this machine, to be asked, or else its answers to a test set.

    Args:
        data_hash: of the test set's content.
        folder: gets what has to be downloaded.
        prefer_kept: take the answers where there are some. Without it only those of a model of functions, or if the
            model cannot be asked.

    Raises:
        InputError: the model is gone or changed, or one of the user's own that keeps no answers to this data.
    """
    kept = fetch_answers(version, data_hash, folder / "kept", of_functions=not prefer_kept)
    if isinstance(kept, KeptAnswers):
        return None, kept
    fetched = fetch(version.artifact, folder / "model")
    if version.content_hash and (problem := difference(fetched, version.content_hash)):
        raise InputError(f"{version.artifact} does not hold the files that were registered: {problem}")
    if "format" in (describe(fetched) or {}):  # as each model.json of ours has
        return fetched, None
    kept = fetch_answers(version, data_hash, folder / "kept")
    if isinstance(kept, KeptAnswers):
        return None, kept
    raise InputError(
        f"it is a model of your own, which cannot be asked, and it keeps no answers to this data: {kept}. "
        "Let it answer this data, and give compare the report of these answers as champion_evaluation"
    )
