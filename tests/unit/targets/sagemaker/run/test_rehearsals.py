"""Training jobs that lose their machines, rehearsed: one attempt, new hosts each time, the same result."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store.events import MetricLogged, StepInterrupted, StepRestarted, StepStarted
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import parse_all
from drivetrain.targets.sagemaker.run.interruption_simulation.journal import FILE
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.telling.content.from_ledger import run_facts
from tests.fixtures.local_runs import BUCKET, LocalRuns

ROOT = Path(__file__).parents[5]
PATIENCE_S = 30.0
WHERE = f"{BUCKET}/checkpoints/"
# Keeps every 5th step; the result depends on every step that was taken. Nothing of an earlier start is on the host.
PROGRAM = """
import json, os, re, sys, time
from pathlib import Path
host = json.loads(Path("/opt/ml/input/config/resourceconfig.json").read_text())["current_host"]
here = Path("/opt/ml/output/data/here")
assert not here.exists() and not any(Path("/opt/ml/model").iterdir()), "this host is not new"
here.touch()
folder = Path("/opt/ml/checkpoints")
kept = sorted(int(p.name[5:]) for p in folder.iterdir() if re.fullmatch(r"step-\\d+", p.name))
step, value = (kept[-1], int((folder / f"step-{kept[-1]}").read_text())) if kept else (0, 1)
while step < 30:
    step, value = step + 1, value * 1103515245 % 2147483648 + 12345
    time.sleep(0.01 if step < 22 else 0.08)  # the last interruption must find it at work on a busy machine, too
    print(f"step {step} loss={1 / step:.4f}", flush=True)
    if step % 5 == 0:
        unfinished = folder / f"unfinished-{step}-{host}"
        unfinished.write_text(str(value))
        unfinished.rename(folder / f"step-{step}")
