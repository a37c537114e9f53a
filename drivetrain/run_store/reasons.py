"""The reason of a failed step, in the words and with the paths that the user knows: on a page as in the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from drivetrain.base.errors import ERROR

TRACEBACK = "Traceback (most recent call last)"

# Of a job on several hosts the runner says first which one failed.
_HOST = re.compile(r"^host \S+: (?=error: |rank \d+ of \d+ )")
_RANK = re.compile(r"^rank \d+ of \d+ on \S+ (?P<verb>failed|hangs|is out of step): .*")
# A path begins where no other goes on, so that each character is looked at once: a log may have lines of any length.
_IN_PATH = r"[^\s\"'()\[{<=:,;`|]"
_BEGIN = rf"(?<!{_IN_PATH})/{_IN_PATH}*"
# The same folders in a container and where nothing can be mounted (processes/mounts.py). Of what lies
# below /opt/ml the user named the channels, inputs and outputs alone.
_BASE = rf"(?:(?<![\w/.~+-])/opt/ml|{_BEGIN}/hosts/127(?:\.\d+){{3}})"
_CHANNEL = re.compile(rf"{_BASE}/(?:input/data|processing/(?:input|output))/(?=\w)")
# A training's own folder below the checkpoints is a name of hashes, which says nothing to anyone.
_TRAINING = r"/(?:checkpoints|trainings)(?:/[0-9a-f]{32,}(?:-[0-9a-f]+)*)?"
_CHECKPOINT = re.compile(rf"{_BASE}{_TRAINING}/(?=\w)(?![0-9a-f]{{32}})")
_CHECKPOINTS = re.compile(rf"{_BASE}{_TRAINING}/?(?![\w/])")
# Where drivetrain/steps/start.py unpacks the user's files (source/) and our own (drivetrain/).
_CODE = re.compile(rf"{_BEGIN}/drivetrain-code-[0-9a-f]+/code/(?:source/)?(?=\w)")


def without_host(reason: str) -> str:
    """A reason without the host before it, where the rest says who failed, or where it does not matter who did."""
    return _HOST.sub("", reason)


def is_bad_input(reason: str | None) -> bool:
    """Return True if a step's program refused its input: it says so in one message, and its log has nothing to add."""
    return without_host(reason or "").startswith(ERROR)


def failing_rank(reason: str | None) -> str | None:
    """The launcher's line that names the rank: `rank 1 of 2 on algo-1 failed: ValueError: bad`; None without one."""
    first = without_host((reason or "").strip()).partition("\n")[0].rstrip()
    return first if _RANK.match(first) else None


def hangs(rank_line: str) -> bool:
    """Return True if failing_rank's line says that the rank hangs."""
    match = _RANK.match(rank_line)
    return match is not None and match["verb"] == "hangs"


def in_a_line(reason: str) -> str:
    """The line that says what happened: the failing rank's line, else the line of a traceback that names the exception
    (its message may go on), else the last line."""
    rank = failing_rank(reason)
    if rank is not None:
        return known_paths(rank)
    lines = without_host(reason.strip()).splitlines() or [""]
    starts = [number for number, line in enumerate(lines) if line.startswith(TRACEBACK)]
    told = [line for line in lines[starts[-1] + 1 :] if line and not line.startswith(" ")] if starts else []
    return known_paths((told[0] if told else lines[-1]).strip())


def joined(parts: Iterable[str]) -> str:
    """Remarks in one line; after one that is a sentence stands a semicolon."""
    *before, last = [part for part in parts if part] or [""]
    return "".join(f"{part[:-1]}; " if part.endswith(".") else f"{part}, " for part in before) + last


def known_paths(text: str) -> str:
    """`train/part-00000.parquet` and `my_recipe.py`, where a program in its container names longer paths."""
    text = _CHECKPOINTS.sub("the training's checkpoints", _CHECKPOINT.sub("", text))
    return _CODE.sub("", _CHANNEL.sub("", text))


def loop_reason(failed: Sequence[tuple[str, str]]) -> str:
    """Why a ForEach failed, by the names of the steps that did, and their reasons; at least one."""
    said = [reason for _, reason in failed]
    # It failed by what it was given when all that failed did.
    bad_input = ERROR if all(reason.startswith(ERROR) for reason in said) else ""
    lines = [line for line in said[0].removeprefix(ERROR).splitlines() if line.strip()]
    # The exception is the last line of a program's own failure; the page has the rest beside the step.
    shown = (lines[0] if said[0].startswith(ERROR) else lines[-1]).strip() if lines else "failed"
    return f"{bad_input}{first_failure(failed[0][0], shown, len(failed))}"


def first_failure(step: str, reason: str, count: int) -> str:
    """The reason of a failure of `count` steps: the first step and its reason."""
    more = f" (and {count - 1} more failed)" if count > 1 else ""
    return f"{step}: {reason}{more}"
