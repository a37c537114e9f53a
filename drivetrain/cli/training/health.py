"""`drivetrain health`: what the health rules say of a training, and of its last steps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Home, Json

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
    from drivetrain.cli.training.checkpoint_places import run_program
    from drivetrain.cli.training.health_places import recorded

    with recorded(what, step, home) as folder:
        flags = ["--json"] if as_json else []
        return run_program([*command, *flags, "--", str(folder)], program="drivetrain.training_scripts.health")
