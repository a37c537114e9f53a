"""`drivetrain setup`: which environments there are, and where one is put. (Making one: tests/unit/infra/debugger.)"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from drivetrain.infra.debugger import environment


def test_a_missing_environment_is_refused(drivetrain) -> None:
    assert drivetrain.error("setup", "debuger").startswith(
        "error: There is no environment 'debuger' to set up. Did you mean 'debugger'? Allowed: debugger."
    )


@pytest.mark.parametrize("options", [("--into", "there"), ("--home", "home")])
def test_its_python_is_printed(
    options: tuple[str, str], drivetrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(folder: Path, say: Callable[[str], None]) -> Path:
        say(f"making {folder}")
        return folder / "bin/python"

    monkeypatch.setattr(environment, "make", make)
    name, value = options
    folder = tmp_path / value / ("" if name == "--into" else "environments/debugger")
    assert drivetrain("setup", "debugger", name, tmp_path / value).strip() == str(folder / "bin/python")
    told = json.loads(drivetrain("setup", "debugger", name, tmp_path / value, "--json"))
    assert told == {"environment": "debugger", "python": str(folder / "bin/python")}
