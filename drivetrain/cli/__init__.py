"""The command line: one file a group of commands, each imported when it is used. Here is the folder of runs and
models that a command works on.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drivetrain.run_store.home import Home


def local_home(given: Path | None) -> Home:
    """The home at `--home`, `$DRIVETRAIN_HOME` or `.drivetrain`.

    Raises:
        UserError: it is no folder.
    """
    from drivetrain.run_store.home import local_home

    return local_home(given)


def home_option(given: Path | None) -> str:
    """The option that a suggested command must repeat to find the same runs."""
    return "" if given is None else f" --home {shlex.quote(str(given))}"
