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
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from drivetrain.base.errors import BAD_INPUT, FAILED, RETRY, InputError
from drivetrain.base.masking import without_secrets
from drivetrain.base.stopping import AwayError
from drivetrain.training.errors import LostRanksError, StoppedError
from drivetrain.training.launch.processes import collectives, tensorflow_errors

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
_USAGE = 2  # with which argparse ends a program
# Where the reason of a failed step goes; the platform shows at most this many characters of it.
FAILURE_FILE = "DRIVETRAIN_FAILURE_FILE"
FAILURE_FILE_LIMIT = 1024

MAX_TRACEBACK_LINES, MAX_EXCEPTION_LINES = 15, 8
# Of what a script wrote to stderr before it ended itself.
MAX_LAST_LINES = 8
_LOST_PEER = re.compile(
    r"gloo|NCCL|[Cc]onnection (was )?(closed|reset|refused)|[Bb]roken pipe|process group|TCPStore|Timed out waiting"
    r"|monitoredBarrier"
)
_TAKEN = re.compile(r"EADDRINUSE|[Aa]ddress already in use")
# As Python's asyncio, torch and we ourselves name it.
_PORT = re.compile(r"(?:\bport:? |', )(\d+)")
_CHANNEL = "SM_CHANNEL_"
_DISTRIBUTED_ERRORS = (
    "LostRanksError",
    "DistError",
    "DistNetworkError",
    "DistBackendError",
    "DistStoreError",
    "DistQueueEmptyError",
)

Kind = Literal["input", "program", "mismatch", "away", "signal", "hang", "apart", "hosts", "peer", "stopped"]
# A cause comes before its consequences: a peer's loss is one, so is the SIGTERM by which torchrun ends the rest, and
# the abort of a rank to which another gives a tensor of another size.
_ORDER: tuple[Kind, ...] = (
    *("input", "program", "mismatch", "away"),
    *("signal", "hang", "apart", "hosts", "peer", "stopped"),
)
# The hosts of a job did not meet: torchrun's failure, and no rank's.
NO_RANK = -1


