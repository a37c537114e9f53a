"""Start a program on this host's part of the cluster, and answer for it.

    python -m drivetrain.training_scripts.launch drivetrain.training_scripts.train --train build/train ...
    python -m drivetrain.training_scripts.launch --processes 2 my_program --its-own arguments

Every host runs the same command; drivetrain.training_scripts.cluster says how it learns of the others. One process is
started directly, more through torchrun. SIGTERM and SIGINT are passed on. When a rank fails, its reason and traceback
are printed and written to the file that DRIVETRAIN_FAILURE_FILE names.

Exit codes: 0 done, 1 the program failed, 2 bad input, 75 a retry may help (a process was killed or stopped, a host
was lost), 130 interrupted from the keyboard.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drivetrain.training_scripts.cluster import Cluster, process_environment, read_cluster
from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.failure import (
    BAD_INPUT,
    ERROR_FILE,
    FAILED,
    RETRY,
    Failure,
    describe,
    exit_code,
    from_rank,
    root_cause,
    write_failure_file,
)
from drivetrain.training_scripts.parent import announce_parent, die_with_parent

# The platform sends SIGTERM and 120 s later SIGKILL. Ranks get this many seconds to save and leave before torchrun
# kills them; the rest is for torchrun, for us, and for the platform's own clock.
STOP_SECONDS = 90
# A host of the same job can come up much later than the first.
RESOLVE_SECONDS = 300


def main() -> None:
    die_with_parent(signal.SIGTERM)
    parser = argparse.ArgumentParser(
        prog="python -m drivetrain.training_scripts.launch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--processes", type=int, default=0, help="processes a host [default: one a GPU, else one]")
    parser.add_argument("module", help="the program, as a module name")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments, passed on as they are")
    given = parser.parse_args()
    try:
        cluster = read_cluster(os.environ, processes=given.processes)
        sys.exit(launch(cluster, [given.module, *given.arguments]))
    except InputError as error:
        _fail(f"error: {error}")
        sys.exit(BAD_INPUT)


def launch(cluster: Cluster, program: Sequence[str]) -> int:
    """Run `program` (a module name and its arguments) as this host's processes; returns the exit code."""
    if len(cluster.hosts) > 1 and not wait_for(cluster.hosts[0]):
        _fail(f"host {cluster.hosts[0]!r} has no address after {RESOLVE_SECONDS} s. Is it part of this job?")
        return RETRY
    with tempfile.TemporaryDirectory(prefix="drivetrain-launch-") as folder:
        run = _run_one if cluster.world_size == 1 else _run_torchrun
        environment = announce_parent(process_environment(cluster, os.environ))
        returned, stopped, failures = run(cluster, program, environment, Path(folder))
    if returned == 0:
        return 0
    if stopped is not None:
        _fail(f"stopped by {stopped.name} before the program was done; it can be tried again.")
        return 130 if stopped == signal.SIGINT else RETRY
    if failures:
        cause = root_cause(failures)
        _fail(describe(cause, failures, world_size=cluster.world_size, host=cluster.host))
        return exit_code(cause)
    if returned < 0:
        _fail(f"torchrun on {cluster.host} was ended by {signal.Signals(-returned).name}; it can be tried again.")
        return RETRY
    _fail(f"torchrun on {cluster.host} ended with code {returned} and named no rank; its own message is above.")
    return FAILED


Ended = tuple[int, signal.Signals | None, list[Failure]]


def _run_one(cluster: Cluster, program: Sequence[str], environment: dict[str, str], folder: Path) -> Ended:
    """One process needs no torchrun, which would import torch once more only to watch it."""
    error_file = folder / "error.json"
    environment |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    environment |= {ERROR_FILE: str(error_file)}
    returned, stopped = supervise([sys.executable, "-u", "-m", *program], environment)
    return returned, stopped, [from_rank(0, returned, _json_or_none(error_file))] if returned else []


def _run_torchrun(cluster: Cluster, program: Sequence[str], environment: dict[str, str], folder: Path) -> Ended:
    report = folder / "failures.json"
    command = torchrun_command(cluster, program, report=report, log_folder=folder / "ranks")
    returned, stopped = supervise(command, environment)
    found = _json_or_none(report) or []
    return returned, stopped, [from_rank(f["rank"], f["exit_code"], f["record"]) for f in found]


def torchrun_command(cluster: Cluster, program: Sequence[str], *, report: Path, log_folder: Path) -> list[str]:
    """The command line of torchrun for this host."""
    if len(cluster.hosts) == 1:
        # The rendezvous takes a free port of its own choosing, so any number of jobs can share the machine.
        # The address: torchrun otherwise asks for the host's full name, which in containers may not resolve.
        where = ["--standalone", "--local-addr=127.0.0.1"]
    else:
        # Static: rank order is host order, in every attempt.
        where = [
            f"--nnodes={len(cluster.hosts)}",
            f"--node-rank={cluster.host_index}",
            f"--master-addr={cluster.hosts[0]}",
            f"--master-port={cluster.port}",
            f"--local-addr={cluster.host}",
        ]
    return [
        *(sys.executable, "-m", "drivetrain.training_scripts.torchrun", str(report)),
        *where,
        f"--nproc-per-node={cluster.processes}",
        f"--shutdown-timeout={STOP_SECONDS}",  # its own default is 30 s
        f"--log-dir={log_folder}",  # only error files go there; output passes through
        *("-m", *program),
    ]


def supervise(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, signal.Signals | None]:
    """Run a command to its end; returns its code (negative: the signal that ended it) and the stop signal we got.

    The child has a process group of its own: a terminal's Ctrl-C reaches it once, through us.
    """
    stopped: list[signal.Signals] = []
    child: subprocess.Popen[bytes] | None = None

    def pass_on(number: int, frame: types.FrameType | None) -> None:
        if not stopped:  # a second signal would break off an orderly stop
            stopped.append(signal.Signals(number))
            signal.alarm(STOP_SECONDS + 10)
            if child is not None:
                child.send_signal(number)

    def give_up(number: int, frame: types.FrameType | None) -> None:
        if child is not None:
            child.kill()

    handled = {signal.SIGTERM: pass_on, signal.SIGINT: pass_on, signal.SIGALRM: give_up}
    before = {number: signal.signal(number, handler) for number, handler in handled.items()}
    try:
        child = subprocess.Popen(command, env=dict(environment), process_group=0)
        if stopped:  # it came while the child was being started
            child.send_signal(stopped[0])
        return child.wait(), (stopped[0] if stopped else None)
    finally:
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_for(host: str, *, seconds: float = RESOLVE_SECONDS) -> bool:
    """Wait until a host's name has an address; False when it has none after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.getaddrinfo(host, None)
            return True
        except socket.gaierror:
            if time.monotonic() > deadline:
                return False
            time.sleep(1.0)  # a name server cannot be waited on


def _fail(text: str) -> None:
    sys.stdout.flush()
    print(text, file=sys.stderr, flush=True)
    write_failure_file(text)


def _json_or_none(path: Path) -> Any:
    """A report's content; None where the process died before or while it wrote one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


if __name__ == "__main__":
    main()
