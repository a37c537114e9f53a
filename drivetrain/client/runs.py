"""Many runs, the newest first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError, shown
from drivetrain.client.arguments import checked_home, checked_limit
from drivetrain.client.frames import Listed
from drivetrain.client.run import Run
from drivetrain.operations.concluding import enter_missing
from drivetrain.run_store.home import Home
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.search import search

MOST = 20


class Runs(Listed[Run]):
    """Runs as a list that a notebook shows as a table: id, pipeline, status, started, seconds, parameters, metrics."""

    columns = ("id", "pipeline", "status", "started", "seconds")
    nothing = "no runs"

    def row(self, item: Run) -> dict[str, Any]:
        return {
            "id": item.id,
            "pipeline": item.pipeline,
            "status": item.status,
            "started": item.started,
            "seconds": item.seconds,
            **item.settings,
            **item.parameters,
            **item.metrics,
        }


def runs(
    pipeline: str | None = None,
    *,
    where: str | None = None,
    sort: str | None = None,
    limit: int = MOST,
    home: str | Path | None = None,
) -> Runs:
    """The latest runs on this machine, the newest first.

        dt.runs(where="accuracy > 0.98 and tag.team = vision", sort="-accuracy")

    Args:
        pipeline: of this pipeline alone.
        where: only runs that this holds for: comparisons of metrics, settings, parameters and tags, joined with and,
            or, not and parentheses (docs/runs.md).
        sort: by this value; `-accuracy` for the greatest first.
        limit: how many at most.
        home: the folder of runs; $DRIVETRAIN_HOME, else `.drivetrain` in the working folder, unless given.

    Raises:
        UserError: an argument of another kind, a mistake in `where`, or a name that no run has.
    """
    if pipeline is not None and not isinstance(pipeline, str):  # type: ignore[reportUnnecessaryIsInstance]
        raise UserError(f"runs({shown(pipeline)}): give the name of a pipeline, or none for all.")
    checked_limit("runs", limit, MOST)
    checked_home("runs", home)
    for name, given in (("where", where), ("sort", sort)):
        if given is not None and not isinstance(given, str):  # type: ignore[reportUnnecessaryIsInstance]
            raise UserError(f'runs({name}={shown(given)}): give a text, such as where="accuracy > 0.98".')
    if where is not None or sort is not None:
        enter_missing(Home(home))
    with Ledger(Home(home)) as ledger:
        rows = search(ledger, where=where, sort=sort, pipeline=pipeline, limit=limit).rows
        missing = "" if ledger.home.root.exists() else f": there is no folder {ledger.home.root}"
    return Runs([Run(row.id, home=home) for row in rows], f"no runs{missing}")
