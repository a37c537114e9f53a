"""Homes that cannot be used: one line says why, and what to give instead."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.serve.server import _locked
from drivetrain.targets.local.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    home.lock_file("first").parent.mkdir()
    home.lock_file("first").touch()
    return home


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP], ids=errno.errorcode.get)
def test_a_file_system_without_locks(home: Home, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them two processes would run one execution."""

    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refused)
    said = rf"{home.root} lies on a file system without locks \(flock\).* by --home or \$DRIVETRAIN_HOME\.$"
    with pytest.raises(UserError, match=said), home.lock("first"):
        pass
    with pytest.raises(UserError, match=said), home.checkpoint_lock("s3://b/k", "first", "train"):
        pass
    with pytest.raises(UserError, match=said):
        home.is_running("first")
    with pytest.raises(UserError, match=said):
        _locked(home.runs)
