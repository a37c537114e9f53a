"""Trainings beside each other, trainings that are stopped early, and tunings that were killed or stopped and go on."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.processes import alive
from drivetrain.run_store.durable import DiskFullError
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.schema import ObjectEntry
from drivetrain.targets.sagemaker.run.execution.context import Slots
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from drivetrain.targets.sagemaker.run.step_types import training as training_step
from drivetrain.targets.sagemaker.run.tuning.trials import Trial, Trials
from drivetrain.targets.sagemaker.run.tuning.tuner import Tuner
from tests.fixtures.local_runs import BUCKET, LocalRuns
from tests.fixtures.tunings import COMMAND, categories, plain, training, tuning

ROOT = Path(__file__).parents[6]
PATIENCE_S = 30.0

# Waits until `meet` trainings have been here; says so where one comes that is one too many.
MEETING = """
import json, os, time
from pathlib import Path
folder, meet = Path(os.environ["FOLDER"]), int(os.environ["MEET"])
name = os.environ["TRAINING_JOB_NAME"]
(folder / f"at-work-{name}").write_text("")
(folder / f"came-{name}").write_text("")
deadline = time.monotonic() + 30
while len(list(folder.glob("came-*"))) < meet:
    assert time.monotonic() < deadline, "nobody came"
    time.sleep(0.005)
print(f"loss={len(list(folder.glob('at-work-*')))}.0;", flush=True)
(folder / f"at-work-{name}").unlink()
"""
# Notes each start; the third training waits for its end, unless it may go on.
NOTING = """
import json, os, time
from pathlib import Path
given = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())
folder = Path(os.environ["FOLDER"])
with open(folder / "starts", "a") as file:
    file.write(given["x"] + "\\n")
if len((folder / "starts").read_text().split()) == 3 and not (folder / "free").exists():
    print("waiting", flush=True)
    time.sleep(600)
Path("/opt/ml/model/x.txt").write_text(given["x"])
print(f"loss={abs(float(given['x'])):.6f};", flush=True)
"""
# Good from the start, or bad and waiting for somebody to end it.
HOPELESS = """
import json, signal, sys, time
from pathlib import Path
x = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())["x"]
def stop(number, frame):
    Path("/opt/ml/model/x.txt").write_text("saved in time")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
if x == "good":
    print("loss=0.5;\\nloss=0.4;\\nloss=0.3;", flush=True)
else:
    print("loss=0.9;", flush=True)
    time.sleep(600)
