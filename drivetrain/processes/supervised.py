"""One host of a job and its supervisor: what it is asked to run, starting it, how it ended, and masking its logs."""

from __future__ import annotations

import marshal
import os
import re
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from drivetrain.base.masking import SAID, LogMasking, Masking, without
from drivetrain.base.records import dataclass
from drivetrain.processes import (
    TOKEN_VARIABLE,
    ProcessRecord,
    end_survivors,
    mark_of,
    mounts,
    record_of,
    temporary_folder,
)
from drivetrain.processes.mounts import Mode
from drivetrain.steps import START_COMMAND


@dataclass(frozen=True)
class Host:
    """One host: `name` is its loopback address (127.0.0.1, 127.0.0.2, ...), `root` the folder that becomes /opt/ml.

    `environment` holds what differs from host to host (SM_CURRENT_HOST); it comes after the job's.
    """

    name: str
    root: Path
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class Job:
    """The job to start, the same on every host.

    `command` is the argument list (no shell) with paths as the container sees them (/opt/ml/...); `environment` the
    container's own variables, to which only PATH (this Python's folder first), HOME, the locale and what finds a GPU
    are added from the runner's (INHERITED), never its secrets. Logs go to `<log_folder>/<host name>.log`, stdout and
    stderr together, line by line as they are written, without the `secrets` and what has the shape of one. After
    `time_limit_s` the job is stopped like one that the user stops: SIGTERM to the command, `grace_s` later SIGTERM and
    then SIGKILL to all that is left. `working_folder` is where the command starts. `code` names the folders, as the
    container sees them, that hold the user's program; in `rewrite` mode they are searched for a literal /opt/ml (those
    that an argument of `command` leads to are searched anyway).
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
    secrets: tuple[str, ...] = ()


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
    """How the job ended; if several hosts failed, the first failure.

    `failure_reason` is what the program wrote to /opt/ml/output/failure (or output/message), else the end of its log;
    None when every host ended with 0. `stopped` says that `RunningJob.stop` was called, `timed_out` that the time
    limit ended it, `interrupted` that `RunningJob.interrupt` took its machines away before every host was done.
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
    interrupted: bool = False

    @property
    def succeeded(self) -> bool:
        return self.failed_host is None and not self.timed_out and not self.stopped and not self.interrupted


# All that a container sees of the runner's environment beyond PATH: where things are, never what is secret.
INHERITED = (
    "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH",
    "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
)  # fmt: skip
# As the stock images set it: a log shows lines when they are printed, and a traceback after what came before it.
# Threads that wait for each other soon sleep: this machine has other work to do, and spinning keeps the cores from it.
DEFAULTS = {"PYTHONUNBUFFERED": "1", "GOMP_SPINCOUNT": "10000"}
PORT_VARIABLE = "DRIVETRAIN_PORT"
# Where programs say why they failed; the service shows at most this many characters.
FAILURE_FILES = ("output/failure", "output/message")
FAILURE_CHARACTERS = 1024
TRACEBACK = "Traceback (most recent call last):"
LOG_TAIL_LINES = 14  # with the line above them 15
# Logs are masked in pieces of about this size.
_PIECE = 1 << 20
_LONGEST_LINE = 1 << 20
_LONGEST_KEY = 64 * 1024
# Variables that no interpreter and no library reads as it is loaded.
_OF_THE_PLATFORM = re.compile(r"(AWS|DRIVETRAIN|SM|SAGEMAKER|TRAINING|PROCESSING)_\w+")


class Spare:
    """A supervisor that waits for its job, with the interface of a `subprocess.Popen`."""

    def __init__(self, stdin: int, stdout: int) -> None:
        self.stdin, self.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb", buffering=0)
        self.pid = 0
        """Known once it is alive."""

    def is_alive(self) -> bool:
        """True if it waits; a fork that is just being made is waited for."""
        self.pid = self.pid or int(self.stdout.readline() or 0)
        poll = select.poll()
        poll.register(self.stdout, select.POLLIN)
        return bool(self.pid) and not poll.poll(0)

    def wait(self) -> None:
        """Wait for the end of its stdout, which it closes as it ends; the server collects it."""
        if not self.stdout.closed:
            self.stdout.read()

    def close(self) -> None:
        """Close the pipes; a supervisor without a job then ends."""
        self.stdin.close()
        self.stdout.close()


TakeSpare = Callable[[], Spare | None]
"""Gives a supervisor that was started ahead of the job, if there is one (spares.py)."""


@dataclass
class Supervised:
    """One host's supervisor, what tells us of its end, and where its log begins."""

    host: Host
    process: subprocess.Popen[bytes] | Spare
    ahead: bool
    """True if it was started ahead of its job."""
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


