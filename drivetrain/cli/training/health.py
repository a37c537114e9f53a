"""`drivetrain health`: what the health rules say of a training, and of its last steps."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.cli import local_home
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Home, Json

if TYPE_CHECKING:
    from drivetrain.run_store.model import StepRun
    from drivetrain.run_store.reader import Ledger

app = App(help="See what health rules say of a training, and try others.")

What = Annotated[
    str,
    Argument(
        metavar="WHAT",
        help="A run (its id, the beginning of it, or `latest`), or a training's output folder.",
        show_default=False,
    ),
]
Step = Annotated[str | None, Option("--step", metavar="NAME", help="The run's step, where several were trained.")]


@app.command()
def show(
    what: What = "latest",
    steps: Annotated[
        int, Option("--steps", min=0, metavar="N", help="How many of each rank's last steps to show.")
    ] = 3,
    step: Step = None,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Show which rules fired, where the time went, the last steps.

    \b
    Examples:
      drivetrain health show
      drivetrain health show build/output --steps 20
    """
    return _program(["show", f"--steps={steps}"], what, step, home, as_json)


@app.command()
def replay(
    what: What = "latest",
    rules: Annotated[
        str, Option("--rules", metavar="JSON", help="Rules, as in a training's health_rules.", show_default=False)
    ] = "{}",
    step: Step = None,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Apply rules, with other options, to what was recorded. Nothing is trained.

    \b
    Examples:
      drivetrain health replay latest --rules '{"overfitting": {"share": 0.1, "action": "fail"}}'
      drivetrain health replay build/output --json
    """
    return _program(["replay", f"--rules={rules}"], what, step, home, as_json)


def _program(command: list[str], what: str, step: str | None, home: Path | None, as_json: bool) -> int:
    """Run the program that trainings bring along; its output and its exit code are ours."""
    from drivetrain.cli.training.checkpoints import run_program

    with recorded(what, step, home) as folder:
        flags = ["--json"] if as_json else []
        return run_program([*command, *flags, "--", str(folder)], program="drivetrain.training_scripts.health")


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
    from drivetrain.training.health.packed import COLLECTIONS, FOLDER, RECORDS, has_records, unpacked

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
