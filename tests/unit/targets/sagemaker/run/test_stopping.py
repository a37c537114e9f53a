"""How a run ends that is not let to its end: signals, time limits, dead supervisors, a second runner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.processes import alive
from drivetrain.run_store.durable import DiskFullError
from drivetrain.run_store.events import Event, StepFinished, StepRetrying, StepStarted
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.fixtures.local_runs import BUCKET, LocalRuns, output_of

ROOT = Path(__file__).parents[5]
PATIENCE_S = 30.0

WAIT = """
import signal, sys, time
from pathlib import Path
def stop(number, frame):
    print("asked to stop", flush=True)
    sys.exit(1)
signal.signal(signal.SIGTERM, stop)
Path("/opt/ml/processing/output/out/half.txt").write_text("half")
print("at work", flush=True)
time.sleep(600)
"""
RUN = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
summary = Runner(Home({home!r})).start(Path({text!r}).read_text(), {{}}, Options(pipeline="test"))
print(summary.status)
"""


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def said(runs: LocalRuns, text: str) -> bool:
    return any(text in log.read_text() for log in runs.home.runs.glob("*/*/attempt-*/logs/*.log"))


def in_a_process(runs: LocalRuns, steps: list[dict[str, Any]], tmp_path: Path) -> subprocess.Popen[str]:
    text = tmp_path / "definition.json"
    text.write_text(runs.text(steps))
    program = RUN.format(root=str(ROOT), home=str(runs.home.root), text=str(text))
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def supervisors(runs: LocalRuns) -> list[Any]:
    with Ledger(runs.home) as ledger:
        return [record for row in ledger.attempts(ledger.execution("latest").id) for record in row.processes]


@pytest.mark.slow_cases("2", "15")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_jobs_and_leaves_a_run_that_can_go_on(
    runs: LocalRuns, tmp_path: Path, number: signal.Signals
) -> None:
    steps = [
        runs.processing("first", "pass"),
        runs.processing("second", WAIT, outputs=["out"], DependsOn=["first"]),
        runs.processing("third", "pass", DependsOn=["second"]),
    ]
    process = in_a_process(runs, steps, tmp_path)
    until(lambda: said(runs, "at work"))
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (out.strip(), err) == ("Stopped", "")
    assert said(runs, "asked to stop")
    assert runs.statuses() == {"first": "Succeeded", "second": "Stopped", "third": "NotExecuted"}
    assert not any(alive(record) for record in supervisors(runs))
    with Ledger(runs.home) as ledger:
        execution = ledger.execution("latest")
        assert execution.status == "Stopped"
        told = [dict(row.event["detail"]) for row in ledger.events(execution.id)]
    assert [one["currentStepStatus"] for one in told if one.get("stepName") == "second"] == [
        *("Executing", "Stopping", "Stopped"),
    ]
    assert [one["currentPipelineExecutionStatus"] for one in told if "stepName" not in one] == [
        *("Executing", "Stopping", "Stopped"),
    ]
    assert [one.get("previousStepStatus", one.get("previousPipelineExecutionStatus")) for one in told[-4:]] == [
        *("Executing", "Executing", "Stopping", "Stopping"),
    ]
    assert not runs.store.exists(f"{BUCKET}/runs/{execution.id}/second")
    runs.put("code/second/second.py", "print('in peace')")
    summary = runs.resume()
    assert (summary.execution, summary.status) == (execution.id, "Succeeded")
    assert [event.step for event in runs.of(StepStarted)] == ["second", "third"]