"""
RUN = """
import json, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
options = Options(pipeline="test", image_commands={command!r}, max_parallel=2)
print(Runner(Home({home!r})).start(Path({text!r}).read_text(), {{}}, options).status)
"""


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def response(runs: LocalRuns) -> dict[str, Any]:
    with Ledger(runs.home) as ledger:
        return plain(ledger.step(ledger.execution("latest").id, "tune").response)


def meeting(runs: LocalRuns, folder: Path, *, meet: int, most: int, parallel: int) -> dict[str, Any]:
    environment = {"FOLDER": str(folder), "MEET": str(meet)}
    return tuning(training(runs, MEETING, Environment=environment), most=most, parallel=parallel)


def most_at_once(runs: LocalRuns) -> float:
    summaries = response(runs)["TrainingJobSummaries"]
    return max(one["FinalHyperParameterTuningJobObjectiveMetric"]["Value"] for one in summaries)


def test_trainings_are_at_work_at_the_same_time_as_many_as_may_be(runs: LocalRuns, tmp_path: Path) -> None:
    step = meeting(runs, tmp_path, meet=3, most=6, parallel=3)
    summary = runs.start([step], image_commands=COMMAND, max_parallel=8)
    assert summary.status == "Succeeded", summary.reason
    assert most_at_once(runs) <= 3


def test_never_more_than_the_run_may_have(runs: LocalRuns, tmp_path: Path) -> None:
    step = meeting(runs, tmp_path, meet=2, most=4, parallel=4)
    summary = runs.start([step], image_commands=COMMAND, max_parallel=2)
    assert summary.status == "Succeeded", summary.reason
    assert most_at_once(runs) <= 2


def test_a_step_that_was_waiting_gets_the_place_of_a_training(runs: LocalRuns, tmp_path: Path) -> None:
    """With two places, the tuning takes both before the other step is ready, and the other step runs all the same."""
    step = meeting(runs, tmp_path, meet=1, most=4, parallel=2)
    first = runs.processing("first", "pass")
    second = runs.processing("second", "pass", DependsOn=["first"])
    summary = runs.start([first, step, second], image_commands=COMMAND, max_parallel=2)
    assert summary.status == "Succeeded", summary.reason
    assert runs.statuses() == {"first": "Succeeded", "tune": "Succeeded", "second": "Succeeded"}


def test_slots_are_as_many_as_there_are() -> None:
    slots = Slots(2)
    assert [slots.take(), slots.take(), slots.take()] == [True, True, False]
    slots.give()
    assert [slots.take(), slots.take()] == [True, False]


def test_a_training_worse_than_the_median_is_stopped_and_keeps_its_model(runs: LocalRuns) -> None:
    ranges = categories(x=["good", "bad"])
    step = tuning(
        training(runs, HOPELESS), ranges=ranges, strategy="Grid", most=None, TrainingJobEarlyStoppingType="Auto"
    )
    summary = runs.start([step], image_commands=COMMAND)
    assert summary.status == "Succeeded", summary.reason
    found = response(runs)
    good, bad = found["TrainingJobSummaries"]
    assert (good["TrainingJobStatus"], bad["TrainingJobStatus"]) == ("Completed", "Stopped")
    assert bad["FinalHyperParameterTuningJobObjectiveMetric"]["Value"] == 0.9
    assert found["BestTrainingJob"] == good and found["TrainingJobStatusCounters"]["Stopped"] == 1
    told = {one["job"]: one.get("reason") for one in found["Drivetrain"]["trainings"]}
    assert told[bad["TrainingJobName"]] == "at epoch 1 0.9 was worse than 0.5, the median of the trainings before it"
    model = f"{BUCKET}/runs/{summary.execution}/tune/{bad['TrainingJobName']}/output/model.tar.gz"
    assert runs.store.exists(model)


def test_a_target_ends_what_is_at_work_too(runs: LocalRuns) -> None:
    criteria = {"TargetObjectiveMetricValue": 0.3}
    step = tuning(
        training(runs, HOPELESS), ranges=categories(x=["bad", "good"]), strategy="Grid", most=None, parallel=2,
        TuningJobCompletionCriteria=criteria,
    )  # fmt: skip
    summary = runs.start([step], image_commands=COMMAND, max_parallel=2)
    assert summary.status == "Succeeded", summary.reason
    found = response(runs)
    assert found["TrainingJobSummaries"][0]["TrainingJobStatus"] == "Completed"
    assert found["TrainingJobStatusCounters"]["Stopped"] == 1
    assert found["Drivetrain"]["over"] == "the target 0.3 was reached"


def test_time_ends_a_tuning_of_which_no_training_ends(runs: LocalRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds(self: Tuner) -> float:
        return 120.0 if any(trial.values for trial in self._all.values()) else 0.0

    monkeypatch.setattr(Tuner, "seconds", property(seconds))
    limits = {"MaxRuntimeInSeconds": 120}
    step = tuning(training(runs, HOPELESS), ranges=categories(x=["bad"]), most=3, limits=limits)
    summary = runs.start([step], image_commands=COMMAND)
    assert summary.status == "Succeeded", summary.reason
    found = response(runs)
    assert [one["TrainingJobStatus"] for one in found["TrainingJobSummaries"]] == ["Stopped"]
    assert found["Drivetrain"]["over"] == "MaxRuntimeInSeconds 120 is over"


@pytest.mark.slow
def test_a_training_whose_time_is_over_is_stopped_and_keeps_what_it_has(runs: LocalRuns) -> None:
    definition = training(runs, HOPELESS, StoppingCondition={"MaxRuntimeInSeconds": 1})
    summary = runs.start([tuning(definition, ranges=categories(x=["bad"]), most=1)], image_commands=COMMAND)
    assert summary.status == "Succeeded", summary.reason
    found = response(runs)
    best = found["BestTrainingJob"]
    assert best["TrainingJobStatus"] == "Stopped"
    assert best["FinalHyperParameterTuningJobObjectiveMetric"]["Value"] == 0.9
    [told] = found["Drivetrain"]["trainings"]
    assert told["reason"] == "exceeded its time limit of 1 s (StoppingCondition.MaxRuntimeInSeconds)"
    assert runs.store.exists(f"{BUCKET}/runs/{summary.execution}/tune/{best['TrainingJobName']}/output/model.tar.gz")


def test_hyperband_ends_a_training_that_has_had_its_epochs(runs: LocalRuns) -> None:
    resources = {"HyperbandStrategyConfig": {"MinResource": 1, "MaxResource": 1}}
    step = tuning(
        training(runs, HOPELESS), ranges=categories(x=["bad"]), strategy="Hyperband", most=2, StrategyConfig=resources
    )
    summary = runs.start([step], image_commands=COMMAND)
    assert summary.status == "Succeeded", summary.reason
    found = response(runs)
    assert [one["TrainingJobStatus"] for one in found["TrainingJobSummaries"]] == ["Stopped", "Stopped"]
    assert found["Drivetrain"]["trainings"][0]["reason"] == "it has had its 1 epochs (MaxResource)"


def noting(runs: LocalRuns, folder: Path, strategy: str = "Bayesian") -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    return tuning(training(runs, NOTING, Environment={"FOLDER": str(folder)}), strategy=strategy, most=6)


def starts(folder: Path) -> list[str]:
    return (folder / "starts").read_text().split()


@pytest.mark.slow_cases("9")
@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_killed_tuning_goes_on_where_it_was_as_if_nothing_had_been(
    runs: LocalRuns, tmp_path: Path, number: signal.Signals
) -> None:
    step = noting(runs, tmp_path / "killed")
    text = tmp_path / "definition.json"
    text.write_text(runs.text([step]))
    program = RUN.format(root=str(ROOT), home=str(runs.home.root), text=str(text), command=COMMAND)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: any("waiting" in log.read_text() for log in runs.home.runs.glob("*/tune/attempt-1/logs/003/*.log")))
    os.kill(process.pid, number)
    process.communicate(timeout=PATIENCE_S)
    assert len(starts(tmp_path / "killed")) == 3
    with Ledger(runs.home) as ledger:
        execution = ledger.execution("latest")
        assert execution.status == ("Interrupted" if number == signal.SIGKILL else "Stopped")
    (tmp_path / "killed" / "free").touch()

    summary = runs.resume()
    assert (summary.execution, summary.status) == (execution.id, "Succeeded"), summary.reason
    with Ledger(runs.home) as ledger:
        supervisors = [record for row in ledger.attempts(execution.id) for record in row.processes]
        values = [one for one in ledger.metrics(execution.id) if one.name == "loss"]
        written = [one.uri for one in ledger.artifacts(execution.id, "tune") if one.flow == "output"]
    assert supervisors and not any(map(alive, supervisors))
    once = starts(tmp_path / "killed")
    # The third was at work when it was killed, and is run again with what it had; the first two are not.
    assert once[2] == once[3] and len(once) == 7 and len(set(once)) == 6
    assert len(values) == 6
    assert len(written) == 6 and all(runs.store.exists(uri) for uri in written)
    log = next(runs.home.runs.glob("*/tune/attempt-2/logs/tuning.log")).read_text()
    assert "goes on: 2 trainings ended before and are not run again" in log

    whole = noting(runs, tmp_path / "whole")
    (tmp_path / "whole" / "free").touch()
    assert runs.start([whole], image_commands=COMMAND).status == "Succeeded"
    assert starts(tmp_path / "whole") == [*once[:3], *once[4:]]


def test_outputs_that_were_not_yet_at_their_places_are_brought_there(runs: LocalRuns, tmp_path: Path) -> None:
    """A kill between a training's end and the moves of its outputs: the file says that it has ended."""
    from drivetrain.run_store.schema import Move

    trials = Trials(tmp_path / "step", runs.store, {"a": 1})
    assert trials.take_up() == ([], 0.0)
    trial = Trial(number=1, place=0, job="j", definition=None, parameters={"x": "1"}, status="Completed", ended=1.0)
    staged = trials.home(trial) / "job-1" / "publish" / "0"
    staged.parent.mkdir(parents=True)
    staged.write_text("model")
    trial.moves, trial.folder = [Move("publish/0", f"{BUCKET}/models/model")], "job-1"
    trials.save(trial)
    trials.worked(5.0)

    found, seconds = Trials(tmp_path / "step", runs.store, {"a": 1}).take_up()
    assert (found, seconds) == ([trial], 5.0)
    assert runs.read(f"{BUCKET}/models/model") == "model" and not (trials.home(trial) / "job-1").exists()
    # Once more, with nothing left to do; and as another tuning, which wants none of it.
    assert Trials(tmp_path / "step", runs.store, {"a": 1}).take_up()[0] == [trial]
    assert Trials(tmp_path / "step", runs.store, {"a": 2}).take_up() == ([], 0.0)


