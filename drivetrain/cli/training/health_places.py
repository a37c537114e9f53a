"""Where a run's training has left what was recorded of its health."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from drivetrain.targets.local.ledger.reader import Ledger
    from drivetrain.targets.local.ledger.rows import StepRow

FOLDER, RECORDS = "health", "records.jsonl"
# What a training records stays below 32 MiB, and a rank's last steps below 64 KiB.
_MOST_BYTES = 256 * 1024 * 1024


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
    from drivetrain.cli.home import local_home
    from drivetrain.targets.local.ledger.reader import Ledger

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
        raise UserError(f"{which} of its health: trainings of the component `train` do, with health=true.")
    if len(found) > 1:
        raise UserError(f"{len(found)} steps of {run} were trained. Name one by --step. {did_you_mean('', found)}")
    return next(iter(found.values()))


def _of_step(ledger: Ledger, row: StepRow, target: Path) -> Path | None:
    """From what it has handed on, or from where it is at work (or has failed)."""
    from drivetrain.targets.local.step_types.training import artifacts_uri
    from drivetrain.targets.local.storage.objects import ObjectStore

    job = row.response.get("TrainingJobName")
    if isinstance(job, str) and "OutputDataConfig" in row.arguments:
        place = ObjectStore(ledger.home.objects).path(artifacts_uri(row.arguments, job, what="output"))
        if place.is_dir():
            return place if (place / FOLDER / RECORDS).is_file() else None
        if place.is_file():
            return _unpacked(place, target)
    begun = ledger.home.run(row.execution) / row.name
    left = sorted(begun.rglob(f"{FOLDER}/{RECORDS}"), key=lambda path: path.stat().st_mtime)
    return left[-1].parent if left else None


def _unpacked(archive: Path, target: Path) -> Path | None:
    """What is in health/ of an output.tar.gz."""
    size = 0
    with tarfile.open(archive) as packed:
        for member in packed:
            parts = Path(member.name).parts
            if not member.isfile() or FOLDER not in parts[:2] or ".." in parts:
                continue
            size += member.size
            if size > _MOST_BYTES:
                raise UserError(f"{archive}: {FOLDER}/ unpacks to more than a training records.")
            path = target.joinpath(*parts[parts.index(FOLDER) :])
            path.parent.mkdir(parents=True, exist_ok=True)
            source = packed.extractfile(member)
            if source is not None:
                path.write_bytes(source.read())
    return target if (target / FOLDER / RECORDS).is_file() else None
