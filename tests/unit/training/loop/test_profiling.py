from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.loop.profiling import Profile
from drivetrain.training.process import Process

MAIN = Process(0, 2, 0, 2, torch.device("cpu"))
OTHER = Process(1, 2, 1, 2, torch.device("cpu"))


def work(profile: Profile, steps: int) -> None:
    for _ in range(steps):
        torch.ones(8, 8) @ torch.ones(8, 8)
        profile.step()


@pytest.mark.parametrize("steps", [6, 4])  # to its end, and a training that ended before
def test_a_trace_and_a_table(steps: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Profile(MAIN, tmp_path, 3) as profile:
        work(profile, steps)
    trace = json.loads((tmp_path / "profile" / "rank0-trace.json").read_text())
    products = [event for event in trace["traceEvents"] if event.get("name") == "aten::mm"]
    assert len(products) == min(3, steps - 2)
    table = (tmp_path / "profile" / "rank0-operators.txt").read_text()
    assert any(line.split()[-2:] == [str(len(products)), "aten::mm"] for line in table.splitlines())
    printed = capsys.readouterr().out
    assert printed.startswith(f"{len(products)} steps recorded in {tmp_path}")
    assert table in printed


def test_a_training_that_fails_has_recorded_what_it_did(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Profile(MAIN, tmp_path, 3) as profile:
        work(profile, 3)
        raise RuntimeError
    assert (tmp_path / "profile" / "rank0-trace.json").is_file()


def test_too_few_steps_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Profile(MAIN, tmp_path, 3) as profile:
        work(profile, 1)
    assert (
        "profile=3: nothing was recorded. The first 2 steps are left out, and there were 1." in capsys.readouterr().out
    )
    assert list(tmp_path.iterdir()) == []


def test_other_ranks_and_0_steps_record_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for process, num_steps in ((OTHER, 3), (MAIN, 0)):
        with Profile(process, tmp_path, num_steps) as profile:
            work(profile, 6)
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == ""


def test_it_needs_a_place() -> None:
    with pytest.raises(InputError, match="profile=3 has nowhere to write to"):
        Profile(OTHER, None, 3)
