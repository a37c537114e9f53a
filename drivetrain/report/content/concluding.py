"""What is written down at the end of a run: its page, what it was made with, and the values by which it is found."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.report.content.comparison import Compared, given_settings
from drivetrain.report.content.facts import Curve, RunFacts
from drivetrain.report.content.from_ledger import record_environment, run_facts, save_page
from drivetrain.report.notices import send
from drivetrain.targets.local.ledger.run_values import CURVE, INDEXED, Value, enter_values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from drivetrain.targets.local.home import Home

MAX_POINTS = 40
"""Of the small curve beside a run in a list."""
_MAIN = ("validation_loss", "val_loss", "eval_loss", "loss", "train_loss", "training_loss")


def conclude(home: Home, execution: str) -> tuple[RunFacts, Path]:
    """Write down what an ended run came to, and send notices of it; gives its facts and the file of its page."""
    from drivetrain.targets.local.ledger.reader import Ledger

    record_environment(home, execution)
    with Ledger(home) as ledger:
        facts = run_facts(ledger, execution)
    page = save_page(home, facts)
    _enter(home, [facts])
    for problem in send(facts):
        print(f"warning: {problem}", file=sys.stderr)
    return facts, page


def enter_missing(home: Home) -> int:
    """Enter the values of runs that ended without it: those of earlier versions, and those whose process was killed at
    the last moment. Gives how many there were; none where the ledger cannot be written, as in an archive."""
    from drivetrain.targets.local.ledger.reader import Ledger

    if not os.access(home.root, os.W_OK) or not home.ledger.exists():
        return 0
    with Ledger(home) as ledger:
        missing = ledger.rows(
            "SELECT id FROM executions e WHERE ended IS NOT NULL AND NOT EXISTS "
            "(SELECT 1 FROM run_values v WHERE v.name = ?1 AND v.execution = e.id AND v.kind = ?1)",
            INDEXED,
        )
        facts = [run_facts(ledger, id) for (id,) in missing]
    _enter(home, facts)
    return len(facts)


def _enter(home: Home, runs: Iterable[RunFacts]) -> None:
    from drivetrain.targets.local.ledger.writer import LedgerWriter

    found = [(run.id, _values(home, run)) for run in runs]
    if not found:
        return
    with LedgerWriter(home) as ledger, ledger.transaction() as db:
        for id, values in found:
            db.execute("DELETE FROM run_values WHERE execution = ? AND kind IN ('setting', 'metric')", (id,))
            enter_values(db, id, values)


def _values(home: Home, run: RunFacts) -> list[Value]:
    of_run = Compared(facts=run, given=given_settings(home, run.id))
    logged = {curve.name: curve.points[-1][1] for curve in run.curves if curve.points}
    values: list[Value] = [("metric", name, value) for name, value in {**logged, **of_run.metrics}.items()]
    values += [("parameter", name, value) for name, value in run.parameters.items()]
    values += [("setting", name, value) for name, value in of_run.settings.items() if name not in run.parameters]
    curve = main_curve(run.curves)
    if curve is not None:
        values.append((CURVE, curve.name, json.dumps(thinned(curve))))
    return [*values, (INDEXED, INDEXED, 1)]


def main_curve(curves: Iterable[Curve]) -> Curve | None:
    """The one by which a training is known at first sight: its validation loss, or what comes closest."""
    drawn = [curve for curve in curves if len(curve.points) > 1 and curve.name not in ("epoch", "step")]
    rank = {name: place for place, name in enumerate(_MAIN)}
    return min(drawn, key=lambda curve: rank.get(curve.name, len(rank) + ("loss" not in curve.name)), default=None)


def thinned(curve: Curve) -> list[float]:
    """At most MAX_POINTS of its values, evenly spread, the last one among them."""
    values = [value for _, value in curve.points]
    if len(values) <= MAX_POINTS:
        return values
    return [values[round(place * (len(values) - 1) / (MAX_POINTS - 1))] for place in range(MAX_POINTS)]
