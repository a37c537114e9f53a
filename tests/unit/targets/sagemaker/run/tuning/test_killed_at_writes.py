"""A tuning, by itself or in each iteration of a ForEach, whose runner is killed before its writes: it goes on,
repeats nothing that ended, loses nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.run.tuning.trials import read_trials
from tests.fixtures.local_runs import LocalRuns
from tests.fixtures.tunings import COMMAND, categories, plain, training, tuning

ROOT = Path(__file__).parents[6]
PATIENCE_S = 60.0
NOTING = """
import json, os
from pathlib import Path
given = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())
x = given["x"]
with open(os.environ["NOTES"], "a") as file:
    file.write(given["item"] + x + " ")
Path("/opt/ml/model/x.txt").write_text(x)
print(f"loss={ord(x)};")
"""
# Kills itself before the write that it is told; without one it says how many there are.
RUN = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from drivetrain.run_store.objects import ObjectStore
from drivetrain.targets.sagemaker.run.tuning import trials
last, done = int(sys.argv[1]), 0
def counted(write):
    def before(*given):
        global done
        done += 1
        if done == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return write(*given)
    return before
trials._write = counted(trials._write)
ObjectStore.adopt = counted(ObjectStore.adopt)
options = Options(pipeline="test", image_commands={command!r}, max_parallel=1)
summary = Runner(Home({home!r})).start(Path({text!r}).read_text(), {{}}, options)
print(done, summary.status)
"""


ITEMS = ("p", "q")


def steps(runs: LocalRuns, notes: Path, *, iterated: bool) -> list[dict[str, Any]]:
    item: Any = {"Get": "ForEach.CurrentItem"} if iterated else "-"
    definition = training(runs, NOTING, static={"item": item}, Environment={"NOTES": str(notes)})
    values = ["a", "b"] if iterated else ["a", "b", "c"]
    step = tuning(definition, ranges=categories(x=values), strategy="Grid", most=None)
    if not iterated:
        return [step]
    arguments = {"IterableItems": list(ITEMS), "MaxConcurrency": 1, "ForEachBody": [step]}
    return [{"Name": "each", "Type": "ForEach", "Arguments": arguments}]


def begin(runs: LocalRuns, folder: Path, last: int, *, iterated: bool) -> subprocess.CompletedProcess[str]:
    text = folder / "definition.json"
    text.write_text(runs.text(steps(runs, folder / "notes", iterated=iterated)))
    program = RUN.format(root=str(ROOT), home=str(runs.home.root), text=str(text), command=COMMAND)
    return subprocess.run(
        [sys.executable, "-c", program, str(last)], capture_output=True, text=True, timeout=PATIENCE_S
    )


def outcome(runs: LocalRuns) -> tuple[list[Any], list[str]]:
    """What the tunings of a finished run tell of their trainings, and the models that lie in the store."""
    told: list[Any] = []
    names: list[str] = []
    with Ledger(runs.home) as ledger:
        execution = ledger.execution("latest").id
        for row in ledger.steps(execution):
            if row.type != "Tuning":
                continue
            for one in plain(row.response)["TrainingJobSummaries"]:
                metric = one["FinalHyperParameterTuningJobObjectiveMetric"]
                told.append((row.name, one["TunedHyperParameters"], one["TrainingJobStatus"], metric))
            written = [one for one in ledger.artifacts(execution, row.name) if one.flow == "output"]
            assert all(runs.store.exists(one.uri) for one in written)
            names += [f"{row.name}/{one.name}" for one in written]
    return json.loads(json.dumps(told)), names


def noted(folder: Path) -> list[str]:
    """The trainings that were begun: item and value."""
    path = folder / "notes"
    return path.read_text().split() if path.exists() else []


def ended(runs: LocalRuns) -> set[str]:
    """The trainings of which the run knows that they have ended."""
    found: set[str] = set()
    for folder in runs.home.runs.glob("*/tune*"):
        item = ITEMS[int(folder.name.removeprefix("tune-"))] if folder.name != "tune" else "-"
        found |= {item + trial.parameters["x"] for trial in read_trials(folder) if trial.settled}
    return found


@pytest.mark.slow
@pytest.mark.nightly_cases(but=["alone"])
@pytest.mark.parametrize(
    ("iterated", "stride"), [(False, 3), (False, 1), (True, 1)], ids=["alone", "alone_each", "in_for_each"]
)
def test_killed_before_a_write_it_goes_on_and_repeats_nothing(tmp_path: Path, iterated: bool, stride: int) -> None:
    whole = LocalRuns(tmp_path / "whole")
    (tmp_path / "whole").mkdir()
    finished = begin(whole, tmp_path / "whole", 0, iterated=iterated)
    count, status = finished.stdout.split()
    assert status == "Succeeded", finished.stderr
    expected, every = outcome(whole), noted(tmp_path / "whole")
    assert len(set(every)) == len(every) == len(expected[0]) == (4 if iterated else 3)
    assert int(count) >= 12  # the tuning; and of each training its start, its end, its model, the time
    for last in range(1, int(count) + 1, stride):
        folder = tmp_path / str(last)
        folder.mkdir()
        runs = LocalRuns(folder)
        killed = begin(runs, folder, last, iterated=iterated)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        known, before = ended(runs), noted(folder)
        summary = runs.resume()
        assert summary.status == "Succeeded", (last, summary.reason)
        again = noted(folder)[len(before) :]
        assert not set(again) & known, f"killed before write {last}: {again} ran again, {known} had ended"
        assert set(before + again) == set(every)
        assert outcome(runs) == expected, last
