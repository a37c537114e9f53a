"""Every fault family can be run; `make faults` runs them, in CI a few trials of each."""

from __future__ import annotations

import io
import math
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.faults.harness import campaign
from tests.faults.harness.families import family, family_names
from tests.faults.harness.line import Line
from tests.faults.harness.progress import Made, Progress

SEED = 20261120


@pytest.mark.parametrize("name", family_names())
def test_every_family_has_the_required_parts(name: str) -> None:
    found = family(name)
    assert found.fault and 0 < found.quick <= found.trials and found.at_once > 0 and found.patience_s > 0
    assert callable(found.prepare) and callable(found.trial)
    assert all(isinstance(module, str) for module in found.preload)


@pytest.mark.slow
def test_a_campaign_runs_missing_trials_until_its_time_is_over(tmp_path: Path) -> None:
    chosen = family("checkpoint_clock")
    context, line = campaign.forkserver([chosen]), Line(io.StringIO())

    def run(progress: Progress, scratch: str, until: float = math.inf) -> None:
        campaign.run(chosen, progress, context, tmp_path / scratch, tmp_path / "kept", line, until=until)
        assert [made.violations for made in progress.violating] == []

    many = Progress(tmp_path / "many.jsonl", 100_000, code="")
    many.begin(SEED)
    run(many, "none", until=time.monotonic())
    assert not many.made and not (tmp_path / "none").exists()
    run(many, "some", until=time.monotonic() + 0.3)
    assert many.missing

    few = Progress(tmp_path / "few.jsonl", 3, code="")
    few.begin(SEED)
    few.add(Made(1, 1.0, {}, []))
    run(few, "rest")
    assert not few.missing and len(few.made) == 3