def supervise(host: Host, job: Job, take_spare: TakeSpare = lambda: None) -> Supervised:
    """Start a host's supervisor, or take one that was started ahead, where the command can go on in it."""
    host.root.mkdir(parents=True, exist_ok=True)
    for name in FAILURE_FILES:  # of an earlier attempt
        (host.root / name).unlink(missing_ok=True)
    record_file = job.log_folder / f"{host.name}.ended"
    record_file.unlink(missing_ok=True)
    log = job.log_folder / f"{host.name}.log"
    spare = take_spare() if can_go_on(job, host) else None
    with open(log, "ab", opener=_for_the_owner) as file:
        process = spare or subprocess.Popen(
            [sys.executable, "-I", "-S", str(mounts.SUPERVISOR)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            cwd="/",
            env={},
            start_new_session=True,  # Ctrl-C reaches the runner, which decides
        )
        return Supervised(
            host=host,
            process=process,
            ahead=spare is not None,
            record_file=record_file,
            log=log,
            log_start=file.tell(),
            record=record_of(process.pid, secrets.token_hex(8)),
        )


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def specification(one: Supervised, job: Job, isolation: mounts.Isolation, port: int | None) -> dict[str, Any]:
    root, rewritten = one.host.root.resolve(), isolation == "none"
    host = replace(one.host, root=root)
    temporary = temporary_folder(one.record.token)
    environment = container_environment(
        job,
        host,
        token=one.record.token,
        temporary=temporary,
        rewritten=rewritten,
        port=port,
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
        "mark": mark_of(one.record.token),
        "secrets": list(job.secrets),
        "log": str(one.log.resolve()) if one.ahead else None,
        "in_this_interpreter": one.ahead,
    }


def clean_environment(temporary: str) -> dict[str, str]:
    """The part of the runner's environment that programs of users and models see."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {**DEFAULTS, **inherited, "PATH": mounts.search_path(), "TMPDIR": temporary}


def can_go_on(job: Job, host: Host) -> bool:
    """Return True if the command of a host may go on in an interpreter that was started before it was known
    (become.py): it begins with our start file, and its variables tell no interpreter and no library what to do as it
    is loaded."""
    begins = job.command[: len(START_COMMAND)] == START_COMMAND
    return begins and all(_OF_THE_PLATFORM.fullmatch(name) for name in (*job.environment, *host.environment))


def container_environment(
    job: Job, host: Host, *, token: str, temporary: str, rewritten: bool, port: int | None
) -> dict[str, str]:
    """Everything the command's environment holds."""
    environment = {**clean_environment(temporary), **job.environment, **host.environment}
    if port is not None:
        environment[PORT_VARIABLE] = str(port)
    if rewritten:
        environment[mounts.BASE_VARIABLE] = str(host.root)
        environment = {name: mounts.rewrite(value, host.root) for name, value in environment.items()}
    return {**environment, TOKEN_VARIABLE: token}


def read_result(one: Supervised, job: Job) -> HostResult:
    try:
        told: dict[str, Any] = marshal.loads(one.record_file.read_bytes())  # our supervisor wrote it  # nosec B302
    except FileNotFoundError:  # it was killed, or could not write (its log says why)
        end_survivors([one.record])  # the kernel closes its files before it kills the rest of its namespace
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
        reason = failure_reason(one.host.root, one.log, one.log_start, exit_code, signal, job.secrets)
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


def failure_reason(
    root: Path, log: Path, log_start: int, exit_code: int | None, signal: int | None, hidden: Sequence[str] = ()
) -> str:
    """The reason that the program wrote for the platform, without `hidden` and what looks like a secret; otherwise how
    it ended and the last lines of its log."""
    for name in FAILURE_FILES:
        if (root / name).is_file():
            with (root / name).open("rb") as file:
                if text := file.read(64 * FAILURE_CHARACTERS).decode("utf-8", "replace").strip():
                    return without(text, hidden)[:FAILURE_CHARACTERS]  # masked before it is cut
    how = f"ended by signal {signal}" if signal is not None else f"exit code {exit_code}"
    if signal == 9:
        how += " (SIGKILL: often the kernel, out of memory)"
    with log.open("rb") as file:
        file.seek(max(log_start, log.stat().st_size - 16 * FAILURE_CHARACTERS))
        lines = file.read().decode("utf-8", "replace").rstrip().splitlines()
    if lines and lines[-1] == SAID.rstrip():
        lines.pop()
    return "\n".join([how, *_end_of(lines)])


def _end_of(lines: Sequence[str]) -> list[str]:
    """At most LOG_TAIL_LINES; of a traceback whose exception has more, the exception's first line, too."""
    ended = list(lines[-LOG_TAIL_LINES:])
    begun = next((place for place in reversed(range(len(lines))) if lines[place].strip() == TRACEBACK), len(lines))
    said = next((line for line in lines[begun + 1 : -LOG_TAIL_LINES] if line and not line.startswith(" ")), None)
    return ended if said is None else [said, "...", *ended[2:]]


def mask_logs(folder: Path, masking: Masking) -> None:
    """Rewrite every log below the folder that holds a secret."""
    mask_files(sorted(folder.rglob("*.log")), masking)


def mask_files(files: Iterable[Path], masking: Masking) -> None:
    """Rewrite every one of these files that holds a secret."""
    masked = LogMasking(masking.secrets)
    for log in files:
        if not any(masked(piece)[1] for piece in _pieces(log)):
            continue
        beside = log.with_name(f"{log.name}.part")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            file.writelines(masked(piece)[0] for piece in _pieces(log))
        beside.replace(log)


def _pieces(log: Path) -> Iterator[bytes]:
    """Whole lines, about 1 MiB at a time; a private key, which has many lines, is not divided. A longer line is cut
    between two words."""
    piece = bytearray()
    key = 0
    with open(log, "rb") as file:
        while line := file.readline(_LONGEST_LINE):
            piece += line
            key = len(piece) if b"-----BEGIN " in line else 0 if b"-----END " in line else key
            if len(piece) > _PIECE and (not key or len(piece) - key > _LONGEST_KEY):
                cut = len(piece) if line.endswith(b"\n") else _between_words(piece)
                yield bytes(piece[:cut])
                del piece[:cut]
                key = len(piece) if b"-----BEGIN " in piece else 0
    yield bytes(piece)


def _between_words(piece: bytearray) -> int:
    """A place near the end where no value is divided; the end if there is no such place."""
    return max(piece.rfind(mark, max(0, len(piece) - _LONGEST_KEY)) for mark in b" \t,;\"'&") + 1 or len(piece)
