"""How a failing rank says why, and which of several failing ranks was the cause.

A rank writes the error file that torchelastic names in TORCHELASTIC_ERROR_FILE, in torchelastic's format (a user's own
script may use torch's `@record`), with one more entry of ours that says what kind of failure it is. The launcher reads
them and tells the cause from its consequences: when one rank dies, the others fail too, with errors about a lost
connection that explain nothing.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from drivetrain.training_scripts.errors import InputError

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
# Where the reason of a failed step goes; the platform shows at most this many characters of it.
FAILURE_FILE = "DRIVETRAIN_FAILURE_FILE"
FAILURE_FILE_LIMIT = 1024

# What the launcher's exit code says. A retry helps after RETRY (EX_TEMPFAIL of sysexits.h); after FAILED and BAD_INPUT
# the same would happen again.
FAILED, BAD_INPUT, RETRY = 1, 2, 75

MAX_TRACEBACK_LINES = 15
_LOST_PEER = re.compile(
    r"gloo|NCCL|[Cc]onnection (was )?(closed|reset|refused)|[Bb]roken pipe|process group|TCPStore|Timed out waiting"
)
_DISTRIBUTED_ERRORS = ("DistError", "DistNetworkError", "DistBackendError", "DistStoreError", "DistQueueEmptyError")

Kind = Literal["input", "program", "signal", "hosts", "peer", "stopped"]
# A cause comes before its consequences: a peer's loss is one, and so is the SIGTERM by which torchrun ends the rest.
_ORDER: tuple[Kind, ...] = ("input", "program", "signal", "hosts", "peer", "stopped")
# The hosts of a job did not meet: torchrun's failure, and no rank's.
NO_RANK = -1


@dataclass(frozen=True)
class Failure:
    """One rank that failed. `details` is the traceback, or empty; `when` is in seconds since the epoch; `exit_code` is
    negative where a signal ended it."""

    rank: int
    kind: Kind
    summary: str
    details: str = ""
    when: float = float("inf")
    exit_code: int = FAILED


def run_rank(program: Callable[[], None]) -> NoReturn:
    """Run the program of a rank and end the process with an exit code; an exception becomes the error file first (or
    text, where no file is asked for).

    The interpreter is never taken down in order: gloo's threads release the tensors of the last collective a moment
    after it is done, and one that needs the interpreter while it shuts down aborts the process (seen once in about a
    hundred trainings). After a failure the destructors of a process group could wait for peers that are gone.
    """
    try:
        program()
        code = 0
    except Exception as error:
        kind, summary, details = _described(error)
        code = BAD_INPUT if kind == "input" else FAILED
        if not _write_error_file(kind, summary, details):
            print(details or f"error: {summary}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def record_failure(error: Exception | SystemExit) -> None:
    """Write the error file, where one is asked for, and leave the rest to the caller: a script of the user's own ends
    in its own way."""
    if isinstance(error, SystemExit):
        _write_error_file("program", str(error.code), "")
    else:
        _write_error_file(*_described(error))


def _described(error: Exception) -> tuple[Kind, str, str]:
    kind, summary = _classified(error)
    return kind, summary, "" if kind == "input" else _short_traceback(error)


def _classified(error: Exception) -> tuple[Kind, str]:
    if isinstance(error, InputError):
        return "input", str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "input", f"no space left to write {error.filename or 'a file'} ({error.strerror}). Free some."
    return "peer" if _is_lost_peer(error) else "program", f"{type(error).__name__}: {error}"


def _write_error_file(kind: Kind, summary: str, details: str) -> bool:
    """Write the file that torchelastic asks for; False where there is none to write, or no room for it."""
    path, now = os.environ.get(ERROR_FILE), time.time()
    if not path:
        return False
    extra = {"py_callstack": details or summary, "timestamp": str(int(now))}
    record = {
        "message": {"message": summary, "extraInfo": extra},
        "drivetrain": {"kind": kind, "summary": summary, "details": details, "when": now},
    }
    try:
        Path(path).write_text(json.dumps(record), encoding="utf-8")
    except OSError as error:
        print(f"cannot write {path}: {error.strerror}", file=sys.stderr)
        return False
    return True


def from_rank(rank: int, exit_code: int, record: Any) -> Failure:
    """The failure of a rank from its exit code (negative: the signal that ended it) and its error file's content."""
    ours = record.get("drivetrain") if isinstance(record, dict) else None
    if isinstance(ours, dict):
        return Failure(rank, ours["kind"], ours["summary"], ours["details"], float(ours["when"]), exit_code)
    message = record.get("message") if isinstance(record, dict) else None
    if isinstance(message, dict):  # a user's script with torch's @record
        extra = message.get("extraInfo", {})
        return Failure(
            rank,
            "program",
            str(message.get("message")),
            "\n".join(str(extra.get("py_callstack", "")).rstrip().splitlines()[-MAX_TRACEBACK_LINES:]),
            float(extra.get("timestamp", "inf")),
            exit_code,
        )
    if exit_code < 0:
        kind: Kind = "stopped" if exit_code == -signal.SIGTERM else "signal"
        return Failure(rank, kind, _signal_summary(-exit_code), exit_code=exit_code)
    return Failure(rank, "program", f"it ended with exit code {exit_code} and no report", exit_code=exit_code)