here.unlink()
Path(f"/opt/ml/model/value-{host}").write_text(str(value))
"""


def training(runs: LocalRuns, program: str = PROGRAM, *, spot: bool = True, **fields: Any) -> dict[str, Any]:
    step = runs.training("train", program, checkpoints=WHERE, **fields)
    if spot:
        arguments = step["Arguments"]
        arguments["EnableManagedSpotTraining"] = True
        arguments["StoppingCondition"]["MaxWaitTimeInSeconds"] = arguments["StoppingCondition"]["MaxRuntimeInSeconds"]
    return step


def row(runs: LocalRuns) -> StepRun:
    with Ledger(runs.home) as ledger:
        return ledger.step(ledger.execution("latest").id, "train")


def values(runs: LocalRuns) -> dict[str, str]:
    with tarfile.open(runs.store.path(row(runs).response["ModelArtifacts"]["S3ModelArtifacts"])) as archive:
        return {name: archive.extractfile(name).read().decode() for name in archive.getnames()}  # type: ignore[union-attr]


def expected() -> str:
    value = 1
    for _ in range(30):
        value = value * 1103515245 % 2147483648 + 12345
    return str(value)


@pytest.mark.slow
@pytest.mark.parametrize("notice", ["0", "5s"])
@pytest.mark.parametrize("hosts", [1, 2])
def test_the_result_is_that_of_an_uninterrupted_run(runs: LocalRuns, notice: str, hosts: int) -> None:
    wanted = parse_all([f"train@step=8,notice={notice}", f"step=22,notice={notice}"])
    steps = [training(runs, count=hosts, metrics={"loss": r"loss=([0-9.]+)"})]
    summary = runs.start(steps, interruptions=wanted)
    assert summary.status == "Succeeded", summary.reason
    assert values(runs) == {f"value-127.0.0.{number + 1}": expected() for number in range(hosts)}
    assert "step-30" in {one.name for one in runs.store.find(WHERE)}  # a kill may leave an unfinished file beside it

    step = row(runs)
    assert (step.attempts, step.value) == (1, "2 interruptions")
    told = step.response["Drivetrain"]["interruptions"]
    assert [(one["notice_s"], one["reason"]) for one in told] == [
        (0.0 if notice == "0" else 5.0, f"spot machines taken back, rehearsed ({one.text})") for one in wanted
    ]
    for one, at in zip(told, (8, 22), strict=True):
        assert at <= one["at_step"] <= 30 and one["resumed_step"] % 5 == 0
        assert one["steps_lost"] == one["at_step"] - one["resumed_step"] >= 0
        assert one["seconds_down"] < 30.0
    assert [event.start for event in runs.of(StepInterrupted)] == [2, 3]
    assert [event.start for event in runs.of(StepRestarted)] == [2, 3]
    assert [event.attempt for event in runs.of(StepStarted)] == [1]
    seconds = [event.elapsed_s for event in runs.of(MetricLogged)]
    assert seconds == sorted(seconds) and len(seconds) >= 30


@pytest.mark.slow
def test_the_course_of_statuses_matches_the_service(runs: LocalRuns) -> None:
    assert runs.start([training(runs)], interruptions=parse_all(["step=8,notice=0"])).status == "Succeeded"
    response = row(runs).response
    start = ["Starting", "Downloading", "Training"]
    course = response["SecondaryStatusTransitions"]
    assert [one["Status"] for one in course] == [*start, "Interrupted", *start, "Uploading", "Completed"]
    for before, after in pairwise(course):
        assert before["StartTime"] <= before["EndTime"] == after["StartTime"]
    assert response["TrainingStartTime"] == course[2]["StartTime"]
    assert "interrupted at step" in course[3]["StatusMessage"]
    assert response["TrainingTimeInSeconds"] >= response["BillableTimeInSeconds"] >= 1


@pytest.mark.slow
def test_a_run_without_a_rehearsal_has_a_course_too(runs: LocalRuns) -> None:
    assert runs.start([training(runs)]).status == "Succeeded"
    response = row(runs).response
    statuses = [one["Status"] for one in response["SecondaryStatusTransitions"]]
    assert statuses == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert row(runs).value is None
    (start,) = response["Drivetrain"]["attempts"]
    assert response["Drivetrain"]["interruptions"] == [] and (start["number"], start["job"], start["spot"]) == (
        1,
        1,
        True,
    )
    assert start["started"] < start["time"] == start["gone"] and "step" not in start, (
        "the script says nothing of itself"
    )
    training_phase = response["SecondaryStatusTransitions"][2]
    assert (
        training_phase["StartTime"] <= start["started"] + 0.001 and start["gone"] <= training_phase["EndTime"] + 0.001
    )


@pytest.mark.slow
def test_an_uninterrupted_run_has_no_interruptions_to_report(runs: LocalRuns) -> None:
    assert runs.start([training(runs, spot=False)]).status == "Succeeded"
    assert "Drivetrain" not in row(runs).response


@pytest.mark.slow
def test_machines_on_demand_fail_too(runs: LocalRuns) -> None:
    summary = runs.start([training(runs, spot=False)], interruptions=parse_all(["step=8,notice=0"]))
    assert summary.status == "Succeeded" and values(runs) == {"value-127.0.0.1": expected()}
    [told] = row(runs).response["Drivetrain"]["interruptions"]
    assert told["reason"] == "machines lost, rehearsed (step=8,notice=0)"


# As our own training does: it says nothing in its log, makes the file at the step, and waits.
TELLS = """
import os, time
from pathlib import Path
base = Path(os.environ.get("SAGEMAKER_BASE_DIR") or "/opt" "/ml")
kept, wanted = base / "checkpoints" / "step", int(os.environ.get("DRIVETRAIN_REHEARSE_STEP", "0"))
step = int(kept.read_text()) if kept.exists() else 0
print("from", step, flush=True)
while step < 20:
    step += 1
    kept.with_name("unfinished").write_text(str(step))
    kept.with_name("unfinished").rename(kept)
    if step == wanted:
        Path(os.environ["DRIVETRAIN_REHEARSE_FILE"]).touch(exist_ok=False)
        time.sleep(600)
