"""When interruptions come, and what is known of them afterwards: without a process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import parse_all
from drivetrain.targets.sagemaker.run.interruption_simulation.journal import FILE, Journal
from drivetrain.targets.sagemaker.run.interruption_simulation.simulation import Rehearsal


class Job:
    """A training whose steps are lines in a log."""

    def __init__(self, folder: Path, *wanted: str, tells: bool = False) -> None:
        self.root, self.log = folder / "host", folder / "log"
        self.journal = Journal(folder, job=1, spot=True, checkpoints=None)
        self.rehearsal = Rehearsal(parse_all(wanted), self.journal, [self.log], tells=tells)

    def start(self) -> None:
        self.rehearsal.lay_out([self.root])
        self.journal.begin()

    def say(self, *steps: int) -> None:
        with open(self.log, "a", encoding="utf-8") as file:
            file.writelines(f"epoch 1, step {step}: loss 0.5\n" for step in steps)

    def due(self, seconds: float = 1.0) -> str | None:
        found = self.rehearsal.due(seconds)
        return None if found is None else found.text

    def interrupt(self, seconds: float = 1.0, told: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        by = self.rehearsal.due(seconds)
        assert by is not None
        self.end(seconds, told)
        return self.rehearsal.interrupted(by, seconds, spot=True)

    def end(self, seconds: float = 1.0, told: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        self.rehearsal.read_log(seconds, final=True)
        self.journal.ended(told or {})
        return self.journal.interruptions


def test_a_step_is_known_by_the_first_line_that_says_it_or_a_later_one(tmp_path: Path) -> None:
    job = Job(tmp_path, "step=20,notice=0", "step=7")
    job.start()
    assert job.rehearsal.environment() == {}
    job.say(5)
    assert job.due() is None
    job.say(10)
    assert job.due() == "step=7"
    assert job.interrupt()["at_step"] == 10
    job.start()
    job.say(10, 15)
    assert job.due() is None  # the earlier one is used up
    job.say(25)
    assert job.due() == "step=20,notice=0"


def test_our_training_says_it_with_a_file_and_its_log_does_not_count(tmp_path: Path) -> None:
    job = Job(tmp_path, "step=20", tells=True)
    job.start()
    assert job.rehearsal.environment() == {
        "DRIVETRAIN_REHEARSE_STEP": "20",
        "DRIVETRAIN_REHEARSE_FILE": "/opt/ml/rehearsal/step-20",
    }
    job.say(50)
    assert job.due() is None
    (job.root / "rehearsal" / "step-20").touch()
    assert job.due() == "step=20"
    told = {"number": 1, "first_step": 0, "step": 19}  # a second old
    record = job.interrupt(told=told)
    assert record["reason"] == "spot machines taken back, rehearsed (step=20)"
    job.start()
    assert job.rehearsal.environment() == {}
    assert record["at_step"] == 20


def test_random_times_go_by_the_seed_and_the_time_at_work(tmp_path: Path) -> None:
    def times(seed: int, *folders: str) -> list[float]:
        found: list[float] = []
        worked = 0.0
        for name in folders:
            job = Job(tmp_path / name, f"poisson=10s,seed={seed}")
            job.start()
            for _ in range(3):
                seconds = 0.0
                while job.due(seconds) is None:
                    seconds += 0.01
                job.interrupt(seconds)
                job.start()
                worked += seconds
                found.append(round(worked, 2))
        return found

    first = times(7, "a")
    assert len(set(first)) == 3 and times(7, "b") == first != times(8, "c")
    # A run that was killed goes on in the sequence instead of beginning it again.
    waits = [first[0], *(round(b - a, 2) for a, b in pairwise(first))]
    resumed = times(7, "a")
    assert all(abs(wait - resumed[0]) > 0.02 for wait in waits)


def test_facts_of_an_interruption(tmp_path: Path) -> None:
    job = Job(tmp_path, "step=25")
    job.start()
    job.say(10, 20, 30)
    job.interrupt()
    job.journal.down(3.0)
    job.start()
    job.say(20, 30, 40)
    [known] = job.end()
    assert known == {
        "given": "step=25",
        "start": 1,
        "at_step": 30,
        "resumed_step": 10,  # it says every tenth step, and said 20 first
        "steps_lost": 20,
        "notice_s": 120.0,
        "seconds_down": 3.0,
        "reason": "spot machines taken back, rehearsed (step=25)",
    }
    assert job.rehearsal.in_a_word() == "1 interruption"
    assert json.loads((tmp_path / FILE).read_text())["interruptions"] == [known]
    again = Job(tmp_path, "step=25", "step=500")
    again.start()
    again.say(60)
    assert again.due() is None
    assert again.rehearsal.in_a_word() == "1 interruption, never came to step 500"
    late = Job(tmp_path / "late", "step=50")
    late.start()
    late.end(told={"first_step": 60, "step": 60})
    assert late.rehearsal.in_a_word() == (
        "0 interruptions, step 50 was done before: it went on from step 60 of an earlier run"
    )


def test_a_start_that_took_no_step_lost_none(tmp_path: Path) -> None:
    job = Job(tmp_path, "poisson=1s,notice=0")
    for steps in ((1, 2, 3), (), (2, 3)):
        job.start()
        job.say(*steps)
        job.interrupt(100.0)
    job.start()
    known = job.end()
    assert [(one["at_step"], one["resumed_step"], one["steps_lost"]) for one in known] == [
        (3, 1, 2),
        (1, 1, 0),
        (3, None, None),
    ]


def test_five_starts_in_a_row_that_took_no_step_are_said_once(tmp_path: Path) -> None:
    job = Job(tmp_path, "poisson=1s,seed=7", tells=True)
    (by,) = parse_all(["poisson=1s,seed=7"])

    def warned(told: Mapping[str, Any] | None) -> bool:
        job.start()
        job.interrupt(1e6, told)
        warning = job.rehearsal.warning(by)
        assert warning is None or warning.startswith("warning: 5 starts in a row took no step: with poisson=1s,seed=7 ")
        return warning is not None

    nothing = {"first_step": 10, "step": 10}
    assert [warned(told) for told in (None, nothing, None, None)] == [False] * 4
    assert not warned({"first_step": 10, "step": 11})
    assert [warned(told) for told in (nothing, None, None, None, None, None)] == [False] * 4 + [True, False]
    assert job.rehearsal.warning(parse_all(["step=3"])[0]) is None


def test_a_script_makes_progress_by_new_checkpoints_or_a_later_start(tmp_path: Path) -> None:
    """Each start takes steps 1 to 3 anew, which is no progress; nor is a longer start."""
    job = Job(tmp_path, "poisson=1s,seed=7")
    (by,) = parse_all(["poisson=1s,seed=7"])
    lies: dict[str, int] = {}

    def warned(saves: str = "", steps: tuple[int, ...] = (1, 2, 3)) -> bool:
        job.rehearsal.lay_out([job.root], dict(lies))
        job.journal.begin()
        job.say(*steps)
        job.end(1e6)
        if saves:
            lies[saves] = lies.get(saves, 0) + 1
        job.rehearsal.interrupted(by, 1e6, spot=True, saved=lies)
        warning = job.rehearsal.warning(by)
        assert warning is None or "saved no new checkpoint and went on from no later step" in warning
        return warning is not None

    said_once = [False] * 4 + [True, False]
    assert [warned(steps=(1, 2, 3, 4) if start == 3 else (1, 2, 3)) for start in range(6)] == said_once
    assert not warned("epoch-1")
    assert [warned("epoch-1") for _ in range(6)] == said_once  # it saves, and does not read what it has saved
    assert not warned(steps=(6, 7))
    assert [warned(steps=(6, 7)) for _ in range(6)] == said_once
    assert not warned("last", steps=())
    assert not any(warned("last", steps=()) for _ in range(6))  # its log says no steps: files written anew are progress
    assert [warned(steps=()) for _ in range(6)] == said_once
