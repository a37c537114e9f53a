"""Find the folder for `drivetrain checkpoints`, and run the program that looks into it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.cli import local_home

if TYPE_CHECKING:
    from drivetrain.run_store.model import StepRun
    from drivetrain.run_store.reader import Ledger

PROGRAM = "drivetrain.training_scripts.checkpoints"
INTERRUPTED = 130
# Of the newest runs, in the search for one that has checkpoints.
_LOOKED_AT = 200


def run_program(arguments: Sequence[str], program: str = PROGRAM) -> int:
    """The exit code of the program; what it says goes where our own output goes."""
    sys.stdout.flush()
    # -P: no file of the current folder is taken for a module.
    with subprocess.Popen([sys.executable, "-P", "-m", program, *arguments]) as started:
        try:
            return started.wait()
        except KeyboardInterrupt:
            started.wait()  # the terminal has told it, too
            return INTERRUPTED


def find_place(where: str, step: str | None, training: str | None, home: Path | None) -> str:
    """The folder or URI: `where` itself, or that in which a run's step keeps its checkpoints. Runs share that: of a run
    it is the folder of its own training, unless a training is named.

    Raises:
        UserError: nothing is named; no such run or step, or one without checkpoints.
    """
    if not where.strip():
        raise UserError("Nothing is given. Give a run's id or latest, a folder, or s3://BUCKET/PREFIX.")
    if where.startswith("s3:") and not where.removeprefix("s3:").strip("/"):
        raise UserError(f"{where} names no bucket. Give s3://BUCKET/PREFIX, a folder, or a run's id.")
    looks_like_place = "/" in where or where.startswith((".", "~")) or Path(where).exists()
    if looks_like_place:
        if step is not None:
            raise UserError(f"--step names a step of a run, and {where} is a place. Give a run's id, or no --step.")
        return where if "://" in where else str(Path(where).expanduser())
    from drivetrain.run_store.objects import ObjectStore
    from drivetrain.run_store.reader import Ledger
    from drivetrain.targets.sagemaker.run.interruption_simulation.journal import own_training

    with Ledger(local_home(home)) as ledger:
        row = _keeping_step(ledger, where, step)
        place = ObjectStore(ledger.home.objects).path(row.checkpoints_uri or "")
        own = own_training(ledger.home.run(row.execution) / row.name) if training is None else None
        # It may be gone, as checkpoints may; then what is left is told of.
        return str(place / own if own and (place / own).is_dir() else place)


def _keeping_step(ledger: Ledger, execution: str, step: str | None) -> StepRun:
    """The step that kept the checkpoints; one that was taken from the cache did so in an earlier run."""
    run = ledger.execution(execution).id
    rows = [ledger.step(run, step)] if step is not None else ledger.steps(run)
    ran = [ledger.step(row.cache_of, row.name) if row.cache_of is not None else row for row in rows]
    found = {row.name: row for row in ran if row.checkpoints_uri is not None}
    which = f"the latest run, {run}," if execution == "latest" else run
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        raise UserError(f"{len(found)} steps of {run} keep checkpoints. Name one by --step. {did_you_mean('', found)}")
    if step is not None:
        reason = "has not run yet" if not rows[0].arguments else "keeps no checkpoints"
        raise UserError(f"Step {rows[0].name!r} of {which} {reason}. {_another(ledger, run, step)}")
    trainings = "trainings of the component `train` do"
    raise UserError(f"No step of {which} has kept checkpoints; {trainings}. {_another(ledger, run, None)}")


def _another(ledger: Ledger, execution: str, step: str | None) -> str:
    """Advice on what to give instead: the newest run with a step (of this name) that kept checkpoints."""
    for run in ledger.executions(limit=_LOOKED_AT):
        rows = [row for row in ledger.steps(run.id) if step in (None, row.name) and row.cache_of is None]
        if run.id != execution and any(row.checkpoints_uri is not None for row in rows):
            return f"The newest run with some is {run.id}: give it instead."
    return "Give another run."
