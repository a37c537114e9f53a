"""`drivetrain runs report --site FOLDER`: the pages of all runs and models."""

from __future__ import annotations

from pathlib import Path

from drivetrain.base.errors import UserError
from drivetrain.cli import local_home


def write(folder: Path, execution: str, home: Path | None) -> Path:
    """Write the pages; gives the file of the first.

    Raises:
        UserError: a run is named as well, or the folder holds something else.
    """
    from drivetrain.operations.models import opened
    from drivetrain.operations.site import write_site

    if execution != "latest":
        raise UserError(f"--site is of all runs, {execution} is one. Give one of the two.")
    registry = opened(None, home)
    groups = {group.name: registry.versions(group.name) for group in registry.groups()}
    write_site(local_home(home), groups, folder)
    return (folder / "index.html").absolute()
