"""`drivetrain version`."""

from __future__ import annotations

import platform

from drivetrain.cli.declared import App
from drivetrain.cli.options import Json
from drivetrain.telling.terminal import say, say_json

app = App()


@app.command()
def version(as_json: Json = False) -> None:
    """Print the version."""
    if as_json:
        say_json({"drivetrain": installed_version(), "python": platform.python_version()})
    else:
        say_version()


def say_version() -> None:
    """One line: ours and Python's."""
    say(f"drivetrain {installed_version()} (Python {platform.python_version()})")


def installed_version() -> str:
    """The version of the installed distribution."""
    from importlib.metadata import version

    return version("drivetrain")
