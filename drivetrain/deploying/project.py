"""Find the project that a deployed pipeline belongs to, so that two of one name are told apart.

`deployment.project`, else the first commit of the git repository that the command is run in: a laptop and CI have the
same one. Outside of a repository a project has no name.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError

if TYPE_CHECKING:
    from drivetrain.spec.deployment import Deployment

_GIT_SECONDS = 60.0


def project_of(deployment: Deployment) -> str:
    """The project's name; empty outside of a git repository.

    Raises:
        UserError: there is a repository whose first commit cannot be told.
    """
    if deployment.project is not None:
        return deployment.project
    here = Path.cwd()
    if not any((folder / ".git").exists() for folder in (here, *here.parents)):
        return ""
    if _git("rev-parse", "--is-shallow-repository") != "false":
        raise _unknown("This clone has only the latest commits (with actions/checkout, set fetch-depth: 0).")
    return _git("rev-list", "--max-parents=0", "--first-parent", "HEAD").splitlines()[-1]


def _git(*words: str) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(("git", *words), env=environment, capture_output=True, text=True, timeout=_GIT_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unknown(f"git: {error}.") from None
    if done.returncode:
        raise _unknown(f"git: {' '.join(done.stderr.split()):.300}")
    return done.stdout.strip()


def _unknown(why: str) -> UserError:
    return UserError(
        f"{why} So the repository's first commit is unknown, and with it which deployed pipelines are this project's. "
        "Fix that, or name the project: deployment.project in the settings file."
    )