@pytest.mark.slow
def test_a_killed_runner_leaves_nothing_and_the_same_request_finds_the_run(runs: LocalRuns, tmp_path: Path) -> None:
    steps = [runs.processing("first", "pass"), runs.processing("second", WAIT, outputs=["out"], DependsOn=["first"])]
    process = in_a_process(runs, steps, tmp_path)
    until(lambda: said(runs, "at work"))
    with Ledger(runs.home) as ledger:
        execution = ledger.execution("latest")
        assert execution.status == "Executing"
    runner, options = Runner(runs.home), Options(pipeline="test")
    assert runner.find_interrupted(runs.text(steps), {}, options) is None
    with pytest.raises(UserError, match=f"is being run by another process .pid {process.pid}"):
        runs.resume(execution.id)
    process.kill()
    process.communicate()
    with Ledger(runs.home) as ledger:
        assert ledger.execution("latest").status == "Interrupted"
    until(lambda: not any(alive(record) for record in supervisors(runs)))
    assert runner.find_interrupted(runs.text(steps), {}, options) == execution.id
    assert runner.find_interrupted(runs.text(steps), {}, Options(pipeline="another")) is None
    assert runner.find_interrupted(runs.text(steps[:1]), {}, options) is None
    runs.put("code/second/second.py", "open('/opt/ml/processing/output/out/whole.txt', 'w').write('whole')")
    assert runs.resume(execution.id).status == "Succeeded"
    assert [item.name for item in runs.store.find(f"{BUCKET}/runs/{execution.id}/second/out/")] == ["whole.txt"]
    with Ledger(runs.home) as ledger:
        assert [row.status for row in ledger.attempts(execution.id, "second")] == ["Interrupted", "Succeeded"]
        assert not list(runs.home.attempt(execution.id, "second", 1).glob("hosts"))
    assert runner.find_interrupted(runs.text(steps), {}, options) is None


@pytest.mark.slow
def test_runs_at_the_same_time_share_a_home(runs: LocalRuns, tmp_path: Path) -> None:
    program = "open('/opt/ml/processing/output/out/x', 'w').write('x')"
    steps = [runs.processing(name, program, outputs=["out"], cache=True) for name in "abc"]
    processes = [in_a_process(runs, steps, tmp_path) for _ in range(3)]
    assert [process.communicate(timeout=PATIENCE_S) for process in processes] == [("Succeeded\n", "")] * 3
    with Ledger(runs.home) as ledger:
        assert [execution.status for execution in ledger.executions()] == ["Succeeded"] * 3


@pytest.mark.slow
def test_a_step_that_takes_too_long_is_ended(runs: LocalRuns) -> None:
    summary = runs.start([runs.processing("slow", WAIT, outputs=["out"], max_run=1)])
    assert summary.status == "Failed"
    assert "exceeded its time limit of 1 s (StoppingCondition.MaxRuntimeInSeconds)" in str(summary.reason)
    assert said(runs, "asked to stop")
    assert not any(alive(record) for record in supervisors(runs))


POLICY = {"ExceptionType": ["SageMaker.JOB_INTERNAL_ERROR"], "IntervalSeconds": 0, "MaxAttempts": 2, "BackoffRate": 1.0}