def root_cause(failures: Sequence[Failure]) -> Failure:
    """The failure that explains the others: by kind, then the earliest, then the one that was noticed first."""
    return min(failures, key=lambda failure: (_ORDER.index(failure.kind), failure.when))


def exit_code(cause: Failure) -> int:
    """What the launcher returns for a cause: FAILED, BAD_INPUT or RETRY."""
    if cause.kind == "input":
        return BAD_INPUT
    killed = cause.kind == "signal" and -cause.exit_code == signal.SIGKILL
    return RETRY if killed or cause.kind in ("hosts", "peer", "stopped") else FAILED


def describe(cause: Failure, failures: Sequence[Failure], *, world_size: int, host: str) -> str:
    """What people read: the rank, its reason, the other ranks in a line, the user's own frames last."""
    if cause.kind == "input":
        return f"error: {cause.summary}"
    if cause.kind == "hosts":
        return f"{host} did not meet the other hosts of the job ({cause.summary}); it can be tried again."
    lines = [f"rank {cause.rank} of {world_size} on {host} failed: {cause.summary.splitlines()[0]}"]
    others = [failure for failure in failures if failure.kind not in (cause.kind, "stopped")]
    if others:
        lines.append("then " + "; ".join(f"rank {o.rank}: {o.summary.splitlines()[0][:100]}" for o in others))
    if cause.kind == "peer":
        lines.append("It lost another process; the reason is in that one's log. A retry resumes from a checkpoint.")
    elif cause.details:
        lines.append(cause.details)
    return "\n".join(lines)


def write_failure_file(text: str) -> None:
    """Write the reason where the platform looks for it, if it does; the head and the end are what matter."""
    path = os.environ.get(FAILURE_FILE)
    if not path:
        return
    if len(text) >= FAILURE_FILE_LIMIT:
        head, _, rest = text.partition("\n")
        head = head[: FAILURE_FILE_LIMIT // 2]
        text = f"{head}\n...{rest[-(FAILURE_FILE_LIMIT - len(head) - 6) :]}"
    try:
        Path(path).write_text(text + "\n", encoding="utf-8")
    except OSError as error:  # the reason is on stderr already
        print(f"cannot write {path}: {error.strerror}", file=sys.stderr)


def _signal_summary(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    reasons = {
        signal.SIGKILL: " (often the kernel's out-of-memory killer, or the machine was taken back)",
        signal.SIGBUS: " (often a full /dev/shm)",
    }
    return f"it was ended by {name}{reasons.get(number, '')}"  # type: ignore[call-overload]


def _is_lost_peer(error: Exception) -> bool:
    if any(type_.__name__ in _DISTRIBUTED_ERRORS for type_ in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError) and bool(_LOST_PEER.search(str(error)))


def _short_traceback(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) != Path(__file__)]
    last = traceback.format_exception_only(error)
    text = "".join(["Traceback (most recent call last):\n", *traceback.format_list(frames), *last])
    lines = text.rstrip().splitlines()
    if len(lines) > MAX_TRACEBACK_LINES:
        lines = [lines[0], "  ...", *lines[2 - MAX_TRACEBACK_LINES :]]
    return "\n".join(lines)
