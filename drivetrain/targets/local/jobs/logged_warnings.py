"""Warnings of a step, found in its log: lines that begin with `warning: `."""

from __future__ import annotations

from pathlib import Path

from drivetrain.base.errors import WARNING

# So many are told beside the step; the log has all of them, and all of each.
_MOST = 5
_MOST_CHARACTERS = 400


def logged_warnings(logs: Path) -> str | None:
    """The different warnings in the logs of all hosts, as one text; None where there are none."""
    found: dict[str, None] = {}
    for log in sorted(logs.glob("*.log")):
        with log.open("rb") as lines:
            for line in lines:
                if line.startswith(WARNING.encode()):
                    found[line.decode("utf-8", "replace").strip().removeprefix(WARNING)] = None
    if not found:
        return None
    told = [text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..." for text in found]
    more = [f"{len(told) - _MOST} more in the log"] if len(told) > _MOST else []
    return WARNING + "; ".join([*told[:_MOST], *more])
