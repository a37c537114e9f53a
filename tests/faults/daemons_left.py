"""Programs of steps leave daemons behind, of every kind; then the step ends, is stopped, or its supervisors are killed.

Nothing of it may be alive afterwards, also where no namespace holds it (mode rewrite), and ending is bounded in time.
"""

from __future__ import annotations

import os
import shlex
import signal
import time
from pathlib import Path

from drivetrain.base.process_identity import start_time
from drivetrain.processes import end_survivors, process_table
from drivetrain.processes.container import Host, Job, RunningJob, start
from tests.faults.harness.families import SLOWEST, Found, Trial

FAULT = "daemons of steps (new sessions, second forks, no environment, deaf to SIGTERM): none outlives its step"
TRIALS, QUICK, AT_ONCE = 400, 4, 2
PATIENCE_S = 60.0
MOST_S = 20.0

# Shell words that leave something behind; {sleep} is a program that sleeps for a year, known by its argument.
WAYS = {
    "in the background": "{sleep} &",
    "without a terminal": "nohup {sleep} >/dev/null 2>&1 &",
    "in a session of its own": "setsid {sleep} &",
    "forked twice": "(setsid sh -c '{sleep} &' &)",
    "without an environment": "env -i {sleep} &",
    "a daemon without an environment": "(env -i /usr/bin/setsid sh -c 'env -i {sleep} &' &)",
    "without descriptors": "(env -i /usr/bin/setsid {sleep} <&- >&- 2>&- &)",
    "deaf to SIGTERM": "(env -i /usr/bin/setsid sh -c \"trap '' TERM HUP INT; {sleep}; :\" &)",
    "starting again": "(env -i /usr/bin/setsid sh -c \"trap '' TERM; while :; do {sleep}; done\" &)",
    "stopped": "(env -i /usr/bin/setsid sh -c 'kill -STOP $$; {sleep}' &)",
    "another name": "(env -i /usr/bin/setsid bash -c 'exec -a kthreadd {sleep}' &)",
}
ENDS = ("by itself", "by a stop", "its supervisors killed", "its supervisors stopped")


def trial(given: Trial, shared: object) -> Found:
    marker = f"{31_536_000 + given.number}.{given.draw.randrange(10**9):09d}"
    chosen = given.draw.sample(sorted(WAYS), given.draw.randint(1, 4))
    end = given.in_turn(ENDS)
    ready = given.folder / "ready"
    script = "\n".join(WAYS[way].format(sleep=f"/usr/bin/sleep {marker}") for way in chosen)
    script += f"\n: > {shlex.quote(str(ready))}\n" + ("" if end == ENDS[0] else f"exec /usr/bin/sleep {marker}\n")
    job = Job(
        command=("/bin/bash", "-c", script),
        environment={},
        hosts=(Host("127.0.0.1", given.folder / "ml"),),
        log_folder=given.folder / "logs",
        mode="rewrite",
        grace_s=1.0,
    )
    running = start(job)
    _wait_for(ready)
    began = time.monotonic()
    _end(end, running)
    took = time.monotonic() - began
    deadline = time.monotonic() + 1.0  # what was killed is taken down by the kernel
    while (left := _alive(marker)) and time.monotonic() < deadline:
        time.sleep(0.01)
    violations = [f"{end}: {len(left)} processes of {chosen} live: {list(left.values())}"] if left else []
    if took > MOST_S:
        violations.append(f"{end}: it took {took:.0f} s to end {chosen}")
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    did = {f"ended {end}": 1, **{f"left {way}": 1 for way in chosen}}
    return Found(violations, {**did, f"{SLOWEST} end, ms": round(took * 1000)})


def _end(how: str, running: RunningJob) -> None:
    records = running.processes
    if how in ENDS[2:]:
        number = signal.SIGKILL if how == ENDS[2] else signal.SIGSTOP
        managers = [pid for record in records for pid in process_table.descendants(record.pid)[:1]]
        for pid in (*managers, *(record.pid for record in records)):
            os.kill(pid, number)
        end_survivors(records, grace_s=0.2)  # as the next runner does
    elif how == ENDS[1]:
        running.stop()
    running.wait(MOST_S + 20)


def _alive(marker: str) -> dict[int, str]:
    """Processes that name the marker, also in the text of a shell."""
    found: dict[int, str] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if marker.encode() in words and start_time(int(name)) is not None:
            found[int(name)] = words.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} did not appear")
        time.sleep(0.005)