def test_a_dead_supervisor_is_an_infrastructure_failure_that_policies_retry(runs: LocalRuns) -> None:
    program = """
        import os, time
        from pathlib import Path
        Path("/opt/ml/processing/output/out/attempt.txt").write_text("x")
        print("at work", flush=True)
        if not Path("/opt/ml/processing/input/flag/flag.txt").read_text():
            time.sleep(600)
    """
    flag = runs.put("flag.txt", "")
    steps = [runs.processing("s", program, inputs={"flag": flag}, outputs=["out"], RetryPolicies=[POLICY])]

    def kill() -> None:
        until(lambda: said(runs, "at work"))
        runs.put("flag.txt", "go")
        [record] = supervisors(runs)
        os.kill(record.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    summary = runs.start(steps)
    killer.join()
    assert summary.status == "Succeeded", summary.reason
    [retrying] = runs.of(StepRetrying)
    assert (retrying.step, retrying.attempt) == ("s", 1) and "supervisor was killed" in retrying.reason
    with Ledger(runs.home) as ledger:
        first, second = ledger.attempts(summary.execution, "s")
    assert (first.status, first.error_type) == ("Failed", "SageMaker.JOB_INTERNAL_ERROR")
    assert second.status == "Succeeded"


def test_a_programs_own_failure_is_not_retried(runs: LocalRuns) -> None:
    summary = runs.start([runs.processing("s", "raise SystemExit(3)", RetryPolicies=[POLICY])])
    assert summary.status == "Failed" and runs.of(StepRetrying) == []
    with Ledger(runs.home) as ledger:
        [attempt] = ledger.attempts(summary.execution, "s")
    assert attempt.error_type is None


def test_stopping_while_a_retry_waits_does_not_wait(runs: LocalRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    from drivetrain.targets.sagemaker.run.execution import JOB_INTERNAL_ERROR, StepFailedError
    from drivetrain.targets.sagemaker.run.step_types import processing

    def fail(context: Any) -> None:
        raise StepFailedError("the machine", JOB_INTERNAL_ERROR)

    monkeypatch.setattr(processing, "run", fail)
    policy = {**POLICY, "IntervalSeconds": 3600}

    def observe(event: Event) -> None:
        runs.events.append(event)
        if isinstance(event, StepRetrying):
            os.kill(os.getpid(), signal.SIGTERM)

    text = runs.text([runs.processing("s", "", RetryPolicies=[policy])])
    summary = Runner(runs.home, observe).start(text, {}, Options(pipeline="test"))
    assert summary.status == "Stopped"
    assert runs.statuses() == {"s": "Stopped"}


def test_a_full_disk_ends_the_run_with_one_error_and_lets_it_go_on(
    runs: LocalRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    from drivetrain.run_store.objects import ObjectStore

    steps = [
        runs.processing("a", "open('/opt/ml/processing/output/out/x', 'w').write('x')", outputs=["out"]),
        runs.processing("b", "pass", inputs={"data": output_of("a", "out")}),
    ]
    adopt = ObjectStore.adopt

    def full(self: ObjectStore, staged: Path, uri: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(staged))

    monkeypatch.setattr(ObjectStore, "adopt", full)
    with pytest.raises(DiskFullError, match=r"step 'a': No space left on device .* runs resume"):
        runs.start(steps)
    with Ledger(runs.home) as ledger:
        assert ledger.execution("latest").status == "Interrupted"
    monkeypatch.setattr(ObjectStore, "adopt", adopt)
    summary = runs.resume()
    assert summary.status == "Succeeded"
    # The step had succeeded before the disk was full: its outputs are moved, and it does not run again.
    assert [event.step for event in runs.of(StepStarted)] == ["b"]
    assert runs.read(f"{BUCKET}/runs/{summary.execution}/a/out/x") == "x"


def test_a_mistake_in_the_runner_itself_is_not_hidden(runs: LocalRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    from drivetrain.targets.sagemaker.run.step_types import processing

    before = set(threading.enumerate())  # a test before this one may have left a server running

    def broken(context: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(processing, "run", broken)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        runs.start([runs.processing("a", "pass"), runs.processing("b", "pass")])
    assert set(threading.enumerate()) <= before


def test_an_observer_that_fails_ends_the_run_and_its_jobs(runs: LocalRuns) -> None:
    def observe(event: Event) -> None:
        if isinstance(event, StepFinished):
            raise BrokenPipeError

    text = runs.text([runs.processing("quick", "pass"), runs.processing("slow", WAIT, outputs=["out"])])
    before = set(threading.enumerate())
    with pytest.raises(BrokenPipeError):
        Runner(runs.home, observe).start(text, {}, Options(pipeline="test", max_parallel=2))
    assert not any(alive(record) for record in supervisors(runs))
    assert set(threading.enumerate()) <= before


def test_independent_steps_run_side_by_side_within_the_bound(runs: LocalRuns, tmp_path: Path) -> None:
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    program = """
        import sys, time
        from pathlib import Path
        meeting, me, partner = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
        (meeting / f"{me}.here").touch()
        deadline = time.monotonic() + 30
        while not (meeting / f"{partner}.here").exists():  # alone, it would wait in vain
            assert time.monotonic() < deadline
            time.sleep(0.005)
        here = [path.stem for path in meeting.glob("*.here") if not (meeting / f"{path.stem}.gone").exists()]
        assert len(here) <= 2, here
        (meeting / f"{me}.gone").touch()
    """
    steps = [
        runs.processing(me, program, arguments=[str(meeting), me, partner]) for me, partner in ("ab", "ba", "cd", "dc")
    ]
    summary = runs.start(steps, max_parallel=2)
    assert summary.status == "Succeeded", summary.reason