(base / "model" / "steps").write_text(str(step))
"""


@pytest.mark.parametrize("mode", ["auto", "rewrite"])
def test_a_program_that_says_its_step_is_interrupted_exactly_there(runs: LocalRuns, mode: str) -> None:
    step = training(runs, TELLS)
    step["Arguments"]["AlgorithmSpecification"]["ContainerArguments"] = ["drivetrain.components.train:train"]
    summary = runs.start([step], mode=mode, interruptions=parse_all(["step=9,notice=5s", "step=14,notice=5s"]))
    assert summary.status == "Succeeded", summary.reason
    told = row(runs).response["Drivetrain"]["interruptions"]
    assert [one["at_step"] for one in told] == [9, 14]
    log = (runs.home.logs(summary.execution, "train", 1) / "127.0.0.1.log").read_text()
    assert [line for line in log.splitlines() if line.startswith("from")] == ["from 0", "from 9", "from 14"]


def test_an_interrupted_step_is_not_taken_from_the_cache(runs: LocalRuns) -> None:
    steps = [training(runs, cache=True)]
    assert runs.start(steps).status == "Succeeded"
    assert runs.start(steps).status == "Succeeded" and row(runs).status == "Cached"
    assert runs.start(steps, interruptions=parse_all(["step=8"])).status == "Succeeded"
    assert row(runs).status == "Succeeded"


@pytest.mark.slow
def test_interruptions_that_never_happened_are_reported(runs: LocalRuns) -> None:
    summary = runs.start([training(runs)], interruptions=parse_all(["step=8,notice=0", "step=500"]))
    assert summary.status == "Succeeded"
    assert row(runs).value == "1 interruption, never came to step 500"


def test_the_limits_hold_over_all_starts(runs: LocalRuns) -> None:
    step = training(runs, "import time; time.sleep(600)", max_run=1)
    summary = runs.start([step], interruptions=parse_all(["poisson=0.3s,seed=1,notice=0"]))
    assert summary.status == "Failed"
    assert "exceeded its time limit of 1 s (StoppingCondition.Max" in str(summary.reason)
    assert runs.of(StepInterrupted) and summary.seconds < 60  # of the 600 that the program would take


def test_a_program_that_fails_after_an_interruption_fails_its_step(runs: LocalRuns) -> None:
    program = """
        import os, sys, time
        if os.listdir("/opt/ml/checkpoints"):
            sys.exit("I cannot read my checkpoint")
        open("/opt/ml/checkpoints/only", "w").write("x")
        print("step 1", flush=True)
        time.sleep(600)
    """
    summary = runs.start([training(runs, program)], interruptions=parse_all(["step=1,notice=10s"]))
    assert summary.status == "Failed" and "I cannot read my checkpoint" in str(summary.reason)
    assert row(runs).value == "1 interruption"
    # It goes on without further ones, and does not forget what was.
    runs.put("code/train/train.py", "pass")
    assert runs.resume(options=Options(pipeline="test")).status == "Succeeded"
    assert row(runs).value == "1 interruption"
    [told] = row(runs).response["Drivetrain"]["interruptions"]
    assert told["at_step"] == 1
    starts = row(runs).response["Drivetrain"]["attempts"]
    assert [(one["number"], one["job"]) for one in starts] == [(1, 1), (2, 1), (3, 2)]


@pytest.mark.parametrize(
    ("interrupt", "message"),
    [
        ("trian@step=1", "--interrupt trian@step=1: there is no step 'trian'. Did you mean 'train'?"),
        ("other@step=1", "other keeps no checkpoints (CheckpointConfig): it would begin at its first step each time"),
        ("make@step=1", "make is a step of type Processing. Only training jobs lose their machines"),
    ],
)
def test_uninterruptible_steps_are_refused(runs: LocalRuns, interrupt: str, message: str) -> None:
    steps = [training(runs), runs.training("other", "pass"), runs.processing("make", "pass")]
    with pytest.raises(UserError) as caught:
        runs.start(steps, interruptions=parse_all([interrupt]))
    assert message in str(caught.value)


def test_a_definition_that_the_service_would_reject_is_refused(runs: LocalRuns) -> None:
    step = training(runs)
    del step["Arguments"]["StoppingCondition"]["MaxWaitTimeInSeconds"]
    with pytest.raises(UserError, match="MaxWaitTimeInSeconds"):
        runs.start([step])


RUN = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import parse_all
from drivetrain.targets.sagemaker.run.runner import Runner
options = Options(pipeline="test", interruptions=parse_all({interrupt!r}))
print(Runner(Home({home!r})).start(Path({text!r}).read_text(), {{}}, options).status)
"""
# Its second start goes on once it may.
WAITS = PROGRAM.replace(
    "while step < 30:",
    "while step and not Path('/opt/ml/input/data/gate/open').exists():\n    print('waiting', flush=True)\n"
    "    time.sleep(0.02)\nwhile step < 30:",
)


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


