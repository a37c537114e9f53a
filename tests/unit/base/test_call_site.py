"""Lines of messages are those of the user's own files."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from drivetrain.base import call_site


@pytest.mark.parametrize(
    "file",
    [click.core.__file__, os.__file__, call_site.__file__, "<stdin>", "/other/lib/python3.11/site-packages/x.py"],
)
def test_files_of_python_of_packages_and_of_drivetrain_are_not_the_users(file: str) -> None:
    assert not call_site.is_users_file(file)


def test_a_package_that_is_linked_from_elsewhere_is_not_the_users(tmp_path: Path) -> None:
    """Some installers link packages into an environment from a cache."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/core.py").touch()
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages/click").symlink_to(tmp_path / "cache")
    assert not call_site.is_users_file(str(tmp_path / "site-packages/click/core.py"))
    assert call_site.is_users_file(str(tmp_path / "cache/core.py"))
