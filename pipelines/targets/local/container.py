"""A container without docker: supervised process trees that see a folder of the run as /opt/ml.

    running = start(job, record=ledger_writes_the_processes)
    result = running.wait()

Every host of a job runs under a supervisor of its own (supervision.py), which ends all that the job started when the
job stops, fails, exceeds its time, or when this process dies.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.pipelines.targets.local import mounts
from drivetrain.pipelines.targets.local.mounts import Mode
from drivetrain.pipelines.targets.local.processes import TOKEN_VARIABLE, ProcessRecord, record_of, temporary_folder

# All that a container sees of the runner's environment beyond PATH: where things are, never what is secret.
INHERITED = (
    "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH",
    "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
)  # fmt: skip
# As the stock images set it: a log shows lines when they are printed, and a traceback after what came before it.
DEFAULTS = {"PYTHONUNBUFFERED": "1"}
PORT_VARIABLE = "DRIVETRAIN_PORT"
# Seconds the other hosts get when one has failed: they can only wait for it.
PEER_GRACE_S = 10.0
# Where programs say why they failed; the service shows at most this many characters.
FAILURE_FILES = ("output/failure", "output/message")
FAILURE_CHARACTERS = 1024
LOG_TAIL_LINES = 15
LONGEST_POLL_S = 86_400.0  # poll(2) takes at most 24 days of milliseconds


@dataclass(frozen=True)
class Host:
    """One host: `name` is its loopback address (127.0.0.1, 127.0.0.2, ...), `root` the folder that becomes /opt/ml."""

    name: str
    root: Path


@dataclass(frozen=True, kw_only=True)
class Job:
    """What starts, the same on every host.

    `command` is the argument list (no shell) with paths as the container sees them (/opt/ml/...); `environment` the
    container's own variables, to which only PATH (this Python's folder first), HOME, the locale and what finds a GPU
    are added from the runner's (INHERITED), never its secrets. Logs go to `<log_folder>/<host name>.log`, stdout and
    stderr together, appended to as they are written. After `time_limit_s` the job is stopped like one that the user
    stops: SIGTERM to the command, `grace_s` later SIGTERM and then SIGKILL to all that is left. `working_folder` is
    where the command starts. `code` names the folders, as the container sees them, that hold the user's program; in
    `rewrite` mode they are searched for a literal /opt/ml (those that an argument of `command` leads to are searched
    anyway).
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    hosts: tuple[Host, ...]
    log_folder: Path
    time_limit_s: float | None = None
    grace_s: float = 120.0
    mode: Mode = "auto"
    working_folder: str = "/opt/ml"
    code: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostResult:
    """How one host ended. `exit_code` is None when a signal ended the command.

    As in a container runtime 127 says that the command was not found and 126 that it could not be started.
    `started_at` and `ended_at` are seconds since the epoch, `cpu_s` user and system time of all its processes,
    `max_rss_bytes` the memory of the largest one.
    """

    host: str
    exit_code: int | None
    signal: int | None
    timed_out: bool
    stopped: bool
    failure_reason: str | None
    cpu_s: float
    max_rss_bytes: int
    started_at: float
    ended_at: float

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0 and not self.timed_out and not self.stopped


