"""Find the health records of a run's training."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.training.health.packed import COLLECTIONS, FOLDER, RECORDS, has_records, unpacked

if TYPE_CHECKING:
    from drivetrain.run_store.model import StepRun
    from drivetrain.run_store.reader import Ledger


@contextmanager
def recorded(what: str, step: str | None, home: Path | None) -> Generator[Path]:
    """The folder: `what` itself, or that of a run's training.

    Raises:
        UserError: no such folder, run or step, or nothing was recorded.
    """
    if "/" in what or what.startswith((".", "~")) or Path(what).exists():
        folder = Path(what).expanduser()
        if not folder.is_dir():
            raise UserError(f"{what} is no folder. Give the output folder of a training, or a run's id.")
        if step is not None:
            raise UserError(f"--step names a step of a run, and {what} is a folder. Give a run's id, or no --step.")
        yield folder
        return
    from drivetrain.cli import local_home
    from drivetrain.run_store.reader import Ledger

    with Ledger(local_home(home)) as ledger, tempfile.TemporaryDirectory(prefix="drivetrain-health-") as temporary:
        yield _of_run(ledger, what, step, Path(temporary))


def _of_run(ledger: Ledger, what: str, step: str | None, temporary: Path) -> Path:
    run = ledger.execution(what).id
    rows = [ledger.step(run, step)] if step is not None else ledger.steps(run)
    found: dict[str, Path] = {}
    for row in rows:
        if row.type != "Training":
            continue
        own = ledger.step(row.cache_of, row.name) if row.cache_of is not None else row
        folder = _of_step(ledger, own, temporary / f"{len(found)}")
        if folder is not None:
            found[row.name] = folder
    if not found:
        which = (
            f"Step {step!r} of {run} has recorded nothing" if step is not None else f"No step of {run} has recorded any"
        )
        raise UserError(
            f"{which} of its health: trainings of the component `train` do, with health=true, and scripts with a hook "
            "of smdebug that saves below SM_OUTPUT_DATA_DIR."
        )
    if len(found) > 1:
        raise UserError(f"{len(found)} steps of {run} were trained. Name one by --step. {did_you_mean('', found)}")
    return next(iter(found.values()))


def _of_step(ledger: Ledger, row: StepRun, target: Path) -> Path | None:
    """The health folder of a step, in its output or where it is at work (or has failed)."""
    from drivetrain.run_store.objects import ObjectStore
    from drivetrain.targets.sagemaker.run.step_types.training import artifacts_uri

    job = row.response.get("TrainingJobName")
    if isinstance(job, str) and "OutputDataConfig" in row.arguments:
        place = ObjectStore(ledger.home.objects).path(artifacts_uri(row.arguments, job, what="output"))
        if place.is_dir():
            return place if has_records(place) else None
        if place.is_file():
            return unpacked(place, target)
    begun = ledger.home.run(row.execution) / row.name
    left = [path.parent for path in _by_age(begun, f"{FOLDER}/{RECORDS}")]
    left = left or [path.parent.parent.parent for path in _by_age(begun, COLLECTIONS)]
    return left[-1] if left else None


def _by_age(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.rglob(pattern), key=lambda path: path.stat().st_mtime)
