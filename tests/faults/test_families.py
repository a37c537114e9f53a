"""A few trials of every fault family, as in CI; `make faults` runs all of them."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.faults.harness import campaign
from tests.faults.harness.families import family, family_names
from tests.faults.harness.line import Line
from tests.faults.harness.progress import Progress

SEED = 20261120
FEW = 3


@pytest.mark.slow
@pytest.mark.parametrize("name", family_names())
def test_nothing_is_violated(name: str, tmp_path: Path) -> None:
    chosen = family(name)
    progress = Progress(tmp_path / "progress.jsonl", min(chosen.quick, FEW), code="")
    progress.begin(SEED)
    line = Line(io.StringIO())
    campaign.run(chosen, progress, campaign.forkserver([chosen]), tmp_path / "scratch", tmp_path / "kept", line)
    assert not progress.missing
    assert [made.violations for made in progress.violating] == []
