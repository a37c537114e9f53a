"""`drivetrain destroy`: take away what apply made."""

from __future__ import annotations

from typing import Annotated

from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.deployed.deployment import Yes, confirm
from drivetrain.cli.options import Config, Json, Set
from drivetrain.cli.options import Target as On
from drivetrain.telling.terminal import say, say_json

app = App()


@app.command()
def destroy(
    target: Annotated[
        str, Argument(metavar="PIPELINE", help="A pipeline's name, or FILE.py[:FUNCTION].", show_default=False)
    ],
    on: On = None,
    config: Config = None,
    set_: Set = None,
    foreign: Annotated[
        bool, Option("--foreign", help="Also delete what is another project's, or perhaps not made by apply.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete a deployed pipeline: schedules, rules, code, records.

    What executions wrote stays: models, checkpoints and reports, where registered versions live. Code and data that
    another pipeline uses stay, too, such as a copy made in Studio; what stays is said.

    \b
    Examples:
      drivetrain destroy retraining -c production.yaml
      drivetrain destroy nightly -c production.yaml --yes
    """
    from drivetrain.operations.deployment import deployer_of

    def say_kept(lines: tuple[str, ...]) -> None:
        for line in lines:
            say(f"note: {line}")

    deployer, name = deployer_of(target, config, set_, on=on, by_settings=True)
    there = deployer.remains(name, foreign=foreign)
    if there.is_empty:
        if as_json:
            say_json(there.to_json())
        else:
            say(f"Nothing to do: there is no pipeline {name!r} in {deployer.where}.")
            say_kept(there.kept)
        return
    if not as_json:
        say("\n".join(f"- {line}" for line in there.lines()))
        say_kept(there.kept)
    question = f"Delete this from {deployer.where}?"
    if not confirm(question, yes=yes, instead="Give --yes to delete."):
        say("Nothing was changed.")
        return
    done = deployer.destroy(there, (lambda line: None) if as_json else say)
    if as_json:
        say_json(done.to_json())
    else:
        say(f"What its executions wrote stays in {deployer.kept(name)}.")
