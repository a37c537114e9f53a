from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.bad_input.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "work")
