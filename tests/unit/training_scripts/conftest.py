"""Small prepared data, as in tests/distributed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def prepared_data() -> ModuleType:
    path = Path(__file__).parents[2] / "distributed" / "prepared_data.py"
    spec = importlib.util.spec_from_file_location("prepared_data", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
