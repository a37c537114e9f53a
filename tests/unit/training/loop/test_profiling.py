from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.loop.profiling import Profile, merged
from drivetrain.training.plugins import load_framework
from drivetrain.training.process import Process

FRAMEWORK = load_framework("torch")
MAIN = Process(0, 1, 0, 1, torch.device("cpu"))


def work(profile: Profile, steps: int) -> None:
    for _ in range(steps):
        torch.ones(8, 8) @ torch.ones(8, 8)
        profile.step()


@pytest.mark.parametrize("steps", [6, 4])  # to its end, and a training that ended before
def test_a_trace_and_a_table(steps: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Profile(FRAMEWORK, MAIN, tmp_path, 3) as profile:
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
    with pytest.raises(RuntimeError), Profile(FRAMEWORK, MAIN, tmp_path, 3) as profile:
        work(profile, 3)
        raise RuntimeError
    assert (tmp_path / "profile" / "rank0-trace.json").is_file()


def test_too_few_steps_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Profile(FRAMEWORK, MAIN, tmp_path, 3) as profile:
        work(profile, 1)
    assert (
        "profile=3: nothing was recorded. The first 2 steps are left out, and there were 1." in capsys.readouterr().out
    )
    assert list(tmp_path.iterdir()) == []


def test_0_steps_record_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Profile(FRAMEWORK, MAIN, tmp_path, 0) as profile:
        work(profile, 6)
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == ""


def test_the_longest_operators_are_told_as_numbers_too(tmp_path: Path) -> None:
    with Profile(FRAMEWORK, MAIN, tmp_path, 3) as profile:
        work(profile, 6)
    found = json.loads((tmp_path / "profile" / "operators.json").read_text())
    assert (found["steps"], found["on_gpu"]) == (3, False)
    assert next(row["calls"] for row in found["operators"] if row["name"] == "aten::mm") == 3
    times = [row["ms"] for row in found["operators"]]
    assert times == sorted(times, reverse=True) and 0 < sum(row["share"] for row in found["operators"]) < 1.001


def test_traces_of_ranks_lie_one_below_the_other() -> None:
    def of_rank(base: int) -> dict[str, object]:
        named = {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}}
        events = [named, {"ph": "X", "name": "aten::mm", "pid": 7, "ts": 5.0}, {"ph": "s", "pid": "Spans", "id": 1}]
        return {"baseTimeNanoseconds": base, "traceEvents": events}

    events = merged([of_rank(1000), of_rank(3000)])["traceEvents"]
    assert [event["args"]["name"] for event in events if event["ph"] == "M"] == ["rank 0: python", "rank 1: python"]
    assert [event["ts"] for event in events if event["ph"] == "X"] == [5.0, 7.0]
    assert len({event["pid"] for event in events}) == 4 and len({event["id"] for event in events if "id" in event}) == 2


def test_it_needs_a_place() -> None:
    with pytest.raises(InputError, match="profile=3 has nowhere to write to"):
        Profile(FRAMEWORK, MAIN, None, 3)


def test_a_framework_without_a_profiler(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"profile=3: tests.fixtures.dry has no profiler. Leave profile out."):
        Profile(load_framework("tests.fixtures.dry"), replace(MAIN, device="cpu"), tmp_path, 3)