@dataclass(frozen=True)
class Failure:
    """One rank that failed. `details` is the traceback, or empty; `when` is in seconds since the epoch; `exit_code` is
    negative where a signal ended it; `host` is "" where it is this one; `name` is what else people call the rank, as
    `ps 0`."""

    rank: int
    kind: Kind
    summary: str
    details: str = ""
    when: float = float("inf")
    exit_code: int = FAILED
    host: str = ""
    name: str = ""

    @property
    def who(self) -> str:
        return f"{self.name} (rank {self.rank})" if self.name else f"rank {self.rank}"


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
        code = report_failure(error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def report_failure(error: Exception) -> int:
    """Write what a program raised where the launcher reads it, or to stderr where none does; returns the exit code.

    A rank that has lost its peers waits for what they have to say: it may be that one of them hangs.
    """
    kind, summary = _classified(error)
    if kind == "peer":
        collectives.write(error)
    code = {"input": BAD_INPUT, "stopped": RETRY, "away": RETRY}.get(kind, FAILED)
    details = "" if code != FAILED else _short_traceback(error)
    if not _write_error_file(kind, summary, details, code=code):
        print(details or (summary if code == RETRY else f"error: {summary}"), file=sys.stderr)
        return code
    # torch is asked only where the program has used it; the reason that is already written stays if we are ended here.
    if kind == "peer" and ("torch.distributed" in sys.modules or _hanging_ranks(error)):
        _report_why_lost(error, summary.splitlines()[0][:150], details)
    return code


def _report_why_lost(error: Exception, said: str, details: str) -> None:
    """Ask who is to blame for a lost peer, and report that instead."""
    from drivetrain.training.launch.processes import missing_peers
    from drivetrain.training.launch.processes.blame import Verdict

    missing = _hanging_ranks(error)
    known = Verdict("hang", tuple(missing), "it did not come to a collective") if missing else None
    verdict = known or missing_peers.why_lost(error)
    if verdict is None:
        return
    if not verdict.ranks:
        reason = f"{verdict.text}: they call different ones, or lost the network: {said}"
        _write_error_file("apart", reason, details)
        return
    first, *more = verdict.ranks
    others = f" (with it {missing_peers.named(more)})" if more else ""
    by = {"rank": first, "host": missing_peers.host_of(first)}
    if verdict.kind == "mismatch":
        _write_error_file("mismatch", verdict.text + others, "", **by)
        return
    reason = verdict.after_timeout() + others
    missing_peers.tell_launcher(verdict.ranks, reason)
    _write_error_file("hang", f"{reason}: {said}", "", **by)
    missing_peers.wait_for_launcher(verdict.ranks)


def report_exit(ending: SystemExit | None, last_words: str = "", *, code: int = FAILED) -> None:
    """Write that a program ended itself with another code than 0, and where; `last_words` are its last on stderr."""
    if ending is None:
        kind: Kind = "program" if code >= 0 else _kind_of_signal(-code)
        summary = _signal_summary(-code) if code < 0 else f"it ended with exit code {code}"
        _write_error_file(kind, summary, "", code=code)
        return
    given = ending.code
    lines = last_words.strip().splitlines()[-MAX_LAST_LINES:]
    summary = f"it ended with exit code {given}" if isinstance(given, int) else f"it ended itself: {given}"
    if lines and isinstance(given, int):
        summary += f", and said: {without_secrets(lines[-1].strip()):.300}"
    # What argparse says is whole; where it was called from helps nobody.
    usage = given == _USAGE and any(line.startswith("usage: ") for line in last_words.splitlines())
    details = "\n".join([*lines, *([] if usage else [_short_traceback(ending)])])
    _write_error_file("program", summary, details, code=given if isinstance(given, int) else FAILED)


def _classified(error: Exception) -> tuple[Kind, str]:
    if isinstance(error, InputError):
        return "input", str(error)
    if isinstance(error, StoppedError):
        return "stopped", str(error)
    if isinstance(error, AwayError):
        return "away", str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "input", f"no space left to write {error.filename or 'a file'} ({error.strerror}). Free some."
    kind: Kind = "peer" if is_lost_peer(error) else "program"
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE and _bound and not _PORT.search(str(error)):
        return kind, f"{type(error).__name__}: {error}: port {_bound[-1]}"
    if tensorflow_errors.is_tensorflow_error(error):
        return kind, tensorflow_errors.reason_of(error)
    return kind, f"{type(error).__name__}: {error}{_missing_channel(error)}"


_bound: deque[int] = deque(maxlen=1)  # the port that this process asked for last


def note_ports() -> None:
    """Remember which port a script asks for: the error that it is taken does not name it."""

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.bind" and isinstance(arguments[1], tuple) and len(arguments[1]) > 1:
            _bound.append(arguments[1][1])

    sys.addaudithook(note)


def _missing_channel(error: Exception) -> str:
    """Advice for a script that asks for a channel that the job has under another name, or not at all."""
    asked = error.args[0] if isinstance(error, KeyError) and error.args else None
    if not isinstance(asked, str) or not asked.startswith(_CHANNEL):
        return ""
    name = asked.removeprefix(_CHANNEL).lower()
    there = sorted(given for given in os.environ if given.startswith(_CHANNEL))
    held = f"The job has {', '.join(there)}" if there else "The job has no channel"
    nearest = "train" if not there or f"{_CHANNEL}TRAIN" in there else there[0].removeprefix(_CHANNEL).lower()
    example = json.dumps({nearest: name})
    return f". {held}. Give an input the name that the script has for it: channels={example}"


def _write_error_file(kind: Kind, summary: str, details: str, **more: Any) -> bool:
    """Write the file that torchelastic asks for; False if it asks for none, or the disk is full."""
    path, now = os.environ.get(ERROR_FILE), time.time()
    if not path:
        return False
    summary, details = without_secrets(summary), without_secrets(details)
    extra = {"py_callstack": details or summary, "timestamp": str(int(now))}
    record = {
        "message": {"message": summary, "extraInfo": extra},
        "drivetrain": {"kind": kind, "summary": summary, "details": details, "when": now, **_own_rank(), **more},
    }
    try:
        Path(path).write_text(json.dumps(record), encoding="utf-8")
    except OSError as error:
        print(f"cannot write {path}: {error.strerror}", file=sys.stderr)
        return False
    return True


def _own_rank() -> dict[str, int]:
    rank = os.environ.get("RANK", "")
    return {"rank": int(rank)} if rank.isdigit() else {}


def from_rank(rank: int, exit_code: int, record: Any) -> Failure:
    """The failure of a rank from its exit code (negative: the signal that ended it) and its error file's content."""
    ours = record.get("drivetrain") if isinstance(record, dict) else None
    if isinstance(ours, dict):
        return Failure(
            ours.get("rank", rank),
            ours["kind"],
            ours["summary"],
            ours["details"],
            float(ours["when"]),
            ours.get("code", exit_code),
            ours.get("host", ""),
        )
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
        return Failure(rank, _kind_of_signal(-exit_code), _signal_summary(-exit_code), exit_code=exit_code)
    return Failure(rank, "program", f"it ended with exit code {exit_code} and no report", exit_code=exit_code)


def root_cause(failures: Sequence[Failure]) -> Failure:
    """The failure that explains the others: by kind, then the earliest, then the first noticed."""
    return min(failures, key=lambda failure: (_ORDER.index(failure.kind), failure.when))


def exit_code(cause: Failure) -> int:
    """The launcher's exit code for a cause: FAILED, BAD_INPUT or RETRY."""
    if cause.kind == "input":
        return BAD_INPUT
    if cause.kind == "program" and cause.exit_code in (BAD_INPUT, RETRY):  # the program's own word
        return cause.exit_code
    killed = cause.kind == "signal" and -cause.exit_code == signal.SIGKILL
    return RETRY if killed or cause.kind in ("away", "hang", "apart", "hosts", "peer", "stopped") else FAILED


def describe(
    cause: Failure, failures: Sequence[Failure], *, world_size: int, host: str, is_simulated: bool = False
) -> str:
    """Describe a failure for people: the rank, its reason, the other ranks in a line, the user's frames last. The
    hosts of a job may be simulated on one machine."""
    if cause.kind == "input":
        return f"error: {cause.summary}"
    if cause.kind == "hosts":
        advice = " Give another DRIVETRAIN_PORT." if _TAKEN.search(cause.summary) else ""
        return f"{host} did not meet the other hosts of the job ({cause.summary}); it can be tried again.{advice}"
    if cause.kind == "away":
        return f"{cause.summary}. It can be tried again."
    if cause.kind == "stopped" and cause.exit_code == RETRY:  # by a signal to one of the ranks, and in order
        return f"{cause.summary}; it can be tried again."
    verb = {"hang": "hangs", "mismatch": "is out of step"}.get(cause.kind, "failed")
    summary = (cause.summary.splitlines() or [""])[0]
    who = f"{cause.name}, rank" if cause.name else "rank"
    lines = [f"{who} {cause.rank} of {world_size} on {cause.host or host} {verb}: {summary}"]
    taken = is_simulated and _TAKEN.search(f"{cause.summary}\n{cause.details}")
    if taken:
        port = _PORT.search(cause.summary)
        lines.append(
            f"The hosts of this job are simulated on one machine, so only one of them can listen on "
            f"{f'port {port[1]}' if port else 'a port'} of all addresses. Let the script listen on its own host's "
            "address (SM_CURRENT_HOST), or on MASTER_PORT of the first host; or run with one host."
        )
    # Ranks that waited in vain for the hanging rank have nothing to add.
    waited = ("stopped", "peer", "hang", "apart")
    consequences = {"hang": waited, "apart": waited, "mismatch": (*waited, "signal")}.get(cause.kind, ("stopped",))
    others = [failure for failure in failures if failure.kind not in (cause.kind, *consequences)]
    if others:
        lines.append("then " + "; ".join(f"{o.who}: {o.summary.splitlines()[0][:100]}" for o in others))
    if cause.kind == "peer" and not taken:
        lines.append("It lost another process; the reason is in that one's log. A retry resumes from a checkpoint.")
    elif cause.details:
        lines.append(cause.details)
    return "\n".join(lines)


def write_failure_file(text: str) -> None:
    """Write the reason where the platform looks for it, if it does; the head and the end are what matter."""
    path = os.environ.get(FAILURE_FILE)
    if not path:
        return
    text = without_secrets(text)
    if len(text) >= FAILURE_FILE_LIMIT:
        head, _, rest = text.partition("\n")
        head = head[: FAILURE_FILE_LIMIT // 2]
        text = f"{head}\n...{rest[-(FAILURE_FILE_LIMIT - len(head) - 6) :]}"
    try:
        Path(path).write_text(text + "\n", encoding="utf-8")
    except OSError as error:  # the reason is on stderr already
        print(f"cannot write {path}: {error.strerror}", file=sys.stderr)


def _kind_of_signal(number: int) -> Kind:
    return "stopped" if number == signal.SIGTERM else "signal"


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


def is_lost_peer(error: Exception) -> bool:
    """Return True if an error only says that another process is gone."""
    if any(type_.__name__ in _DISTRIBUTED_ERRORS for type_ in type(error).__mro__):
        return True
    if tensorflow_errors.is_lost_peer(error):
        return True
    return isinstance(error, RuntimeError) and bool(_LOST_PEER.search(str(error)))


def _hanging_ranks(error: Exception) -> list[int]:
    """Those that a group has waited for in vain, where it knows them. (Of rank 0, for which the others wait while it
    waits for another, a group over gloo does not.)"""
    return error.ranks if isinstance(error, LostRanksError) and error.timed_out and error.ranks != [0] else []


def _is_ours(filename: str) -> bool:
    """Frames that only lead to the user's program."""
    return filename in ("<frozen runpy>", __file__, str(Path(__file__).with_name("rank.py")))


def _short_traceback(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    last = traceback.format_exception_only(error)
    said = "".join(last).rstrip().splitlines()
    if len(said) > MAX_EXCEPTION_LINES:  # its first lines say what it is
        said = [*said[: MAX_EXCEPTION_LINES - 1], "  ..."]
    lines = "".join(traceback.format_list(frames)).splitlines()
    if len(lines) > (room := MAX_TRACEBACK_LINES - 1 - len(said)):
        lines = ["  ...", *lines[1 - room :]]
    return "\n".join(["Traceback (most recent call last):", *lines, *said])


def json_or_none(path: Path) -> Any:
    """A report's content; None where the process died before or while it wrote one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
