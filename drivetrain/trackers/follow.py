"""Read a run from its ledger and tell one tracker of it, until it has ended:

    python -m drivetrain.trackers.follow HOME RUN TRACKER

It ends when the run has ended and its stdin is closed; the run's page is written by then. What was told is noted beside
the run after each piece, so that a resumed run continues and nothing is told twice.
"""

from __future__ import annotations

import json
import os
import select
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from drivetrain.base.errors import said
from drivetrain.run_store.home import Home, saved_options
from drivetrain.run_store.objects import ObjectStore
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.told import Told
from drivetrain.telling.content.from_ledger import REPORT_FILE, run_facts
from drivetrain.telling.content.given import Compared, given_settings
from drivetrain.trackers.tracker import Point, TrackedRun, Tracker, TrackerSettings, backend

EVERY_S = 1.0
MOST_POINTS = 5000
_NEW = """
    SELECT m.rowid, m.step, m.name, m.value, m.position, a.started + m.seconds FROM metrics m JOIN attempts a
    ON a.execution = m.execution AND a.step = m.step AND a.number = m.attempt
    WHERE m.execution = ? AND m.rowid > ? ORDER BY m.rowid LIMIT ?
"""


def follow(home: Home, execution: str, name: str, settings: dict[str, Any], wait: Callable[[float], bool]) -> Told:
    """Tell a tracker of a run until it has ended, or of one that has.

    Args:
        wait: waits so many seconds, or less; True when the run has ended and its page is written.

    Returns:
        What it was told. `problem` says why that is not all.
    """
    told = Told.load(home, execution, name)
    if told.settings != settings:
        told = Told(settings=settings)  # another server knows nothing of what this one was told
    told.problem = ""
    told.save(home, execution, name)
    try:
        _follow(home, execution, name, settings, wait, told)
    except Exception as error:
        with (home.trackers(execution) / f"{name}.log").open("a", encoding="utf-8") as log:
            traceback.print_exc(file=log)
        address = str(settings.get("uri") or settings.get("folder") or settings.get("project") or "")
        told.problem = f"{name} ({address}) was not told all of run {execution}: {said(error)[:300]}"
    told.save(home, execution, name)
    return told


def _follow(
    home: Home,
    execution: str,
    name: str,
    settings: dict[str, Any],
    wait: Callable[[float], bool],
    told: Told,
) -> None:
    module = backend(name)
    checked: TrackerSettings = module.Settings.model_validate(settings)
    with Ledger(home) as ledger:
        tracker: Tracker = module.connect(checked, _begun(home, ledger, execution), told.id)
        told.id, told.url, told.ended = tracker.id, tracker.url, False
        told.save(home, execution, name)
        tracker.parameters(_parameters(home, ledger, execution))
        counts: dict[tuple[str, str], int] = {}
        done = False
        while not done:
            done = wait(EVERY_S)
            while new := ledger.rows(_NEW, execution, told.row, MOST_POINTS):
                tracker.metrics(list(_points(new, counts)))
                told.row = new[-1][0]
                told.save(home, execution, name)
        status = ledger.execution(execution).status
        if status == "Executing":
            return  # another process goes on with it, and tells of it
        _finish(home, ledger, execution, tracker, checked.max_artifact_mb * 1e6)
        tracker.end(status)
        told.ended = True


def _begun(home: Home, ledger: Ledger, execution: str) -> TrackedRun:
    run = ledger.run(execution)
    return TrackedRun(
        id=run.id,
        pipeline=run.pipeline,
        started=run.started,
        page=(home.run(execution) / REPORT_FILE).absolute(),
        name=run.name,
        tags={name: str(text) for name, text in run.tags.items()},
    )


def _points(rows: list[tuple[Any, ...]], counts: dict[tuple[str, str], int]) -> Iterator[Point]:
    """Rows of _NEW as points: each value at the training's step, as its log says it; else by its number.

    Args:
        counts: step and metric -> the number of its last value so far; brought up to date.
    """
    for _, step, name, value, position, at in rows:
        count = counts[step, name] = counts.get((step, name), -1) + 1
        yield Point(step, name, value, count if position is None else round(position), at)


def _parameters(home: Home, ledger: Ledger, execution: str) -> dict[str, str]:
    values = {**given_settings(home, execution), **ledger.execution(execution).parameters}
    return {name: value if isinstance(value, str) else json.dumps(value, default=str) for name, value in values.items()}


def _finish(home: Home, ledger: Ledger, execution: str, tracker: Tracker, most_bytes: float) -> None:
    """Send what is known at the end: what the steps returned, the page, the outputs."""
    facts = run_facts(ledger, execution)
    of_run = Compared(facts=facts)
    tracker.parameters({name: str(value) for name, value in of_run.settings.items() if "." in name})
    tracker.results(of_run.metrics)
    page = home.run(execution) / REPORT_FILE
    if page.exists():
        tracker.artifact("report.html", page)
    store = ObjectStore(home.objects)
    places: dict[str, str] = {}
    for one in facts.artifacts:
        if one.flow != "output" or not one.uri.startswith("s3://"):
            continue
        path = store.path(one.uri)
        places[f"output.{one.step}.{one.name}"] = f"{path} sha256:{one.digest}"
        if path.exists() and one.bytes <= most_bytes:
            tracker.artifact(f"{one.step}/{one.name}", path)
    tracker.parameters(places)


def _until_closed(seconds: float) -> bool:
    """Wait for the end of stdin, which also comes when the parent process ends."""
    ready, _, _ = select.select([0], [], [], seconds)
    return bool(ready) and os.read(0, 1) == b""


def main() -> None:
    """See the top of this file."""
    root, execution, name = sys.argv[1:]
    home = Home(root)
    os.nice(10)  # the run goes first
    told = follow(home, execution, name, saved_options(home.run(execution)).get("trackers", {})[name], _until_closed)
    sys.exit(1 if told.problem else 0)


if __name__ == "__main__":
    main()
