"""`drivetrain setup`: environments of their own, for libraries whose pins fit no other one."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.cli import local_home
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Home, Json
from drivetrain.telling.terminal import say, say_json

app = App()


@app.command()
def setup(
    environment: Annotated[str, Argument(metavar="ENVIRONMENT", help="debugger", show_default=False)],
    into: Annotated[
        Path | None,
        Option("--into", metavar="DIR", help="Where  [default: environments/ENVIRONMENT in the home]"),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Make an environment for a library with other pins.

    debugger: smdebug, the library of SageMaker Debugger, patched for today's numpy, with torch. Scripts with a hook of
    smdebug's own run in it; `drivetrain health show` reads what they save.

    A complete environment is left as it is; an interrupted setup is resumed.

    \b
    Examples:
      drivetrain setup debugger
      drivetrain setup debugger --into .venvs/debugger
    """
    import time

    begun = time.monotonic()

    def told(text: str) -> None:
        print(f"{time.monotonic() - begun:6.1f} s  {text}", file=sys.stderr)

    folder = into.expanduser() if into else local_home(home).root / "environments" / environment
    recipe = _environment(environment)
    python = recipe.make(folder, told)
    told(f"ready: {recipe.SUMMARY}; run scripts by this Python:")
    if as_json:
        say_json({"environment": environment, "python": str(python)})
    else:
        say(str(python))


def _environment(name: str) -> Any:
    """The module `environment.py` of a folder of infra/, which is named like the environment: its SUMMARY, and `make`,
    which makes it, or finds it made, and gives the path of its Python.

    Raises:
        UserError: there is no such environment.
    """
    recipes = find_spec("drivetrain.infra")
    folders = (recipes and recipes.submodule_search_locations) or ()
    known = [path.parent.name for folder in folders for path in Path(folder).glob("*/environment.py")]
    if name not in known:
        raise UserError(f"There is no environment {name!r} to set up. {did_you_mean(name, known)}")
    return importlib.import_module(f"drivetrain.infra.{name}.environment")
