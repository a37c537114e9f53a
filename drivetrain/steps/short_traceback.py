"""Shorten a failed step's traceback for people: the last lines of the traceback, their own frames and the exception."""

from __future__ import annotations

import sysconfig
import traceback

from drivetrain.base.masking import without_secrets

MAX_TRACEBACK_LINES = 15
_MAX_EXCEPTION_LINES = 8
_MAX_CHARACTERS = 400
# Of the exception: a platform shows the last 1,024 of all, and its first line is to be among them.
_MAX_EXCEPTION_CHARACTERS = 900


def short_traceback(error: BaseException, *, without: str) -> str:
    """The exception with the user's own frames, in at most MAX_TRACEBACK_LINES lines.

    Frames of the file `without` do not count. Frames of libraries fill what room is left, the innermost first; where
    frames are left out stands `...`.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != without]
    # Masked before it is cut: the half of a secret has no shape any more.
    last = without_secrets("".join(traceback.format_exception_only(error))).rstrip().splitlines()
    last = [line if len(line) <= _MAX_CHARACTERS else line[: _MAX_CHARACTERS - 3] + "..." for line in last]
    kept = _MAX_EXCEPTION_LINES
    while len("\n".join(last[:kept])) > _MAX_EXCEPTION_CHARACTERS:
        kept -= 1
    if len(last) > kept:
        last = [*last[: max(1, kept - 1)], "..."]

    def shown(chosen: set[int]) -> list[str]:
        lines = ["Traceback (most recent call last):"]
        for index, frame in enumerate(frames):
            if index in chosen:
                lines.append(f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}')
                lines += [f"    {without_secrets(frame.line)}"] if frame.line else []
            elif lines[-1] != "  ...":
                lines.append("  ...")
        return [*lines, *last]

    own = [index for index, frame in enumerate(frames) if not _is_of_library(frame.filename)]
    others = [index for index in range(len(frames)) if index not in own]
    chosen: set[int] = set()
    for index in (*reversed(own), *reversed(others)):
        if len(shown(chosen | {index})) > MAX_TRACEBACK_LINES:
            break
        chosen.add(index)
    return "\n".join(shown(chosen))


def _is_of_library(filename: str) -> bool:
    paths = sysconfig.get_paths()
    return filename.startswith(("<frozen", *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))))
