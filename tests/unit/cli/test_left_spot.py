"""A training that gives up on spot machines and goes on on others: what is told of it over both executions."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

# Keeps every 10th step and writes down what it does, as our own training does. Its first start waits at step 25 and its
# second at step 45 until it is interrupted; the third gives up.
PIPELINE = '''
import json, os, time
from drivetrain.components import Checkpoints, Output, component
from drivetrain import Cluster, Pipeline, Settings, Spot, step


class Leaving(Settings):
    spot: bool = False


@component(job="training")
def fit(model: Output, checkpoints: Checkpoints) -> None:
    """Count to 60."""
    started = time.time()
    records = checkpoints / "attempts"
    records.mkdir(exist_ok=True)
    number = 1 + len(list(records.glob("*.json")))
    if number == 3 and not (checkpoints / "gave-up").exists():
        (checkpoints / "gave-up").touch()
        raise RuntimeError("interrupted 2 times in a row. Go on with: drivetrain runs resume ID --set spot=false")
    first = max((int(path.name[5:]) for path in checkpoints.glob("step-*")), default=0)
    time.sleep(0.2)
    said = {"number": number, "started": started, "first_step": first, "step": first, "saves": 0, "stall_seconds": 0.0,
            "restart_seconds": time.time() - started, "ended": None}

    def say(**more: object) -> None:
        said.update(more, time=time.time())
        part = records / f"{number:05d}.part"
        part.write_text(json.dumps(said))
        part.rename(records / f"{number:05d}.json")

    for taken in range(first + 1, 61):
        time.sleep(0.01)
        if taken % 10 == 0:
            part = checkpoints / "part"
            part.touch()
            part.rename(checkpoints / f"step-{taken}")
            time.sleep(0.02)
            say(saves=said["saves"] + 1, stall_seconds=said["stall_seconds"] + 0.02)
        say(step=taken)
        print("step", taken, flush=True)
        if taken == {1: 25, 2: 45}.get(number):
            time.sleep(600)
    say(ended="finished")
    (model / "weights").write_text("60")


def leaving(settings: Leaving) -> Pipeline:
    spot = Spot(max_wait_seconds=86_400) if settings.spot else None
    return Pipeline(name="leaving", steps=[step(fit, cluster=Cluster(spot=spot))])
'''


def shown(drivetrain: Any, home: Path) -> dict[str, Any]:
    said = json.loads(drivetrain("runs", "show", "--home", home, "--json", "--price", "on_demand=3600,spot=1080"))
    return said["interrupted"]["fit"]


@pytest.mark.slow
def test_the_figures_are_those_of_both_executions(drivetrain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    drivetrain.write("leaving_spot.py", PIPELINE)
    home = drivetrain.folder / ".home"
    asked = ("--interrupt", "step=25,notice=20s", "--interrupt", "step=45,notice=20s")
    out = drivetrain("run", "leaving_spot.py:leaving", "--set", "spot=true", *asked, "--home", home, code=1)
    execution = next(home.glob("runs/*")).name
    assert "resume ID" not in out and out.count(f"drivetrain runs resume {execution} --set spot=false") >= 2
    assert "interrupted 2 times, goodput" in out

    failed = shown(drivetrain, home)
    known = [(one["start"], one["at_step"], one["resumed_step"]) for one in failed["interruptions"]]
    assert known == [(1, 25, 20), (2, 45, None)]
    assert failed["spot"] and failed["steps_lost"] is None and failed["saving"]["on_demand"] == 0.0

    out = drivetrain("runs", "resume", "--set", "spot=false", "--home", home)
    assert "fit: interrupted 2 times, 10 steps taken again, goodput" in out
    said = shown(drivetrain, home)
    assert said["spot"] and [one["resumed_step"] for one in said["interruptions"]] == [20, 40]
    assert [one["steps_lost"] for one in said["interruptions"]] == [5, 5] and said["steps_lost"] == 10
    check_figures(said, json.loads(next(home.glob("runs/*/fit/journal.json")).read_text())["attempts"])
    check_page(drivetrain, home, said)


def check_figures(said: dict[str, Any], starts: list[dict[str, Any]]) -> None:
    """From the moments that were written down: 1, 2 and 4 took 25 steps each (4: 20), 5 and 5 of them again."""
    assert [(one.get("first_step"), one.get("step")) for one in starts] == [(0, 25), (20, 45), (None, None), (40, 60)]
    assert [(one["job"], one["spot"]) for one in starts] == [(1, True), (1, True), (1, True), (2, False)]
    one, two, gave_up, last = starts
    at_work = [start["time"] - start["started"] - start["restart_seconds"] for start in (one, two, last)]
    stalls = [start["stall_seconds"] for start in (one, two, last)]
    assert [start["saves"] for start in (one, two, last)] == [2, 2, 2] and sum(stalls) == pytest.approx(0.12)
    lost = (at_work[0] - stalls[0]) * 5 / 25 + (at_work[1] - stalls[1]) * 5 / 25
    useful = sum(at_work) - sum(stalls) - lost
    down = sum(after["started"] - before["gone"] for before, after in pairwise((one, two, gave_up)))
    restarting = two["restart_seconds"] + (gave_up["gone"] - gave_up["started"]) + last["restart_seconds"]
    total = useful + sum(stalls) + lost + restarting + down
    expected = {
        "total": total, "useful": useful, "saves": sum(stalls), "work_lost": lost, "restarts": restarting,
        "no_machines": down,
    }  # fmt: skip
    assert said["time"] == pytest.approx(expected, abs=0.005)
    assert said["goodput"] == pytest.approx(useful / total, abs=0.002)
    save, between, restart = sum(stalls) / 6, total / 2, (restarting + down) / 2
    bound = max(1 - math.sqrt(2 * save / between) - restart / between, 0.0)
    assert said["young_bound"] == pytest.approx(bound, abs=0.002)

    on_spot = sum(start["gone"] - start["started"] for start in (one, two, gave_up))
    on_demand = last["gone"] - last["started"]
    saved = said["saving"]
    assert (saved["paid"], saved["on_demand"]) == pytest.approx((on_spot + on_demand, on_demand), abs=0.005)
    needed = on_spot + on_demand - lost - restarting
    assert (saved["cost"], saved["on_demand_cost"]) == pytest.approx((0.3 * on_spot + on_demand, needed), abs=0.01)
    assert saved["share"] == pytest.approx(1 - (0.3 * on_spot + on_demand) / needed, abs=0.01)


def check_page(drivetrain: Any, home: Path, said: dict[str, Any]) -> None:
    page = Path(drivetrain("runs", "report", "--home", home, "--spot-discount", "0.7").strip()).read_text()
    assert "interruption 1: at step 25" in page and "interruption 2: at step 45" in page
    assert "10 steps taken again" in page and "of it on demand" in page
    assert f"{said['goodput'] * 100:.1f} %" in page and f"{said['saving']['share'] * 100:.1f} %" in page
