"""Several processes, one end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from drivetrain.training.launch.processes.supervision import supervise

WAIT = "import signal, sys; print('ready', flush=True); signal.pause()"
SAVE = (
    "import signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); print('ready', flush=True); "
    "signal.sigwait([signal.SIGTERM]); sys.exit(0)"
)
STUBBORN = """
import signal
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
print('ready', flush=True)
while True:
    signal.pause()
"""


def python(code: str, **variables: str) -> tuple[list[str], dict[str, str]]:
    return [sys.executable, "-c", code], {**os.environ, **variables}


def test_codes_come_in_the_order_of_the_commands() -> None:
    commands = [python("import sys, os; sys.exit(int(os.environ['CODE']))", CODE=code) for code in ("0", "0")]
    assert supervise(commands, stop_seconds=5) == ([0, 0], None)


def test_the_others_are_told_to_leave_when_one_has_failed() -> None:
    codes, stopped = supervise([python(WAIT), python("raise SystemExit(3)")], stop_seconds=60)
    assert (codes, stopped) == ([-signal.SIGTERM, 3], None)


def test_servers_end_when_no_longer_needed() -> None:
    asked: list[bool] = []

    def is_served() -> bool:
        asked.append(True)
        return len(asked) > 1

    commands = [python("pass"), python(WAIT)]
    assert supervise(commands, stop_seconds=60, serving=[1], is_served=is_served) == ([0, 0], None)
    assert len(asked) == 2
    # One that fails is a failure, also while it serves.
    commands = [python(WAIT), python("raise SystemExit(3)")]
    assert supervise(commands, stop_seconds=60, serving=[1]) == ([-signal.SIGTERM, 3], None)


def stop_when_ready(count: int, reader: int, number: signal.Signals) -> threading.Thread:
    def wait() -> None:
        seen = b""
        while seen.count(b"ready\n") < count:
            seen += os.read(reader, 100)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def with_pipe(codes: list[str], number: signal.Signals, **more: float) -> tuple[list[int], signal.Signals | None]:
    """Run programs that say `ready` into a pipe; when all have, this process is sent the signal."""
    reader, writer = os.pipe()
    # Popen leaves its children no descriptors; /proc names this process's end for them.
    path = f"/proc/{os.getpid()}/fd/{writer}"
    told = f"import os; os.dup2(os.open({path!r}, os.O_WRONLY), 1)\n"
    thread = stop_when_ready(len(codes), reader, number)
    try:
        return supervise([python(told + code) for code in codes], stop_seconds=more.get("stop_seconds", 60))
    finally:
        thread.join(timeout=20)
        os.close(reader)
        os.close(writer)


def test_a_stop_reaches_everybody_and_a_save_counts() -> None:
    assert with_pipe([SAVE, WAIT], signal.SIGTERM) == ([0, -signal.SIGTERM], signal.SIGTERM)


def test_processes_that_do_not_exit_are_killed() -> None:
    codes, stopped = with_pipe([STUBBORN, WAIT], signal.SIGINT, stop_seconds=0.5)
    assert (codes[0], stopped) == (-signal.SIGKILL, signal.SIGINT)


def test_handlers_are_restored_and_checks_run(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    ticks: list[int] = []
    supervise([python("pass")], stop_seconds=5, tick=lambda: ticks.append(1))
    assert ticks
    assert signal.getsignal(signal.SIGTERM) is before
