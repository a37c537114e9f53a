"""`drivetrain checkpoints`: what a training has saved, whether it is whole, and the way of it to serving."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Home, Json

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
    from drivetrain.cli.training.checkpoint_places import find_place, run_program

    return run_program([*command, "--", find_place(where, step, training, home), *checkpoint])
