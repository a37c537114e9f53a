"""Served rows against what the approved version was trained on and promised; what a look found, and its files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import and_more
from drivetrain.base.json_text import object_in, text_in
from drivetrain.data.arrow import Array, arrow
from drivetrain.decision.data_baseline import aligned
from drivetrain.decision.data_check import WARNED, Drifted, drifted_from, most_moved
from drivetrain.decision.data_drift import NULLS_MOVED, SHARE_MOVED, Effect, Gate
from drivetrain.decision.data_record import distributions, drift_record
from drivetrain.decision.evaluation import EVALUATION_FILE, Evaluation, read_evaluation
from drivetrain.decision.formatting import count
from drivetrain.decision.rows import ROWS_FILE
from drivetrain.decision.served_findings import DATA_DRIFT, QUALITY_DROP, Finding
from drivetrain.decision.served_predictions import (
    PREDICTED,
    Bins,
    as_predicted,
    deciles,
    is_answer,
    moved,
    promised_classes,
    with_predictions,
)
from drivetrain.registry.kept_answers import fetch_parts, fetch_report, predictions_in

if TYPE_CHECKING:
    from drivetrain.data.profile import Profile
    from drivetrain.decision.served_quality import Quality
    from drivetrain.registry.registry import ModelVersion

SERVED_CHECK_FILE, SERVED_CHECK_PAGE = "served_check.json", "served_check.md"
FORMAT = 1
DEFAULT_GATES = {SHARE_MOVED: Gate(warn=0.1), NULLS_MOVED: Gate(warn=0.1)}
"""The gates without a part `drift` in the rules: a tenth of a column's rows has surely moved, or become
empty or filled."""
PASSED, DRIFTED, DROPPED, NOT_JUDGED = "passed", "data drift", "quality drop", "not judged"
_BOOTSTRAP_FILE, _CURVES_FILE = "bootstrap.json", "curves.json"
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Promised:
    """The evaluation by which a version was approved, as its report keeps it."""

    evaluation: Evaluation
    content: Mapping[str, Any]
    """evaluation.json."""
    folder: Path

    @property
    def task(self) -> dict[str, Any]:
        return object_in(self.content, "task")

    @property
    def task_name(self) -> str:
        """As evaluate takes it."""
        return text_in(object_in(self.content, "model"), "task") or text_in(self.task, "kind") or ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """The predictions on served rows and on the test set, in the same bins."""

    values: Array
    """Predictions on the served rows: numbers, or classes by name."""
    bins: Bins
    promised: Any
    """Rows of the test set by bin, float64 [bins]."""

    def labels_moved(self, labelled: Any) -> Effect | None:
        """The distance of the predictions of labelled rows from those of all; None where all have a label, or none.

        Args:
            labelled: bool [rows].
        """
        if labelled.all() or not labelled.any():
            return None
        return moved(*(self.bins.count(self.values.filter(arrow().array(part))) for part in (labelled, ~labelled)))


def predictions_of(answers: Any, promised: Promised) -> Predictions | str:
    """The predictions of a table beside the promised ones; or why they are not judged, as a clause."""
    if PREDICTED not in answers.column_names:
        return f"they have no column {PREDICTED}"
    values = as_predicted(answers.column(PREDICTED).combine_chunks(), promised.task)
    if values is None:
        return "a row has several"
    if promised.task.get("kind") != "regression":
        path = promised.folder / _CURVES_FILE
        found = promised_classes(promised.content, json.loads(path.read_bytes()) if path.is_file() else {})
        return found if isinstance(found, str) else Predictions(values=values, bins=found[0], promised=found[1])
    names = predictions_in(promised.content)
    if not names:
        return "the version's report keeps none of the test set (evaluate writes them with predictions=true)"
    tables = [arrow().parquet.read_table(promised.folder / name, columns=[PREDICTED]) for name in names]
    theirs = as_predicted(arrow().concat_tables(tables).column(PREDICTED).combine_chunks(), promised.task)
    if theirs is None:
        return "the version predicts several numbers a row"
    bins = deciles(theirs)
    return Predictions(values=values, bins=bins, promised=bins.count(theirs))


def promised_of(version: ModelVersion, folder: Path, store: Path | None = None) -> Promised | str:
    """Bring the report of a version's evaluation to this machine; or why there is none, as a clause.

    Args:
        store: `objects` of the registry.

    Raises:
        InputError: a file is not the one that was registered.
    """
    found = fetch_report(version, folder, store)
    if isinstance(found, str):
        return found
    content = json.loads((found / EVALUATION_FILE).read_bytes())
    is_number = object_in(content, "task").get("kind") == "regression"
    parts = (_BOOTSTRAP_FILE, ROWS_FILE, _CURVES_FILE, *(predictions_in(content) if is_number else ()))
    fetch_parts(version, content, folder, parts, store)
    evaluation = replace(read_evaluation(found), source=f"the report of version {version.version} of {version.group}")
    return Promised(evaluation=evaluation, content=content, folder=found)


@dataclass(frozen=True, kw_only=True, eq=False)
class Look:
    """One look at served rows."""

    group: str
    version: int
    day: str
    rows: int
    content_hash: str
    drifted: Drifted | None = None
    quality: Quality | None = None
    labelled: int = 0
    labels_moved: Effect | None = None
    """The distance of the predictions of labelled rows from those of all rows."""
    notes: Sequence[str] = ()
    """Sentences on what was left out."""

    @property
    def verdict(self) -> str:
        if not self.seen:
            return NOT_JUDGED
        found = [words for kind, words in ((DATA_DRIFT, DRIFTED), (QUALITY_DROP, DROPPED)) if self.seen.get(kind)]
        return " and ".join(found) or PASSED

    @property
    def columns(self) -> list[str]:
        """Those that drifted, the most moved first."""
        drifted = self.drifted
        if drifted is None:
            return []
        order = {drifted.sides.columns[place]: number for number, place in enumerate(most_moved(drifted))}
        return sorted(drifted.warned, key=lambda name: order.get(name, -1))

    @property
    def seen(self) -> dict[str, str]:
        """Sentence by kind of finding, "" where there is none; a kind that could not be judged is missing."""
        found: dict[str, str] = {}
        if self.drifted is not None:
            columns = self.columns
            more = f" and {len(columns) - _NAMED} more" if len(columns) > _NAMED else ""
            title = f"{', '.join(columns[:_NAMED])}{more} drifted: {self.drifted.warned[columns[0]]}" if columns else ""
            found[DATA_DRIFT] = title
        if self.quality is not None and self.quality.surely is not None:
            found[QUALITY_DROP] = self.quality.why if self.quality.dropped else ""
        return found

    @property
    def why(self) -> list[str]:
        """The verdict in sentences."""
        lines = [f"{each}." for each in self.seen.values() if each]
        if self.drifted is not None:
            lines += [f"{self.drifted.warned[name]}." for name in self.columns[1:]]
            if not self.columns:
                columns = len(self.drifted.sides.columns)
                lie = "lies within its" if columns == 1 else "lie within their"
                lines.append(f"{count(columns, 'column')} {lie} limits.")
        if self.quality is not None and not self.quality.dropped:
            lines.append(f"{self.quality.why}.")
        if self.labels_moved is not None:
            low, high = (100 * float(end[0]) for end in (self.labels_moved.low, self.labels_moved.high))
            lines.append(
                f"Labels that arrive early are a biased sample: of the labelled rows' predictions {low:.2g} % to "
                f"{high:.2g} % would have to move to be those of all rows."
            )
        return [*lines, *self.notes]

    def findings(self, now: float) -> dict[tuple[str, str], Finding | None]:
        """By kind and metric what it saw."""
        made: dict[tuple[str, str], Finding | None] = {}
        for kind, why in self.seen.items():
            given: dict[str, Any] = {"group": self.group, "version": self.version, "day": self.day, "why": why}
            if kind == DATA_DRIFT and self.drifted is not None:
                shares = dict(
                    zip(self.drifted.sides.columns, self.drifted.effects[SHARE_MOVED].estimate.tolist(), strict=True)
                )
                moved_most = max((shares[name] for name in self.columns if shares.get(name, 2) <= 1), default=None)
                given |= {"columns": tuple(self.columns), "value": moved_most}
            elif self.quality is not None and self.quality.measured is not None:
                promised, value = self.quality.promised.value, self.quality.measured.value
                given |= {"metric": self.quality.metric, "value": value, "promised": promised}
            found = Finding(kind=kind, told_at=now, **given)  # type: ignore[arg-type]
            made[found.key] = found if why else None
        return made

    def record(self) -> dict[str, Any]:
        """The record that is kept of it."""
        from drivetrain.decision.served_quality import record

        return {
            "day": self.day,
            "version": self.version,
            "data": self.content_hash,
            "rows": self.rows,
            "drifted": None if self.drifted is None else self.columns,
            "labelled_share": self.labelled / self.rows if self.rows else 0.0,
            **({} if self.quality is None else record(self.quality)),
        }


def drift_of_served(
    version: int,
    profile: Profile,
    training_set: Profile | None,
    gates: Mapping[str, Gate],
    answered: Sequence[str],
    predictions: Predictions | None,
) -> tuple[Drifted | None, list[str]]:
    """The drift of served rows and their predictions, and notes on what is not judged."""
    notes: list[str] = []
    sides = None
    if training_set is None:
        notes.append(f"Version {version} was trained on data that no check_data has seen: inputs are not judged.")
    else:
        sides = aligned(profile, training_set)
        # The model has answered these rows: a column that they lack is none that it needs, or the label.
        lacking = [name for name in sides.missing if name not in profile.columns]
        sides = replace(sides, missing=tuple(name for name in sides.missing if name not in lacking))
        lacking = [name for name in lacking if name != training_set.label]
        if lacking:
            notes.append(f"Not among the served columns: {', '.join(lacking)}.")
        added = [name for name in sides.added if not is_answer(name)]
        if added:
            notes.append(f"Not among the columns of the training set: {and_more(added, 12)}.")
    if predictions is not None:
        ours = predictions.bins.count(predictions.values)
        sides = with_predictions(sides, predictions.bins, ours, predictions.promised)
    if sides is None or not len(sides.columns):
        return None, notes
    rows = training_set.rows if training_set else int(sides.baseline.rows)
    return drifted_from(version, sides, rows, gates or DEFAULT_GATES, answered, {PREDICTED: "the test set"}), notes


def write(look: Look, looks: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Write served_check.json and served_check.md.

    Args:
        looks: the records that are kept, this one among them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drifted, method = look.drifted, list(_method(look))
    content = {
        **{"format": FORMAT, "verdict": look.verdict, "why": look.why, "group": look.group, "night": look.day},
        **look.record(),
        "alarms": [
            {"column": name, "verdict": WARNED, "sentence": drifted.warned[name], "since": look.day}
            for name in look.columns
            if drifted
        ],
        "drift": None if drifted is None else drift_record(drifted),
        "distributions": [] if drifted is None else list(distributions(drifted, drifted.warned)),
        "looks": [dict(each) for each in looks if each["version"] == look.version],
        "method": method,
    }
    about = f"{look.group} version {look.version}, {look.day}, {count(look.rows, 'row')}."
    lines = [f"# Served rows: {look.verdict}", "", about]
    lines += ["", *(f"- {line}" for line in look.why), "", *method, ""]
    (folder / SERVED_CHECK_PAGE).write_text("\n".join(lines), encoding="utf-8")
    (folder / SERVED_CHECK_FILE).write_text(
        json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )


def _method(look: Look) -> Iterator[str]:
    if look.drifted is not None:
        yield (
            "Sizes have intervals that hold for all columns together with 95 %. A limit is passed where the whole "
            "interval passes it."
        )
    if look.quality is not None:
        yield (
            "The labelled rows and the test set are two independent samples. A drop is one that is surely larger than "
            "allowed, each look having its share of the false findings of a year."
        )
