"""A campaign goes on where it was stopped, and says of each violation how to see it again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from drivetrain.processes.process_table import descendants
from drivetrain.training.launch.processes.parent import follows_parent
from tests.faults import __main__ as program
from tests.faults.harness import worker
from tests.faults.harness.families import Family, Found, Trial
from tests.faults.harness.killing import alive
from tests.faults.harness.line import describe
from tests.faults.harness.progress import Made, Progress, record


def progress_of(tmp_path: Path, *, trials: int = 4, code: str = "c", name: str = "one") -> Progress:
    return Progress(tmp_path / f"{name}.jsonl", trials, code)


def family_of(trial: Any) -> Family:
    return Family("toy", "toy", 4, 1, 1, (), 10.0, lambda folder: None, trial)


def test_finished_trials_are_not_repeated(tmp_path: Path) -> None:
    first = progress_of(tmp_path)
    first.begin(7)
    first.add(Made(0, 1.0, {"kills": 2}, []))
    first.add(Made(2, 1.0, {"kills": 1}, ["bad"]))
    again = progress_of(tmp_path)
    assert (again.seed, again.missing, again.did) == (7, [1, 3], {"kills": 3})
    assert [made.trial for made in again.violating] == [2]


def test_the_slowest_time_is_reported(tmp_path: Path) -> None:
    progress = progress_of(tmp_path)
    progress.begin(7)
    for number, slowest in enumerate((120, 340, 90)):
        progress.add(Made(number, 1.0, {"refused": 1, "slowest refusal, ms": slowest}, []))
    assert progress.did == {"refused": 3, "slowest refusal, ms": 340}


def test_a_truncated_line_counts_as_a_missing_trial(tmp_path: Path) -> None:
    first = progress_of(tmp_path)
    first.begin(7)
    for number in (0, 1):
        first.add(Made(number, 1.0, {}, []))
    first.path.write_bytes(first.path.read_bytes()[:-9])
    again = progress_of(tmp_path)
    assert again.missing == [1, 2, 3]
    again.add(Made(1, 1.0, {}, []))
    assert progress_of(tmp_path).missing == [2, 3]


@pytest.mark.parametrize("changed", [{"code": "d"}, {"trials": 5}])
def test_trials_of_other_code_or_campaigns_do_not_count(changed: dict[str, Any], tmp_path: Path) -> None:
    first = progress_of(tmp_path)
    first.begin(7)
    first.add(Made(0, 1.0, {}, []))
    assert progress_of(tmp_path, **changed).seed is None


def test_an_unfinished_campaign_continues_with_its_seed(tmp_path: Path) -> None:
    both = {name: progress_of(tmp_path, name=name, trials=1) for name in ("one", "two")}
    both["one"].begin(7)
    both["one"].add(Made(0, 1.0, {}, []))
    assert program.begin(both, None, fresh=False) == 7
    assert (both["one"].missing, both["two"].missing, both["two"].seed) == ([], [0], 7)

    both["two"].add(Made(0, 1.0, {}, []))
    program.begin(both, 8, fresh=False)  # another one
    assert [each.missing for each in both.values()] == [[0], [0]]
    both["one"].add(Made(0, 1.0, {}, []))
    program.begin(both, 8, fresh=True)
    assert [each.missing for each in both.values()] == [[0], [0]]


def test_a_finished_campaign_is_followed_by_a_new_one(tmp_path: Path) -> None:
    done = progress_of(tmp_path, trials=1)
    done.begin(7)
    done.add(Made(0, 1.0, {}, []))
    program.begin({"one": done}, None, fresh=False)
    assert done.missing == [0]


def test_two_campaigns_do_not_share_the_progress_of_a_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "FOLDER", tmp_path)
    first = program.lock("one")
    assert first is not None and program.lock("one") is None and program.lock("two") is not None
    first.close()
    assert program.lock("one") is not None


def test_a_campaign_with_a_time_limit_ends_well_and_reports_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    began: list[tuple[str, float]] = []

    def some(each: Family, progress: Progress, *_: Any, until: float) -> None:
        """The first start makes one trial a family, the next one all."""
        began.append((each.name, until))
        for number in progress.missing[: 1 if len(began) <= 2 else None]:
            progress.add(Made(number, 1.0, {}, []))

    def start(*more: str) -> int:
        only = ("--only", "checkpoint_clock", "--only", "data_shard", "--trials", "3")
        monkeypatch.setattr(sys, "argv", ["faults", *only, *more])
        return program.main()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(program.campaign, "run", some)
    monkeypatch.setattr(program, "code_hash", lambda: "c")
    now = time.monotonic()
    assert start("--minutes", "60", "--seed", "4") == 0
    said = "stopped after 60 minutes; trials left: checkpoint_clock 2, data_shard 2; the same command goes on\n"
    assert capsys.readouterr().out.endswith(said)
    # The first one has half of the hour, and the second one all that is left.
    assert [name for name, _ in began] == ["checkpoint_clock", "data_shard"]
    assert now + 1800 <= began[0][1] < time.monotonic() + 1800
    assert now + 3600 <= began[1][1] < time.monotonic() + 3600
    assert start() == 0
    assert "left" not in capsys.readouterr().out.splitlines()[-1]
    assert json.loads((tmp_path / "build" / "faults.json").read_text())[0]["trials"] == 3
    assert json.loads((tmp_path / "build" / "faults" / "data_shard.jsonl").read_text().splitlines()[0])["seed"] == 4


def test_a_trial_draws_the_same_by_seed_and_number(tmp_path: Path) -> None:
    drawn: list[float] = []

    def trial(given: Trial, shared: None) -> Found:
        drawn.append(given.draw.random())
        return Found()

    for _ in range(2):
        for number in (0, 1):
            worker.make(family_of(trial), number, 7, None, tmp_path, tmp_path / "kept")
    assert drawn[:2] == drawn[2:]
    assert len(set(drawn)) == 2
    assert drawn[0] == random.Random("toy/7/0").random()


def test_trials_take_turns_and_the_seed_says_which_kind_is_first(tmp_path: Path) -> None:
    def kinds(seed: int) -> str:
        return "".join(Trial(number, seed, tmp_path, random.Random()).in_turn("abc") for number in range(4))

    assert [kinds(seed) for seed in (0, 1, 2)] == ["abca", "bcab", "cabc"]


def test_the_folder_of_a_violating_trial_is_kept(tmp_path: Path) -> None:
    def trial(given: Trial, shared: None) -> Found:
        (given.folder / "evidence").write_text("x")
        return Found(["bad"] if given.number else [])

    scratch, kept = tmp_path / "scratch", tmp_path / "kept"
    made = [worker.make(family_of(trial), number, 7, None, scratch, kept) for number in (0, 1)]
    assert [each.violations for each in made] == [[], ["bad"]]
    assert [path.relative_to(kept).as_posix() for path in kept.rglob("evidence")] == ["toy-7-1/evidence"]
    assert [*scratch.iterdir()] == []


def test_a_trial_that_fails_to_run_is_a_violation(tmp_path: Path) -> None:
    def trial(given: Trial, shared: None) -> Found:
        raise ValueError("nothing there")

    made = worker.make(family_of(trial), 0, 7, None, tmp_path, tmp_path / "kept")
    assert "nothing there" in made.violations[0]


def test_the_record_tells_how_to_reproduce_a_violation(tmp_path: Path) -> None:
    progress = progress_of(tmp_path)
    progress.begin(7)
    progress.add(Made(3, 1.0, {}, ["bad"]))
    found = json.loads(json.dumps(record("fault", "one", progress)))
    assert (found["seed"], found["trials"], found["of"], found["violations"]) == (7, 1, 4, 1)
    assert found["violated"] == [{"trial": 3, "violations": ["bad"]}]


def test_the_estimate_uses_only_trials_of_this_start(tmp_path: Path) -> None:
    progress = progress_of(tmp_path)
    progress.begin(7)
    for number in range(3):
        progress.add(Made(number, 1.0, {}, []))
    assert describe(progress, 2, 10.0) == "[##################......] 3/4, 0 violations, 0.10/s, 0:00:10 left"


@pytest.mark.slow
@pytest.mark.nightly_cases(str(int(signal.SIGKILL)))
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_campaign_leaves_no_process_and_resumes(how: signal.Signals, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.faults", "--only", "checkpoint_two_runs", "--trials", "12", "--seed", "4"]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    made = tmp_path / "build" / "faults" / "checkpoint_two_runs.jsonl"

    def count() -> int:
        return len(made.read_text().splitlines()) - 1 if made.exists() else 0

    null, follow = subprocess.DEVNULL, follows_parent(signal.SIGKILL)
    with subprocess.Popen(command, cwd=tmp_path, env=environment, preexec_fn=follow, stdout=null) as started:
        deadline = time.monotonic() + 60
        while count() < 3:
            assert started.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)  # another process writes the file, which announces nothing
        below = descendants(started.pid)
        started.send_signal(how)
        started.wait(20)
    deadline = time.monotonic() + 5
    while left := [pid for pid in below if alive(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.02)
    before = count()
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert f"12 trials, seed 4, going on after {before}" in done.stdout
    assert count() == 12
