"""`drivetrain checkpoints`: what a training has saved, whether it is whole, and the way of it to serving."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.cli import local_home
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Home, Json

if TYPE_CHECKING:
    from drivetrain.run_store.model import StepRun
    from drivetrain.run_store.reader import Ledger

PROGRAM = "drivetrain.training_scripts.checkpoints"
INTERRUPTED = 130
# Of the newest runs, in the search for one that has checkpoints.
_LOOKED_AT = 200

app = App(help="Look at what trainings have saved, verify and export it.")

Where = Annotated[
    str,
    Argument(
        metavar="WHERE",
        help="A folder, s3://BUCKET/PREFIX, or a run (its id or the beginning of it, or `latest`): its own training.",
        show_default=False,
    ),
]
Checkpoint = Annotated[
    str,
    Argument(metavar="CHECKPOINT", help="A training step, `newest` (the default) or `best`.", show_default=False),
]
Step = Annotated[str | None, Option("--step", metavar="NAME", help="The run's step, where several keep checkpoints.")]
Training = Annotated[
    str | None,
    Option("--training", metavar="ID", help="Which training of the place, as `list` names it."),
]


@app.command(name="list")
def list_(where: Where = "latest", step: Step = None, home: Home = None, as_json: Json = False) -> int:
    """List checkpoints: when, how large, of what, in which state.

    \b
    Examples:
      drivetrain checkpoints list
      drivetrain checkpoints list latest --step train
      drivetrain checkpoints list build/checkpoints
    """
    return _program(["list", *_flags(json=as_json)], where, step, None, home)


@app.command()
def show(
    where: Where = "latest",
    checkpoint: Checkpoint = "newest",
    step: Step = None,
    training: Training = None,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Show one checkpoint: files, tensors, values, starts.

    \b
    Examples:
      drivetrain checkpoints show
      drivetrain checkpoints show build/checkpoints best
    """
    options = [*_options(training=training), *_flags(json=as_json)]
    return _program(["show", *options], where, step, training, home, checkpoint)


@app.command()
def verify(
    where: Where = "latest",
    checkpoint: Checkpoint = "newest",
    all_: Annotated[bool, Option("--all", help="Every checkpoint.")] = False,
    quarantine: Annotated[bool, Option("--quarantine", help="Set damaged ones aside, with a report.")] = False,
    step: Step = None,
    training: Training = None,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Read every byte of a checkpoint, and say whether it is whole.

    Exit code 1 where one is damaged. Nothing is moved, unless --quarantine says so.

    \b
    Examples:
      drivetrain checkpoints verify
      drivetrain checkpoints verify build/checkpoints --all
    """
    options = [*_options(training=training), *_flags(all=all_, quarantine=quarantine, json=as_json)]
    return _program(["verify", *options], where, step, training, home, checkpoint)


@app.command()
def export(
    out: Annotated[
        str,
        Option(
            "--out",
            "-o",
            metavar="PATH",
            help="A file (NAME.safetensors), or a model folder to make.",
            show_default=False,
        ),
    ],
    where: Where = "latest",
    checkpoint: Checkpoint = "newest",
    no_average: Annotated[
        bool, Option("--no-average", help="The weights themselves, and not their moving average.")
    ] = False,
    best: Annotated[bool, Option("--best", help="The model of the best validation, where it was kept.")] = False,
    optimizer: Annotated[
        bool, Option("--optimizer", help="Everything, the optimizer's state included, in one file.")
    ] = False,
    force: Annotated[bool, Option("--force", help="Replace what an earlier export wrote.")] = False,
    step: Step = None,
    training: Training = None,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Write a safetensors file or a model folder of a checkpoint.

    Tensors are whole, whatever the strategy and the number of processes that saved them.

    \b
    Examples:
      drivetrain checkpoints export --out model
      drivetrain checkpoints export build/checkpoints 120 --out model
    """
    flags = _flags(no_average=no_average, best=best, optimizer=optimizer, force=force, json=as_json)
    options = _options(out=out, training=training)
    return _program(["export", *options, *flags], where, step, training, home, checkpoint)


def _options(**given: str | None) -> list[str]:
    return [f"--{name}={value}" for name, value in given.items() if value is not None]


def _flags(**given: bool) -> list[str]:
    return [f"--{name.replace('_', '-')}" for name, value in given.items() if value]


def _program(
    command: list[str], where: str, step: str | None, training: str | None, home: Path | None, *checkpoint: str
) -> int:
    """Run the program that trainings bring along; its output and its exit code are ours."""
    return run_program([*command, "--", find_place(where, step, training, home), *checkpoint])


def run_program(arguments: Sequence[str], program: str = PROGRAM) -> int:
    """The exit code of the program; what it says goes where our own output goes."""
    import subprocess

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