def test_a_full_disk_ends_all_trainings_and_none_of_them_counts(
    runs: LocalRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = """
        import json, os, time
        from pathlib import Path
        folder = Path(os.environ["FOLDER"])
        x = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())["x"]
        with open(folder / "starts", "a") as file:
            file.write(x + "\\n")
        print("loss=1;", flush=True)
        while not (folder / "free").exists():
            time.sleep(0.01)
    """
    train = training_step.train

    def full(context: Any, *given: Any, **more: Any) -> Any:
        if context.arguments["HyperParameters"]["x"] == "b":
            until(lambda: (tmp_path / "starts").exists())
            raise OSError(errno.ENOSPC, "No space left on device")
        return train(context, *given, **more)

    monkeypatch.setattr(training_step, "train", full)
    definition = training(runs, program, Environment={"FOLDER": str(tmp_path)})
    step = tuning(definition, ranges=categories(x=["a", "b"]), strategy="Grid", most=None, parallel=2)
    with pytest.raises(DiskFullError):
        runs.start([step], image_commands=COMMAND, max_parallel=2)
    monkeypatch.setattr(training_step, "train", train)
    (tmp_path / "free").touch()
    summary = runs.resume()
    assert summary.status == "Succeeded", summary.reason
    assert sorted(starts(tmp_path)) == ["a", "a", "b"]


def test_failed_trainings_are_rerun_and_others_kept(runs: LocalRuns, tmp_path: Path) -> None:
    program = """
        import json, os, sys
        from pathlib import Path
        x = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())["x"]
        folder = Path(os.environ["FOLDER"])
        with open(folder / "starts", "a") as file:
            file.write(x + "\\n")
        if not (folder / "mended").exists():
            sys.exit("broken")
        print("loss=1;")
    """
    definition = training(runs, program, Environment={"FOLDER": str(tmp_path)})
    step = tuning(definition, ranges=categories(x=["a", "b"]), strategy="Grid", most=None)
    assert runs.start([step], image_commands=COMMAND).status == "Failed"
    assert starts(tmp_path) == ["a", "b"]
    (tmp_path / "mended").touch()
    summary = runs.resume()
    assert summary.status == "Succeeded", summary.reason
    assert starts(tmp_path) == ["a", "b", "a", "b"]


@pytest.mark.slow
def test_another_configuration_begins_anew_and_leaves_nothing_of_the_old(runs: LocalRuns, tmp_path: Path) -> None:
    fail = runs.processing("fail", "import sys; sys.exit(1)", inputs={}, DependsOn=["tune"])
    step = noting(runs, tmp_path / "notes", "Random")
    (tmp_path / "notes" / "free").touch()
    first = runs.start([step, fail], image_commands=COMMAND)
    assert first.status == "Failed"
    old = {one["TrainingJobName"] for one in response(runs)["TrainingJobSummaries"]}
    changed = json.loads(json.dumps(step))
    changed["Arguments"]["HyperParameterTuningJobConfig"]["RandomSeed"] = 2
    changed["Arguments"]["TrainingJobDefinition"]["OutputDataConfig"]["S3OutputPath"] = f"{BUCKET}/elsewhere"
    runner = Runner(runs.home, runs.events.append)
    summary = runner.resume(
        "latest",
        Options(pipeline="test", image_commands=COMMAND),
        text=runs.text([changed, runs.processing("fail", "pass", DependsOn=["tune"])]),
    )
    assert summary.status == "Succeeded", summary.reason
    assert len(starts(tmp_path / "notes")) == 12 and len(set(starts(tmp_path / "notes"))) == 12
    assert {path.name for path in runs.store.path(f"{BUCKET}/elsewhere").iterdir()} == {
        one["TrainingJobName"] for one in response(runs)["TrainingJobSummaries"]
    }
    left = runs.store.path(f"{BUCKET}/runs/{first.execution}/tune")
    assert not any(path.is_file() for path in left.rglob("*")), old


def test_a_training_that_failed_is_a_result_and_is_not_run_again_after_a_kill(
    runs: LocalRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        pass

    program = """
        import json, os, sys
        from pathlib import Path
        x = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())["x"]
        with open(Path(os.environ["FOLDER"]) / "starts", "a") as file:
            file.write(x + "\\n")
        if x == "a":
            sys.exit("broken")
        print("loss=1;")
    """
    definition = training(runs, program, Environment={"FOLDER": str(tmp_path)})
    step = tuning(definition, ranges=categories(x=["a", "b", "c"]), strategy="Grid", most=None)
    enter = Tuner._enter_objective

    def dies(self: Tuner, trial: Trial) -> None:
        if trial.number == 2:
            raise KilledError
        enter(self, trial)

    with monkeypatch.context() as patch:
        patch.setattr(Tuner, "_enter_objective", dies)
        with pytest.raises(KilledError):
            runs.start([step], image_commands=COMMAND)
    assert starts(tmp_path) == ["a", "b"]
    summary = runs.resume()
    assert summary.status == "Succeeded", summary.reason
    assert starts(tmp_path) == ["a", "b", "c"]
    counted = response(runs)["TrainingJobStatusCounters"]
    assert (counted["Completed"], counted["NonRetryableError"]) == (2, 1)


def test_what_is_to_be_run_again_of_a_failed_tuning_is_so_after_a_kill_too(runs: LocalRuns, tmp_path: Path) -> None:
    trials = Trials(tmp_path / "step", runs.store, {"a": 1})
    trials.take_up()
    trials.save(Trial(number=1, place=0, job="j", definition=None, parameters={}, status="Failed", ended=1.0))
    trials.worked(5.0)
    [kept], _ = trials.take_up()
    trials.worked(6.0, failed=True)
    [again], _ = trials.take_up()
    trials.worked(7.0)
    [still], _ = trials.take_up()
    assert [kept.status, again.status, still.status] == ["Failed", "InProgress", "InProgress"]


def test_leftovers_of_another_tuning_are_removed_with_its_models(runs: LocalRuns, tmp_path: Path) -> None:
    """A step that is defined anew has the folder of the old one, and would publish its models beside its own."""
    uri = runs.put("runs/e/tune/job-1/output/model.tar.gz", "old")
    old = Trials(tmp_path / "tune", runs.store, {"name": "old"})
    assert old.take_up() == ([], 0.0)
    entry = ObjectEntry(uri, "0" * 64, 3, 0)
    trial = Trial(number=1, place=0, job="job-1", definition=None, parameters={}, status="Completed", objects=[entry])
    old.save(trial)
    assert [one.job for one in Trials(tmp_path / "tune", runs.store, {"name": "old"}).take_up()[0]] == ["job-1"]
    assert runs.store.exists(uri)
    assert Trials(tmp_path / "tune", runs.store, {"name": "new"}).take_up() == ([], 0.0)
    assert not runs.store.exists(uri) and not old.home(trial).exists()


def test_places_that_trainings_took_beside_their_own_are_given_back(
    runs: LocalRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    take, give = Slots.take, Slots.give

    def counted(slots: Slots) -> bool:
        found = take(slots)
        taken.append(int(found))
        return found

    def given(slots: Slots) -> None:
        taken.append(-1)
        give(slots)

    monkeypatch.setattr(Slots, "take", counted)
    monkeypatch.setattr(Slots, "give", given)
    step = tuning(training(runs), most=4, parallel=3)
    assert runs.start([step], image_commands=COMMAND, max_parallel=3).status == "Succeeded"
    assert sum(taken) == 0 and taken.count(-1) > 1