@dataclass(frozen=True)
class JobResult:
    """How the job ended; of several hosts that failed, the one that failed first.

    `failure_reason` is what the program wrote to /opt/ml/output/failure (or output/message), else the end of its log;
    None when every host ended with 0. `stopped` says that `RunningJob.stop` was called, `timed_out` that the time
    limit ended it.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    stopped: bool
    failed_host: str | None
    failure_reason: str | None
    cpu_s: float
    wall_s: float
    hosts: tuple[HostResult, ...]

    @property
    def succeeded(self) -> bool:
        return self.failed_host is None and not self.timed_out and not self.stopped


@dataclass
class _Supervised:
    """One host's supervisor, what tells us of its end, and where its log begins."""

    host: Host
    process: subprocess.Popen[bytes]
    record_file: Path
    log: Path
    log_start: int
    record: ProcessRecord
    result: HostResult | None = None
    command_ended_at: float = float("inf")

    @property
    def stdout(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()


class RunningJob:
    """A started job."""

    def __init__(self, job: Job, supervised: Sequence[_Supervised], port: socket.socket | None) -> None:
        self._job = job
        self._supervised = tuple(supervised)
        self._port = port
        self._lock = threading.Lock()  # nobody writes to a pipe that is just being closed
        self._started = time.monotonic()
        self._stopped_by_user = False
        self._peers_ended = False

    @property
    def processes(self) -> tuple[ProcessRecord, ...]:
        """The supervisors, for the ledger."""
        return tuple(one.record for one in self._supervised)

    def wait(self, timeout: float | None = None) -> JobResult | None:
        """Wait until nothing of the job lives; None when `timeout` (seconds) passed first. Call it again then.

        While it waits, the failure of one host ends the others. One thread waits; another may call `stop`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        poll = select.poll()
        running: dict[int, _Supervised] = {}
        for one in self._supervised:
            if one.result is None:
                running[one.stdout] = one
                poll.register(one.stdout, select.POLLIN)
        while running:
            left = LONGEST_POLL_S if deadline is None else min(deadline - time.monotonic(), LONGEST_POLL_S)
            ready = poll.poll(max(0.0, left) * 1000)
            if not ready and deadline is not None and time.monotonic() >= deadline:
                return None
            for descriptor, _ in ready:  # the end of the supervisor's stdout: it, and all it guarded, is gone
                one = running[descriptor]
                one.process.wait()
                result = _read_result(one, self._job)
                if not result.succeeded and len(running) > 1 and not self._peers_ended:
                    self._peers_ended = True
                    self._send_stop(min(self._job.grace_s, PEER_GRACE_S))
                one.result = result
                poll.unregister(descriptor)
                del running[descriptor]
        with self._lock:
            for one in self._supervised:
                _close(one.process)
            if self._port is not None:
                self._port.close()
        return self._result()

    def stop(self, grace_s: float | None = None) -> None:
        """Ask every host to end (SIGTERM, then SIGKILL after the grace); returns at once, `wait` gives the result."""
        self._stopped_by_user = True
        self._send_stop(self._job.grace_s if grace_s is None else grace_s)

    def _send_stop(self, grace_s: float) -> None:
        with self._lock:
            for one in self._supervised:
                if one.result is None and one.process.stdin is not None and not one.process.stdin.closed:
                    try:
                        os.write(one.process.stdin.fileno(), b"stop %f\n" % grace_s)
                    except BrokenPipeError:
                        continue  # it has just ended by itself

    def _result(self) -> JobResult:
        results = [one.result for one in self._supervised if one.result is not None]
        failed = [one for one in self._supervised if one.result is not None and not one.result.succeeded]
        # A host that was stopped because another one failed is not the cause.
        failed.sort(key=lambda one: (one.result is not None and one.result.stopped, one.command_ended_at))
        first = failed[0].result if failed else None
        stopped = first is not None and first.stopped and self._stopped_by_user
        several = len(self._supervised) > 1
        reason = first.failure_reason if first is not None else None
        return JobResult(
            exit_code=0 if first is None else first.exit_code,
            signal=None if first is None else first.signal,
            timed_out=first is not None and first.timed_out,
            stopped=stopped,
            failed_host=first.host if first is not None and not stopped and not first.timed_out else None,
            failure_reason=f"host {first.host}: {reason}" if first is not None and reason and several else reason,
            cpu_s=sum(result.cpu_s for result in results),
            wall_s=time.monotonic() - self._started,
            hosts=tuple(results),
        )


def start(job: Job, *, record: Callable[[Sequence[ProcessRecord]], None] | None = None) -> RunningJob:
    """Start every host of a job.

    `record` is called with the supervisors before they start anything: what it writes is on disk before the program
    can do something, so that a runner killed at any instant leaves no process that its ledger does not know.

    Raises:
        UserError: a mode that this machine does not allow; in rewrite mode, a script with a literal /opt/ml.
    """
    isolation = mounts.resolve(job.mode)
    if isolation == "none":
        for host in job.hosts:
            mounts.refuse_literals(job.command, job.environment, job.code, host.root)
            mounts.rewrite_configuration(host.root)
    job.log_folder.mkdir(parents=True, exist_ok=True)
    port = reserve_port(job.hosts[0].name) if len(job.hosts) > 1 and PORT_VARIABLE not in job.environment else None
    supervised: list[_Supervised] = []
    try:
        for host in job.hosts:
            supervised.append(_supervise(host, job))
        if record is not None:
            record([one.record for one in supervised])
        for one in supervised:
            spec = _specification(one, job, isolation, port)
            assert one.process.stdin is not None
            one.process.stdin.write(json.dumps(spec).encode() + b"\n")
            one.process.stdin.flush()
    except BaseException:
        for one in supervised:  # without its line, or at the end of stdin, a supervisor ends by itself
            _close(one.process)
            one.process.wait()
        if port is not None:
            port.close()
        raise
    return RunningJob(job, supervised, port)


def reserve_port(address: str) -> socket.socket:
    """A free TCP port, held by a bound socket that does not listen; `getsockname()[1]` names it.

    With SO_REUSEADDR on both sides Linux lets the job's own server bind and listen beside it, while the kernel gives
    the port to nobody who asks for any free one. So two jobs never get the same port, at the only price that a
    program which insists on this very number can take it.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((address, 0))
    return held


def container_environment(
    job: Job, host: Host, *, token: str, temporary: str, rewritten: bool, port: int | None
) -> dict[str, str]:
    """Everything the command's environment holds."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    environment = {**DEFAULTS, **inherited, "PATH": mounts.search_path(), "TMPDIR": temporary, **job.environment}
    if port is not None:
        environment[PORT_VARIABLE] = str(port)
    if rewritten:
        environment[mounts.BASE_VARIABLE] = str(host.root)
        environment = {name: mounts.rewrite(value, host.root) for name, value in environment.items()}
    return {**environment, TOKEN_VARIABLE: token}


def _supervise(host: Host, job: Job) -> _Supervised:
    host.root.mkdir(parents=True, exist_ok=True)
    for name in FAILURE_FILES:  # of an earlier attempt
        (host.root / name).unlink(missing_ok=True)
    record_file = job.log_folder / f"{host.name}.json"
    record_file.unlink(missing_ok=True)
    log = job.log_folder / f"{host.name}.log"
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(mounts.SUPERVISOR)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            cwd="/",
            env={},
            start_new_session=True,  # Ctrl-C reaches the runner, which decides
        )
        return _Supervised(
            host=host,
            process=process,
            record_file=record_file,
            log=log,
            log_start=file.tell(),
            record=record_of(process.pid, secrets.token_hex(8)),
        )


def _specification(
    one: _Supervised, job: Job, isolation: mounts.Isolation, port: socket.socket | None
) -> dict[str, Any]:
    root, rewritten = one.host.root.resolve(), isolation == "none"
    host = Host(one.host.name, root)
    temporary = temporary_folder(one.record.token)
    environment = container_environment(
        job,
        host,
        token=one.record.token,
        temporary=temporary,
        rewritten=rewritten,
        port=None if port is None else port.getsockname()[1],
    )
    words = [mounts.rewrite(word, root) if rewritten else word for word in (*job.command, job.working_folder)]
    return {
        "command": words[:-1],
        "working_folder": words[-1],
        "environment": environment,
        "record": str(one.record_file.resolve()),
        "time_limit_s": job.time_limit_s,
        "grace_s": job.grace_s,
        "mounts": None if rewritten else str(root),
        "pid_namespace": isolation == "pid",
        "temporary": temporary,
    }


def _read_result(one: _Supervised, job: Job) -> HostResult:
    try:
        told: dict[str, Any] = json.loads(one.record_file.read_text(encoding="utf-8"))
    except FileNotFoundError:  # it was killed, or could not write (its log says why)
        shutil.rmtree(temporary_folder(one.record.token), ignore_errors=True)
        now = time.time()
        error = "its supervisor was killed or could not write its record"
        told = {"error": error, "started_at": now, "ended_at": now}
    exit_code, signal = told.get("exit_code"), told.get("signal")
    timed_out, stopped = bool(told.get("timed_out")), bool(told.get("stopped"))
    reason: str | None = None
    if timed_out:
        reason = f"exceeded its time limit of {job.time_limit_s:g} s"
    elif stopped:
        reason = "stopped"
    elif told.get("error"):
        reason = str(told["error"])
    elif exit_code != 0:
        reason = failure_reason(one.host.root, one.log, one.log_start, exit_code, signal)
    one.command_ended_at = told.get("command_ended_at") or told["ended_at"]
    return HostResult(
        host=one.host.name,
        exit_code=exit_code,
        signal=signal,
        timed_out=timed_out,
        stopped=stopped,
        failure_reason=reason,
        cpu_s=float(told.get("user_s", 0.0)) + float(told.get("system_s", 0.0)),
        max_rss_bytes=int(told.get("max_rss_bytes", 0)),
        started_at=told["started_at"],
        ended_at=told["ended_at"],
    )


def failure_reason(root: Path, log: Path, log_start: int, exit_code: int | None, signal: int | None) -> str:
    """What the program wrote for its platform, else how it ended and the last lines of its log."""
    for name in FAILURE_FILES:
        if (root / name).is_file():
            with (root / name).open("rb") as file:
                if text := file.read(4 * FAILURE_CHARACTERS).decode("utf-8", "replace").strip():
                    return text[:FAILURE_CHARACTERS]
    how = f"ended by signal {signal}" if signal is not None else f"exit code {exit_code}"
    if signal == 9:
        how += " (SIGKILL: often the kernel, out of memory)"
    with log.open("rb") as file:
        file.seek(max(log_start, log.stat().st_size - 16 * FAILURE_CHARACTERS))
        lines = file.read().decode("utf-8", "replace").rstrip().splitlines()[-LOG_TAIL_LINES:]
    return "\n".join([how, *lines])


def _close(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except BrokenPipeError:
                continue
