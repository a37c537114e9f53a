"""The health of a training on a table, and how its model goes by the columns.

The rules of validations are asked after each measured round, those of columns when the model is there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.json_options import parse_options
from drivetrain.steps.card import Card
from drivetrain.training.estimator import Explain, Options, Rows
from drivetrain.training.health.record import Columns, Names, Record
from drivetrain.training.health.recording import FOLDER, Recording
from drivetrain.training.health.rule import OF_TABLES, Finding, load_rules, see
from drivetrain.training.health.summary import Summary
from drivetrain.training.loop.journal import Journal
from drivetrain.training.process import Process
from drivetrain.training.table_data import Data

# Rows that are explained: a thousandth of the training's within these bounds, which takes a few percent of its time.
_LEAST_ROWS, _MOST_ROWS = 64, 256
# A correlation of a column with its contributions from which on the column has a direction.
_DIRECTED = 0.5
_SHOWN = 20


class TableHealth:
    """Rules that look at a training on a table.

    Args:
        given: the setting `health_rules`.
        output: gets health/; None keeps nothing.
        stops_early: the training ends itself when it gets no better; no rule need say so.

    Raises:
        InputError: a rule that there is not, or one that cannot look at a table.
    """

    def __init__(
        self, given: str, process: Process, output: Path | None, journal: Journal, *, stops_early: bool
    ) -> None:
        self._rules = load_rules(given, OF_TABLES)
        if stops_early and "overtraining" not in parse_options(given, "health_rules"):
            self._rules = [rule for rule in self._rules if rule.name != "overtraining"]
        self._journal, self._given = journal, given
        self._folder = output / FOLDER if output and process.is_main else None
        self.summary = Summary(self._rules, self._folder)
        self._recording: Recording | None = None

    def begin(self, step: int) -> None:
        """Rounds are learnt from here on, `step` of them are behind us."""
        if self._folder:
            self._recording = Recording(self._folder, Names(of_table=True), step, rules=self._given)

    def look(self, record: Record) -> Finding | None:
        """Ask the rules; gives the finding that ends the training, if there is one."""
        if self._recording:
            self._recording.add(record)
        stops = None
        for finding in see(self._rules, record):
            if self.summary.add(finding):
                self._journal.finding(finding.step, finding.rule, finding.action, finding.describe())
            if finding.action == "stop":
                stops = stops or finding
        self.summary.recorded(record)
        return stops

    def validated(self, step: int, metrics: Mapping[str, float]) -> Finding | None:
        return self.look(Record(step=step, time=time.time(), validation=dict(metrics)))

    def finish(self) -> None:
        """Write health.json, and the line that the step's metric `healthy` is read from."""
        if self._recording:
            self._recording.close()
        self.summary.write(self._journal, None)
        self._journal.say(self.summary.describe(None))


@dataclass(frozen=True, kw_only=True)
class Explained:
    """How a model goes by its columns, on some rows.

    Attributes:
        moves: the mean distance by which each column moves the answers, before the link function.
        ways: of columns with a direction, 1 where higher values raise the answer, -1 where they lower it.
        rows: how many were looked at.
        held_out: True where the training did not learn from them.
    """

    moves: Mapping[str, float]
    ways: Mapping[str, int]
    rows: int
    held_out: bool

    def as_json(self) -> dict[str, Any]:
        return {"moves": dict(self.moves), "ways": dict(self.ways), "rows": self.rows, "held_out": self.held_out}


def columns_of(moves: Mapping[str, float], data: Data, options: Options, loss: float | None) -> Columns:
    """The columns for the rules.

    Args:
        moves: how far each moves the answers, or its share of what the splits gained where a library explains nothing;
            empty where that is unknown, too.
        loss: of the validation data. It is compared where it is a log loss or a squared error.
    """
    guess = None if data.validation is None or loss is None else _guess(data, options)
    return Columns(moves=moves, loss=None if guess is None else loss, guess=guess)


def explain(by: Explain, saved: bytes, data: Data, seed: int) -> Explained:
    """Ask an estimator for the contributions of the columns to its answers to rows of the validation data, or else of
    the training data."""
    reader = data.validation or data.train
    wanted = min(max(_LEAST_ROWS, len(data.train) // 1000), _MOST_ROWS, len(reader))
    chosen = np.sort(np.random.default_rng(seed).choice(len(reader), wanted, replace=False))
    matrix, names = data.rows(reader, chosen).matrix, data.features.names
    found = np.asarray(by(saved, matrix, data.features), dtype=np.float64)[:, :, : len(names)]
    moves = np.abs(found).mean(axis=0).sum(axis=0)
    ways = {}
    for number, feature in enumerate(data.features.all):
        if feature.levels is None and found.shape[1] == 1 and (way := _way(matrix[:, number], found[:, 0, number])):
            ways[feature.name] = way
    return Explained(
        moves=dict(zip(names, moves.tolist(), strict=True)),
        ways=ways,
        rows=len(chosen),
        held_out=data.validation is not None,
    )


def _way(values: NDArray[Any], contributions: NDArray[Any]) -> int:
    there = np.isfinite(values)
    x, y = values[there].astype(np.float64), contributions[there]
    if len(x) < 3 or not x.std() or not y.std():
        return 0
    together = float(np.corrcoef(np.argsort(np.argsort(x)), y)[0, 1])
    return 0 if abs(together) < _DIRECTED else 1 if together > 0 else -1


def _guess(data: Data, options: Options) -> float | None:
    """The loss on the validation data of the answer that is best for all rows alike; None of other losses."""
    assert data.validation is not None
    rows: Rows = data.rows(data.validation, slice(0, len(data.validation)))
    weights = np.ones(len(rows.targets)) if rows.weights is None else rows.weights.astype(np.float64)
    if not weights.sum() or options.quantiles or options.class_weights != "none" or getattr(options, "objective", ""):
        return None
    if not data.classes:
        mean = np.average(rows.targets, weights=weights)
        return float(np.average((rows.targets - mean) ** 2, weights=weights))
    counts = np.bincount(rows.targets.astype(np.int64), weights, minlength=len(data.classes))
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def write_card(output: Path, importance: Mapping[str, float], explained: Explained | None) -> None:
    """A card with how the model goes by its columns, as pictures."""
    card = Card(output, title="How the model goes by its columns")
    if explained is not None:
        of = "that it did not learn from" if explained.held_out else "of the training data"
        card.text(
            f"The mean distance by which each column moves the answer, on {explained.rows:,} rows {of}: the library's "
            "own SHAP values, before the link function (log-odds of classes). ▲ higher values raise the answer, ▼ "
            "they lower it."
        )
        signs = {name: {1: " ▲", -1: " ▼"}.get(explained.ways.get(name, 0), "") for name in explained.moves}
        card.bars("Moves the answer by", _first({name + signs[name]: move for name, move in explained.moves.items()}))
    if any(importance.values()):
        card.bars("Share of what the splits gained", _first(importance))


def _first(values: Mapping[str, float]) -> dict[str, float]:
    """The largest, in falling order."""
    return dict(sorted(values.items(), key=lambda each: -each[1])[:_SHOWN])
