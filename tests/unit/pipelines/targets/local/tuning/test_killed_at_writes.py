"""A tuning whose runner is killed before each of its writes: it goes on, repeats nothing that ended, loses nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain.pipelines.targets.local.ledger.reader import Ledger
from drivetrain.pipelines.targets.local.tuning.trials import read_trials
from tests.fixtures.local_runs import LocalRuns
from tests.fixtures.tunings import COMMAND, categories, plain, training, tuning

ROOT = Path(__file__).parents[6]
PATIENCE_S = 60.0
NOTING = """
import json, os
from pathlib import Path
x = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())["x"]
with open(os.environ["NOTES"], "a") as file:
    file.write(x)
Path("/opt/ml/model/x.txt").write_text(x)
print(f"loss={ord(x)};")
"""
# Kills itself before the write that it is told; without one it says how many there are.
RUN = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from drivetrain.pipelines.targets.local.home import Home
from drivetrain.pipelines.targets.local.options import Options
from drivetrain.pipelines.targets.local.runner import Runner
from drivetrain.pipelines.targets.local.storage.objects import ObjectStore
from drivetrain.pipelines.targets.local.tuning import trials
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


def begin(runs: LocalRuns, tmp_path: Path, last: int) -> subprocess.CompletedProcess[str]:
    environment = {"NOTES": str(tmp_path / "notes")}
    definition = training(runs, NOTING, Environment=environment)
    step = tuning(definition, ranges=categories(x=["a", "b", "c"]), strategy="Grid", most=None)
    text = tmp_path / "definition.json"
    text.write_text(runs.text([step]))
    program = RUN.format(root=str(ROOT), home=str(runs.home.root), text=str(text), command=COMMAND)
    return subprocess.run(
        [sys.executable, "-c", program, str(last)], capture_output=True, text=True, timeout=PATIENCE_S
    )


def outcome(runs: LocalRuns) -> tuple[list[Any], list[str]]:
    """What a finished tuning tells of its trainings, and the models that lie in the store."""
    with Ledger(runs.home) as ledger:
        execution = ledger.execution("latest").id
        response = plain(ledger.step(execution, "tune").response)
        written = [one for one in ledger.artifacts(execution, "tune") if one.flow == "output"]
    told = [
        (one["TunedHyperParameters"], one["TrainingJobStatus"], one["FinalHyperParameterTuningJobObjectiveMetric"])
        for one in response["TrainingJobSummaries"]
    ]
    assert all(runs.store.exists(one.uri) for one in written)
    return json.loads(json.dumps(told)), [one.name for one in written]


@pytest.mark.slow
def test_killed_before_each_write_it_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    whole = LocalRuns(tmp_path / "whole")
    (tmp_path / "whole").mkdir()
    finished = begin(whole, tmp_path / "whole", 0)
    count, status = finished.stdout.split()
    assert status == "Succeeded", finished.stderr
    expected = outcome(whole)
    assert int(count) >= 12  # the tuning; and of each training its start, its end, its model, the time
    for last in range(1, int(count) + 1):
        folder = tmp_path / str(last)
        folder.mkdir()
        runs = LocalRuns(folder)
        killed = begin(runs, folder, last)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        (step_folder,) = runs.home.runs.glob("*/tune")
        ended = [trial.parameters["x"] for trial in read_trials(step_folder) if trial.settled]
        before = (folder / "notes").read_text() if (folder / "notes").exists() else ""
        summary = runs.resume()
        assert summary.status == "Succeeded", (last, summary.reason)
        again = (folder / "notes").read_text()[len(before) :]
        assert not set(again) & set(ended), f"killed before write {last}: {again!r} ran again, {ended} had ended"
        assert set(before + again) == {"a", "b", "c"}
        assert outcome(runs) == expected, last