@pytest.mark.slow_cases("9")
@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_run_that_ends_in_the_middle_goes_on(runs: LocalRuns, tmp_path: Path, how: signal.Signals) -> None:
    runs.put("gate/nothing", "x")
    steps = [training(runs, WAITS, inputs={"gate": f"{BUCKET}/gate/"})]
    text = tmp_path / "definition.json"
    text.write_text(runs.text(steps))
    interrupt = ["step=8,notice=5s", "step=22,notice=0"]
    program = RUN.format(root=str(ROOT), home=str(runs.home.root), text=str(text), interrupt=interrupt)
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    log = "*/train/attempt-1/logs/127.0.0.1.log"
    until(lambda: any("waiting" in path.read_text() for path in runs.home.runs.glob(log)))
    assert "interrupted at step" in str(row(runs).value) and str(row(runs).value).endswith(", start 2")
    process.send_signal(how)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (out, err) == ("" if how == signal.SIGKILL else "Stopped\n", "")

    runs.put("gate/open", "x")
    summary = runs.resume()
    assert summary.status == "Succeeded", summary.reason
    assert values(runs) == {"value-127.0.0.1": expected()}
    assert [event.start for event in runs.of(StepInterrupted)] == [2]  # the one at step 8 is not rehearsed again
    told = row(runs).response["Drivetrain"]["interruptions"]
    assert [one["reason"] for one in told] == [f"spot machines taken back, rehearsed ({one})" for one in interrupt]
    assert all(one["resumed_step"] is not None for one in told)
    journal = json.loads((runs.home.run(summary.execution) / "train" / FILE).read_text())
    assert [one["given"] for one in journal["interruptions"]] == interrupt
    starts = [(one["number"], one["job"], "gone" in one) for one in journal["attempts"]]
    killed = how == signal.SIGKILL  # nobody saw the end of the second start then
    assert starts == [(1, 1, True), (2, 1, not killed), (3, 2, True), (4, 2, True)]


SAYS = """
import json, time
from pathlib import Path
folder = Path("/opt/ml/checkpoints/attempts")
folder.mkdir()
said = {"number": 1, "started": time.time(), "time": time.time(), "first_step": 0, "step": 3, "ended": None}
(folder / "00001.part").write_text(json.dumps(said))
(folder / "00001.part").rename(folder / "00001.json")
time.sleep(600)
"""


@pytest.mark.slow
def test_facts_of_a_training_are_known_while_it_runs(runs: LocalRuns, tmp_path: Path) -> None:
    text = tmp_path / "definition.json"
    text.write_text(runs.text([training(runs, SAYS)]))
    program = RUN.format(root=str(ROOT), home=str(runs.home.root), text=str(text), interrupt=[])
    process = subprocess.Popen([sys.executable, "-c", program])

    def attempts() -> list[dict[str, Any]]:
        return [
            one for path in runs.home.runs.glob(f"*/train/{FILE}") for one in json.loads(path.read_text())["attempts"]
        ]

    try:
        until(lambda: any(one.get("step") == 3 for one in attempts()))
        with Ledger(runs.home) as ledger:
            (times,) = run_facts(ledger, "latest").job_times
        assert [(one.step, one.spot) for one in times.attempts] == [(3, True)] and times.interruptions == ()
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE_S) == 0
    (stopped,) = attempts()
    assert stopped["step"] == 3 and stopped["time"] == stopped["gone"] > stopped["started"] + 1
