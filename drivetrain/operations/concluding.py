"""Conclude a run: write its page, what it was made with, and the values by which it is found, and have notices sent."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.run_store.run_values import CURVE, DECIDES, INDEXED, Value, enter_values
from drivetrain.telling.content import main_curve
from drivetrain.telling.content.from_ledger import record_environment, run_facts, save_page
from drivetrain.telling.content.given import Compared, given_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from drivetrain.run_store.home import Home
    from drivetrain.telling.content import RunFacts


def conclude(home: Home, execution: str) -> tuple[RunFacts, Path]:
    """Write down what an ended run came to, and send notices of it; gives its facts and the file of its page.

    Raises:
        UserError: the run's folder was removed.
    """
    from drivetrain.run_store.reader import Ledger

    home.refuse_removed(home.run(execution))
    record_environment(home, execution)
    with Ledger(home) as ledger:
        facts = run_facts(ledger, execution)
    page = save_page(home, facts)
    _enter(home, [facts])
    if os.environ.keys() & {"DRIVETRAIN_NOTICE_URL", "DRIVETRAIN_NOTICE_MAIL"}:
        from drivetrain.operations.notices import send

        for problem in send(facts):
            print(f"warning: {problem}", file=sys.stderr)
    return facts, page


def enter_missing(home: Home) -> int:
    """Enter the values of runs that ended without it: those of earlier versions, and those whose process was killed at
    the last moment. Gives how many there were; none where the ledger cannot be written, as in an archive."""
    from drivetrain.run_store.reader import Ledger

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
    from drivetrain.run_store.writer import LedgerWriter

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
    metrics = {**logged, **of_run.metrics}
    values: list[Value] = [("metric", name, value) for name, value in metrics.items()]
    values += [(DECIDES, name, 1) for name in run.deciding if name in metrics]
    values += [("parameter", name, value) for name, value in run.parameters.items()]
    values += [("setting", name, value) for name, value in of_run.settings.items() if name not in run.parameters]
    curve = main_curve(run.curves)
    if curve is not None:
        values.append((CURVE, curve.name, json.dumps(curve.thinned())))
    return [*values, (INDEXED, INDEXED, 1)]
