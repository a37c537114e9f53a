"""What is kept of the starts and interruptions of a training, over every job of it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from drivetrain.targets.sagemaker.run.interruption_simulation.journal import (
    FILE,
    Journal,
    Start,
    latest_start,
    starts_seen,
    told,
)

WHERE = "s3://bucket/checkpoints/"


class Clock:
    now = 1000.0

    def at(self, moment: float) -> Clock:
        self.now = moment
        return self


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "time", lambda: clock.now)
    return clock


def attempts(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / FILE).read_text())["attempts"]


def interrupted(journal: Journal, last_words: Mapping[str, Any], at: int | None = None) -> Mapping[str, Any]:
    journal.ended(last_words)
    return journal.interrupted("step=1", reached=at, notice_s=0.0, reason="taken back")


def test_the_trainings_own_word_counts_more_than_its_log() -> None:
    start = Start(0.0)
    for step in (30, 40, 50):
        start.logged(step)
    assert (start.first_step, start.last_step) == (20, 50)
    start.told = {"first_step": 28, "step": 57}
    assert (start.first_step, start.last_step) == (28, 57)
    start.told = {"first_step": "x", "step": -1}
    assert (start.first_step, start.last_step) == (20, 50)


def test_a_start_counts_from_when_its_machines_were_there_to_when_they_had_gone(tmp_path: Path, clock: Clock) -> None:
    """The program was started 0.5 s after the machines were there, and killed 0.75 s after its last word."""
    journal = Journal(tmp_path, job=1, spot=True, checkpoints=WHERE)
    clock.at(100.0)
    journal.begin()
    assert attempts(tmp_path) == [{"number": 1, "job": 1, "spot": True, "started": 100.0}]
    words = {"number": 7, "started": 100.5, "restart_seconds": 2.0, "first_step": 40, "step": 55, "time": 110.0}
    clock.at(110.75)
    interrupted(journal, {**words, "ended": None}, at=60)
    assert attempts(tmp_path) == [
        {
            **{"number": 1, "job": 1, "spot": True, "started": 100.0, "restart_seconds": 2.5, "first_step": 40},
            **{"step": 60, "time": 110.75, "gone": 110.75, "ended": None},
        }
    ]
    clock.at(112.0)
    journal.begin()
    clock.at(120.0)
    journal.ended({**words, "number": 8, "time": 119.0, "ended": "finished"})
    last = attempts(tmp_path)[1]
    assert (last["number"], last["time"], last["gone"]) == (2, 119.0, 120.0), "it said when it had finished"


@pytest.mark.parametrize("value", ["x", None, -1.0, math.nan, math.inf, True])
def test_invalid_times_are_ignored(tmp_path: Path, clock: Clock, value: object) -> None:
    journal = Journal(tmp_path, job=1, spot=True, checkpoints=WHERE)
    clock.at(100.0)
    journal.begin()
    journal.ended({"started": value, "restart_seconds": 2.0})
    assert attempts(tmp_path)[0]["restart_seconds"] == 2.0
    assert attempts(tmp_path)[0]["started"] == 100.0


def test_the_next_job_goes_on_with_the_journal(tmp_path: Path, clock: Clock) -> None:
    first = Journal(tmp_path, job=1, spot=True, checkpoints=WHERE)
    first.begin()
    interrupted(first, {"first_step": 0, "step": 60})
    first.begin()
    interrupted(first, {"first_step": 20, "step": 140})
    first.begin()
    first.ended({})  # it refused to start once more
    known = [(one["start"], one["at_step"], one["resumed_step"], one["steps_lost"]) for one in first.interruptions]
    assert known == [(1, 60, 20, 40), (2, 140, None, None)] and first.in_a_word() == "2 interruptions"

    second = Journal(tmp_path, job=2, spot=False, checkpoints=WHERE)
    assert second.in_a_word() == "2 interruptions" and second.starts == []
    second.begin()
    second.heard({"first_step": 80, "step": 85})
    kept = told(tmp_path)
    assert kept is not None and [one["resumed_step"] for one in kept["interruptions"]] == [20, 80]
    assert kept["interruptions"][1]["steps_lost"] == 60 and "given" not in kept["interruptions"][1]
    second.ended({"first_step": 80, "step": 400, "ended": "finished"})
    starts = [(one["number"], one["job"], one["spot"], one.get("step")) for one in attempts(tmp_path)]
    assert starts == [(1, 1, True, 60), (2, 1, True, 140), (3, 1, True, None), (4, 2, False, 400)]


def test_a_training_with_other_checkpoints_is_another_one(tmp_path: Path) -> None:
    first = Journal(tmp_path, job=1, spot=True, checkpoints=WHERE)
    first.begin()
    interrupted(first, {"first_step": 0, "step": 60})
    other = Journal(tmp_path, job=2, spot=True, checkpoints="s3://bucket/others/")
    assert other.interruptions == []
    other.begin()
    assert [(one["number"], one["job"]) for one in attempts(tmp_path)] == [(1, 2)]


def test_a_journal_damaged_by_a_crash_is_ignored(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"checkpoints": "s3://buc')
    assert told(tmp_path) is None
    Journal(tmp_path, job=1, spot=True, checkpoints=WHERE).begin()
    assert [one["number"] for one in attempts(tmp_path)] == [1]


def test_recorded_progress_survives_the_runner(tmp_path: Path, clock: Clock) -> None:
    killed = Journal(tmp_path, job=1, spot=True, checkpoints=WHERE)
    killed.begin()
    killed.heard({"first_step": 0, "step": 12, "time": 1005.0})
    clock.at(2000.0)
    Journal(tmp_path, job=2, spot=True, checkpoints=WHERE).begin()
    assert [(one.get("step"), one.get("time")) for one in attempts(tmp_path)] == [(12, 1005.0), (None, None)]


def test_only_what_has_changed_is_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path, job=1, spot=True, checkpoints=WHERE)
    journal.begin()
    journal.heard({"step": 1})
    (tmp_path / FILE).unlink()
    journal.heard({"step": 1})
    assert not (tmp_path / FILE).exists()
    journal.heard({"step": 2})
    assert attempts(tmp_path)[0]["step"] == 2


def test_only_interruptible_jobs_report_interruptions(tmp_path: Path) -> None:
    assert told(tmp_path) is None
    journal = Journal(tmp_path, job=1, spot=False, checkpoints=WHERE)
    journal.begin()
    journal.ended({"first_step": 0, "step": 3})
    assert told(tmp_path) is None
    interrupted(journal, {"first_step": 0, "step": 3})
    kept = told(tmp_path)
    assert kept is not None and len(kept["attempts"]) == 1 and kept["interruptions"][0]["at_step"] == 3


def test_of_a_training_that_another_job_went_on_with_it_is_told(tmp_path: Path) -> None:
    for job, first_step in ((1, 0), (2, 0), (3, 2)):
        assert told(tmp_path) is None
        journal = Journal(tmp_path, job=job, spot=False, checkpoints=WHERE)
        journal.begin()
        journal.ended({"first_step": first_step, "step": first_step + 3})
    kept = told(tmp_path)
    assert kept is not None and [one["job"] for one in kept["attempts"]] == [1, 2, 3] and not kept["interruptions"]


def write(folder: Path, number: int, **fields: object) -> None:
    path = folder / "attempts" / f"{number:05d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"number": number, **fields}))


def test_the_file_of_this_start_is_the_newest_that_changed(tmp_path: Path) -> None:
    hosts = [tmp_path / "a", tmp_path / "b"]
    write(hosts[0] / "identity", 1, step=10)
    write(hosts[1] / "other", 7, step=99)
    before = starts_seen(hosts)
    assert latest_start(hosts, before) == {}
    write(hosts[0] / "identity", 2, step=20)
    assert latest_start(hosts, before) == {"number": 2, "step": 20, "training": "identity"}
    write(hosts[0], 3, step=30)
    assert latest_start(hosts, before) == {"number": 3, "step": 30, "training": ""}
    write(hosts[0] / ".drivetrain", 4, step=0)  # a launcher's count of starts
    assert latest_start(hosts, before) == {"number": 3, "step": 30, "training": ""}
    write(hosts[0] / "identity", 1, step=11)
    assert latest_start(hosts, starts_seen(hosts)) == {}


def test_half_a_file_and_other_things_say_nothing(tmp_path: Path) -> None:
    write(tmp_path, 1, step=5)
    (tmp_path / "attempts" / "00002.json").write_text('{"number": 2, "st')
    (tmp_path / "attempts" / "00003.json").write_text("[1]")
    (tmp_path / "attempts" / "00004.json").mkdir()
    assert latest_start([tmp_path, tmp_path / "nowhere"], {}) == {"number": 1, "step": 5, "training": ""}
