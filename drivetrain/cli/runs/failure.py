"""The output for a failed step: the end of its log, with the user's own frames and exception last."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import drivetrain
from drivetrain.base.formatting import printable
from drivetrain.run_store.reasons import failing_rank, hangs, is_bad_input, known_paths, without_host
from drivetrain.targets.sagemaker.run.execution import for_run
from drivetrain.targets.sagemaker.run.options import masking_of
from drivetrain.telling.content.logs import tail
from drivetrain.telling.terminal import paint, shown_path

if TYPE_CHECKING:
    from drivetrain.run_store.home import Home
    from drivetrain.run_store.model import StepRun

MAX_LINES = 15

# torch writes `[rank0]: ` before each line of a rank's traceback.
_RANK = re.compile(r"^\[rank\d+\]: ?")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*\x07")
_HEADER = "Traceback (most recent call last):"
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line \d+')
# In a container the user's folder lies in the unpacked code archive, beside our package.
_SOURCE = re.compile(r'(?<=^  File ")[^"]*/code/source/(?=[^"]+")')
_OUR_COPY = "/code/drivetrain/"
_LIBRARIES = ("site-packages", "dist-packages", "<frozen ", "importlib/_bootstrap", _OUR_COPY)
_STDLIB = sysconfig.get_path("stdlib")
_OURS = f"{Path(drivetrain.__file__).parent}/"


def failure_block(home: Home, execution: str, step: StepRun) -> str:
    """A step's failure: a header with the place of its log, the failing rank where one is known, then at most 15 lines
    that end in the exception."""
    tries = f" after {step.attempts} attempts" if step.attempts > 1 else ""
    header = paint(f"✗ {printable(step.title)} failed{tries}", "Failed")
    if is_bad_input(step.reason):
        return f"{header}\n{_printable(known_paths(without_host(step.reason or '')).splitlines())}"
    log, lines = end_of_log(home.logs(execution, step.name, max(step.attempts, 1)), step.reason)
    where = f"  (log: {shown_path(log)})" if log is not None else ""
    without = masking_of(home.run(execution)).message
    return f"{header}{where}\n{for_run(_printable(map(without, lines)), execution)}"


def _printable(lines: Iterable[str]) -> str:
    """Lines of a log as a terminal may show them."""
    return "\n".join(printable(line) for line in lines)


def end_of_log(log_folder: Path, reason: str | None) -> tuple[Path | None, list[str]]:
    """The log that tells what went wrong, and at most MAX_LINES of it.

    Among several hosts' logs the log with the reason's last line is taken. Without a log there is only the reason. If
    the reason names a rank, its line comes first, in addition to MAX_LINES: another rank's traceback may be in the log.
    The user's files have their names in the user's folder, not in the container.
    """
    logs = sorted(log_folder.glob("*.log"))
    texts = {path: tail(path) for path in logs}
    wanted = (reason or "").strip().splitlines()[-1:] or [""]
    logs.sort(key=lambda path: not (wanted[0] and wanted[0] in texts[path]))
    log = logs[0] if logs else None
    text = texts[log] if log else ""
    if not text.strip():
        text = without_host(reason or "")
    rank = failing_rank(reason)
    lines = telling_lines(text) if rank is None else [rank, *_lines_of_rank(text, rank)]
    return log, [_known(line) for line in lines]


def _known(line: str) -> str:
    """A line with the paths that the user knows; lines of code stay what they are."""
    if _FRAME.match(line):
        return _SOURCE.sub("", line)
    return line if line.startswith("    ") else known_paths(line)


def _lines_of_rank(text: str, rank_line: str) -> list[str]:
    """The launcher's lines below the line that names the rank, else the log's last lines, without that line."""
    _, said, account = text.rpartition(rank_line)
    if said and hangs(rank_line):
        return _where_it_hangs(account)
    if said and _HEADER in account:
        return telling_lines(account)
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and line.strip() != rank_line]
    return [_ESCAPES.sub("", line) for line in lines[-MAX_LINES:]]


def _where_it_hangs(account: str) -> list[str]:
    """The stack of a process that hangs, innermost frame first: the user's frames, or without any the libraries'."""
    lines = [line.rstrip() for line in account.splitlines() if line.strip()]
    frames = [line for line in lines if _FRAME.match(line)]
    shown = [line for line in frames if _is_own(line)] or [line for line in frames if _OUR_COPY not in line] or frames
    return [line for line in lines if not _FRAME.match(line) or line in shown][:MAX_LINES]


def telling_lines(text: str) -> list[str]:
    """At most MAX_LINES: the last traceback that goes through a user's file, without the libraries' frames; else the
    last lines of the text."""
    lines = [_RANK.sub("", _ESCAPES.sub("", line)).rstrip() for line in text.splitlines()]
    tracebacks = [found for start, line in enumerate(lines) if line.strip() == _HEADER for found in [lines[start:]]]
    for lines_from in reversed(tracebacks):
        frames, exception = split_traceback(lines_from)
        own = [frame for frame in frames if _is_own(frame[0])]
        if own:
            return _fitting(own, exception)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines[-MAX_LINES:]


def split_traceback(lines: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """The frames of the traceback that `lines` begin with (each its `File` line and the code below it), and the
    lines of its exception."""
    frames: list[list[str]] = []
    place = 1
    while place < len(lines) and lines[place].startswith("  "):
        if _FRAME.match(lines[place]):
            frames.append([lines[place]])
        elif frames:
            frames[-1].append(lines[place])
        place += 1
    exception: list[str] = []
    while place < len(lines) and (lines[place].strip() or not exception):
        # A message may have several lines; an empty one, or the next thing logged, ends it.
        if exception and (lines[place].strip() == _HEADER or lines[place].startswith("During handling")):
            break
        if lines[place].strip():
            exception.append(lines[place])
        place += 1
    return frames, exception


def _is_own(frame_line: str) -> bool:
    """Return True if a frame lies in a file of the user's: not an installed package's, not Python's, not ours."""
    match = _FRAME.match(frame_line)
    if match is None:
        return False
    file = match["file"]
    return not file.startswith((_OURS, _STDLIB)) and not any(part in file for part in _LIBRARIES)


def _fitting(frames: Sequence[Sequence[str]], exception: Sequence[str]) -> list[str]:
    """The innermost frames and the exception, in MAX_LINES with the header."""
    message = list(exception[: MAX_LINES - 4])
    room = MAX_LINES - 1 - len(message)
    kept: list[str] = []
    for frame in reversed(frames):
        # Markers (^^^^) below the code are the first to go.
        lines = [line for line in frame if not set(line.strip()) <= set("^~")]
        if len(kept) + len(lines) > room:
            break
        kept = [*lines, *kept]
    return [_HEADER, *kept, *message]
