"""Runs that are stopped, killed, or run twice: nothing lives on, nothing is lost, and they go on."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.bad_input.place import PATIENCE_S, Place, definition, output_of, processing

DEATH_S = 5.0
# Both hold a lock on a file of the place for as long as they live; the child leaves the session.
HOLDING = """
import fcntl, os, subprocess, sys, time
held = open(sys.argv[1] + "/" + ("child" if len(sys.argv) > 2 else "step") + ".alive", "w")
fcntl.flock(held, fcntl.LOCK_EX)
if len(sys.argv) == 2:
    with open(sys.argv[1] + "/holding.ran", "a") as ran:
        ran.write("x")
    subprocess.Popen([sys.executable, "-c", PROGRAM, sys.argv[1], "child"], start_new_session=True)
else:
    open(sys.argv[1] + "/up", "w").close()
while os.path.exists(sys.argv[1] + "/hold"):
    time.sleep(0.01)
if len(sys.argv) == 2:
    open("/opt/ml/processing/output/data/a", "w").write("x")
"""


def held_definition(place: Place) -> dict[str, Any]:
    """`before`, then `holding` until the file `hold` is gone, then `after`."""
    (place.folder / "hold").touch()
    count = f"open({str(place.folder / 'before.ran')!r}, 'a').write('x')"
    program = f"PROGRAM = {HOLDING!r}\nexec(PROGRAM)"
    holding = processing(
        "holding", program, str(place.folder), outputs={"data": "s3://bucket/data"}, DependsOn=["before"]
    )
    after = processing("after", "pass", inputs={"data": output_of("holding", "data")})
    return definition(processing("before", count), holding, after)


def until(holds: Callable[[], bool], seconds: float) -> bool:
    """Poll until it holds: it happens in processes that are not our children."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def alive(place: Place) -> list[str]:
    found: list[str] = []
    for who in ("step", "child"):
        with open(place.folder / f"{who}.alive", "rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(who)
    return found


def start(place: Place) -> Any:
    process = place.start("run", "-d", place.write("definition.json", json.dumps(held_definition(place))))
    assert until((place.folder / "up").exists, PATIENCE_S), (place.folder / "out").read_text()
    return process


def goes_on(place: Place, *command: str) -> None:
    """What was done is not done again, and the one execution succeeds."""
    (place.folder / "hold").unlink()
    ran = place.drivetrain(*command)
    assert ran.code == 0, ran
    assert list(place.executions().values()) == ["Succeeded"]
    assert (place.folder / "before.ran").read_text() == "x"
    assert (place.folder / "holding.ran").read_text() == "xx"
    assert list(place.temporary.iterdir()) == []


@pytest.mark.slow_cases(but=["SIGINT"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_stops_the_run(place: Place, number: signal.Signals) -> None:
    process = start(place)
    process.send_signal(number)
    ran = place.end_of(process)
    assert ran.code == 130, ran
    assert alive(place) == []
    assert place.shown() == ["Stopped"]
    assert place.step("before")[0] == "Succeeded"
    assert place.step("holding")[0] == "Stopped"
    assert place.step("after")[0] == "NotExecuted"
    (execution,) = place.executions()
    assert f"drivetrain runs resume {execution}" in ran.out
    if number == signal.SIGINT:
        goes_on(place, "runs", "resume")


@pytest.mark.slow
def test_two_runners_on_one_execution_and_a_kill(place: Place) -> None:
    process = start(place)
    (execution,) = place.executions()
    second = place.drivetrain("runs", "resume", execution)
    place.error_of(second, f"{execution} is being run by another process (pid {process.pid})", "stop it")
    assert place.shown() == ["Executing"]
    assert alive(place) == ["step", "child"]
    process.kill()
    assert place.end_of(process).code == -signal.SIGKILL
    assert place.shown() == ["Interrupted"]
    assert until(lambda: alive(place) == [], DEATH_S)
    goes_on(place, "run", "-d", "definition.json")


@pytest.mark.slow
def test_a_program_that_ignores_the_signal_is_ended_by_a_second_one(place: Place) -> None:
    up = str(place.folder / "up")
    program = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open({up!r}, 'w'); time.sleep(600)"
    process = place.start("run", "-d", place.write("definition.json", json.dumps(definition(processing("a", program)))))
    assert until((place.folder / "up").exists, PATIENCE_S)
    started = time.monotonic()

    def ended() -> bool:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    os.kill(process.pid, signal.SIGINT)
    for _ in range(2):  # two that come within a millisecond count as one
        assert not until(ended, 0.5)
        os.kill(process.pid, signal.SIGINT)
        if until(ended, 3.0):
            break
    assert place.end_of(process).code == 130
    assert time.monotonic() - started < 8.0  # the grace of a single signal is 10 s
    assert place.step("a")[0] == "Stopped"
