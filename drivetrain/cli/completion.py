"""`drivetrain completion`: what a shell needs to complete commands, options, pipelines and runs.

The script that it prints asks this program, by a variable, for the words that may come next (click's protocol).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from drivetrain.cli.declared import COMPLETE, App, Argument

if TYPE_CHECKING:
    import click

app = App()


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
