"""Fixtures of the local runner's tests."""

import sys
from pathlib import Path

import pytest

# The folder `tests` is a namespace package of the repository's root, from wherever pytest was started.
sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.fixtures.local_runs import LocalRuns


@pytest.fixture
def runs(tmp_path: Path) -> LocalRuns:
    return LocalRuns(tmp_path)
