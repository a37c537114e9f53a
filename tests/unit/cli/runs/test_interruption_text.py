"""What `runs show` and `runs report` tell of a training that was interrupted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.cli.runs.interruption_text import MAX_ROWS, interrupted_json, interrupted_lines, read_prices
from drivetrain.run_store.home import Home
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.telling.content.goodput import Interruption, JobTimes
from drivetrain.telling.content.job_times import job_times
from drivetrain.telling.content.spot_savings import Prices

RESPONSE: dict[str, Any] = {
    "TrainingTimeInSeconds": 30,
    "BillableTimeInSeconds": 27,
    "Drivetrain": {
        "interruptions": [{"at_step": 100, "resumed_step": 80, "steps_lost": 20, "notice_s": 0, "seconds_down": 3.0,
                           "reason": "spot machines taken back"}],
        "attempts": [
            {"number": 1, "started": 100.0, "time": 116.0, "first_step": 0, "step": 100, "saves": 1,
             "stall_seconds": 1.0, "restart_seconds": 5.0},
            {"number": 2, "started": 119.0, "time": 130.0, "first_step": 80, "step": 150, "saves": 1,
             "stall_seconds": 1.0, "restart_seconds": 3.0},
        ],
    },
}  # fmt: skip


def times() -> JobTimes:
    found = job_times("train", {"EnableManagedSpotTraining": True}, RESPONSE)
    assert found is not None
    return found


def test_a_summary_of_interruptions_in_a_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # a table shortens its last column to the width
    head, time, columns, row, hint = interrupted_lines(times(), None)
    assert head == "train: interrupted 1 time, 20 steps taken again, goodput 60.0 % (Young's estimate: 47.7 %)"
    assert time == "  useful steps 15.0 s, saves 2.00 s, work lost 2.00 s, restarts 3.00 s, no machines 3.00 s"
    assert columns.split() == [
        "#",
        "AT",
        "STEP",
        "RESUMED",
        "FROM",
        "STEPS",
        "LOST",
        "NOTICE",
        "TIME",
        "DOWN",
        "REASON",
    ]
    assert row.split() == ["1", "100", "80", "20", "none", "3.00", "s", "spot", "machines", "taken", "back"]
    assert hint == "  --spot-discount 0.7 says what was saved"


def test_prices_give_the_saving() -> None:
    share = interrupted_lines(times(), Prices(discount=0.7))[-1]
    assert share.startswith("  saved 63.") and "off; it pays from 18.5 % off" in share and "cost" not in share
    assert "cost 0.008100, on demand 0.02200" in interrupted_lines(times(), Prices(discount=0.7, on_demand=3.6))[-1]


def test_on_demand_time_is_shown_beside_the_saving() -> None:
    first, second = times().attempts
    mixed = replace(times(), attempts=(first, replace(second, spot=False)))
    line = interrupted_lines(mixed, Prices(discount=0.7))[-1]
    assert line == "  saved 28.2 % at 70 % off, with 40.7 % of the time on demand; it pays from 31.2 % off"
    slow = replace(mixed, attempts=(first, replace(second, restart_seconds=9.0, first_step=0, spot=False)))
    assert interrupted_lines(slow, Prices(discount=0.7))[-1].endswith("; it pays at no discount")


def test_scripts_get_numbers() -> None:
    said = json.loads(json.dumps(interrupted_json(times(), Prices(discount=0.7))))
    assert said["goodput"] == pytest.approx(15 / 25) and said["steps_lost"] == 20 and said["spot"] is True
    assert sum(value for name, value in said["time"].items() if name != "total") == pytest.approx(said["time"]["total"])
    assert said["saving"]["share"] == pytest.approx(1 - 0.3 * 27 / 22)
    assert said["interruptions"][0]["reason"] == "spot machines taken back"
    silent = interrupted_json(JobTimes(step="own", interruptions=(Interruption(),)), None)
    assert silent["time"] is None and silent["goodput"] is None and silent["saving"] is None


def test_a_long_list_is_cut() -> None:
    many = JobTimes(step="train", interruptions=(Interruption(at_step=1),) * (MAX_ROWS + 5))
    lines = interrupted_lines(many, None)
    assert len(lines) == MAX_ROWS + 3 and lines[-1] == "  5 more, which the report and --json have"


def test_spot_machines_that_stayed() -> None:
    (line, hint) = interrupted_lines(JobTimes(step="train", spot=True), None)
    assert line == "train: on spot machines, not interrupted" and "--spot-discount" in hint


def test_the_prices_that_are_given() -> None:
    assert read_prices(None, None) is None
    assert read_prices(None, 0.7) == Prices(discount=0.7)
    assert read_prices(" on_demand = 2, spot=0.5", None) == Prices(discount=0.75, on_demand=2.0)


@pytest.mark.parametrize(
    ("price", "discount", "says"),
    [
        (None, 1.0, "0.7 for 70 % off"),
        (None, -0.1, "from 0"),
        (None, 70.0, "0.7 for 70 % off"),
        (None, float("nan"), "0.7 for 70 % off"),
        ("on_demand=1,spot=0.3", 0.7, "Give one of them"),
        ("on_demand=1", None, "both prices are needed"),
        ("on_demand=1,spott=0.3", None, "both prices are needed"),
        ("on_demand=1,spot=0.3,spot=0.2", None, "both prices are needed"),
        ("on_demand=1,spot=cheap", None, "'spot=cheap' is no NAME=NUMBER"),
        ("on_demand=1,spot=2", None, "spot is at most on_demand"),
        ("on_demand=0,spot=0", None, "above 0"),
        ("on_demand=nan,spot=0", None, "above 0"),
    ],
)
def test_invalid_prices_are_refused(price: str | None, discount: float | None, says: str) -> None:
    with pytest.raises(UserError) as refused:
        read_prices(price, discount)
    assert says in str(refused.value)


def test_the_commands_print_the_summary(drivetrain: Any, tmp_path: Path) -> None:
    home = Home(tmp_path / "spot-home")
    home.create()
    ledger = LedgerWriter(home)
    ledger.begin("e-1", "nightly", definition_hash="d", request_hash="r", parameters={},
                 steps=[("train", "Training", "Train")])  # fmt: skip
    ledger.settle_step("e-1", "train", "Succeeded", arguments={"EnableManagedSpotTraining": True}, response=RESPONSE)
    ledger.finish("e-1", "Succeeded", None)
    ledger.close()
    shown = drivetrain("runs", "show", "e-1", "--home", home.root, "--spot-discount", "0.7")
    assert "train: interrupted 1 time, 20 steps taken again" in shown and "saved 63." in shown
    said = json.loads(drivetrain("runs", "show", "e-1", "--home", home.root, "--json"))
    assert said["interrupted"]["train"]["steps_lost"] == 20 and said["interrupted"]["train"]["saving"] is None
    page = Path(drivetrain("runs", "report", "--home", home.root, "--price", "on_demand=3.6,spot=1.08").strip())
    assert "at 70 % off" in page.read_text()
    assert "Give one of them" in drivetrain.error("runs", "show", "--home", home.root, "--price",
                                                  "on_demand=1,spot=1", "--spot-discount", "0.1")  # fmt: skip
