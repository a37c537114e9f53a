"""`drivetrain completion`: what a shell needs to complete commands, options, pipelines and runs.

The script that it prints asks this program, by a variable, for the words that may come next (click's protocol).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from drivetrain.cli.declared import COMPLETE, App, Argument

if TYPE_CHECKING:
    import click

app = App()
MOST_RUNS = 50


@app.command()
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print the script that lets a shell complete drivetrain.

    \b
    Examples:
      eval "$(drivetrain completion bash)"
      drivetrain completion fish > ~/.config/fish/completions/drivetrain.fish
    """
    import click
    from click.shell_completion import shell_complete

    shell_complete(click.get_current_context().find_root().command, {}, "drivetrain", COMPLETE, f"{shell}_source")


def complete(commands: click.Command) -> int:
    """Print the words that may come next, as the script of a shell asks for them; gives the exit code."""
    import os

    from click.shell_completion import shell_complete

    return shell_complete(commands, {}, "drivetrain", COMPLETE, os.environ[COMPLETE])


def runs(incomplete: str) -> list[str]:
    """Names and ids of runs here that begin so; none where the ledger cannot be read."""
    from drivetrain.base.errors import UserError
    from drivetrain.cli import local_home
    from drivetrain.run_store.reader import Ledger

    try:
        with Ledger(local_home(None)) as ledger:
            rows = ledger.executions(MOST_RUNS)
    except UserError:
        return []  # a shell asks while somebody types: there is no place for a message
    known = ["latest", *(row.name for row in rows if row.name), *(row.id for row in rows)]
    return [word for word in known if word.startswith(incomplete)]


def steps(incomplete: str, execution: str) -> list[str]:
    """Names of the steps of a run here that begin so; none where there is no such run."""
    from drivetrain.base.errors import UserError
    from drivetrain.cli import local_home
    from drivetrain.run_store.reader import Ledger

    try:
        with Ledger(local_home(None)) as ledger:
            rows = ledger.steps(ledger.execution(execution).id)
    except UserError:
        return []
    return [row.name for row in rows if row.name.startswith(incomplete)]


def settings(incomplete: str, pipeline: str | None) -> list[str]:
    """`NAME=` of a pipeline's own settings that begin so; none where there is no such pipeline."""
    from contextlib import redirect_stdout
    from io import StringIO

    from drivetrain.authoring.loading import settings_of
    from drivetrain.authoring.settings import Settings
    from drivetrain.base.errors import UserError

    try:
        with redirect_stdout(StringIO()):  # what a file prints as it is imported is no word
            kind = settings_of(pipeline or "")
    except UserError:
        return []
    own = kind.model_fields.keys() - Settings.model_fields
    return [f"{name}=" for name in kind.model_fields if name in own and name.startswith(incomplete)]


def pipelines(incomplete: str) -> list[str]:
    """Names of ready pipelines, and files here, that begin so."""
    from drivetrain.authoring.ready import ready_pipelines

    files = [path.name for path in sorted(Path.cwd().glob("*.py"))]
    return [word for word in [*ready_pipelines(), *files] if word.startswith(incomplete)]
