"""How statuses, times and numbers are written for people, the same in the terminal and on the page."""

from __future__ import annotations

import math
import re
import time
import unicodedata
from functools import lru_cache

# How the last part of a step's value begins that says which health rule its model failed: `unhealthy: RULE at step 9:
# what it saw. what to do`. A processing step prints it as a warning.
UNHEALTHY = "unhealthy: "

_STATUS_WORDS = {
    "Succeeded": "succeeded",
    "Cached": "cached",
    "Executing": "running",
    "Retrying": "retrying",
    "Waiting": "waiting",
    "Failed": "failed",
    "Stopped": "stopped",
    "Stopping": "stopping",
    "Interrupted": "interrupted",
    "NotExecuted": "not run",
    "CompletedWithFailures": "completed with failures",
    "Unhealthy": "unhealthy",
}

_HASH = re.compile(r"(?<![0-9a-zA-Z])[0-9a-f]{16,}(?![0-9a-zA-Z])")
# Of a status, before its word.
SIGNS = {
    "Succeeded": "✓",
    "Cached": "↺",
    "Executing": "●",
    "Retrying": "↻",
    "Waiting": "·",
    "Failed": "✗",
    "Stopped": "■",
    "Interrupted": "‖",
    "NotExecuted": "–",
    "Unhealthy": "!",
}


def status_word(status: str | None) -> str:
    """`NotExecuted` -> `not run`; a status that we do not know is shown as it is."""
    return "" if status is None else _STATUS_WORDS.get(status, status)


def status_class(status: str | None) -> str:
    """The style class of a status."""
    return f"is-{status.lower()}" if status in _STATUS_WORDS else "is-plain"


def approval_words(status: str) -> str:
    """`PendingManualApproval` -> `waiting for approval`."""
    return {"PendingManualApproval": "waiting for approval", "Approved": "approved", "Rejected": "rejected"}.get(
        status, status
    )


def duration(seconds: float | None) -> str:
    """`0.42 s`, `12.3 s`, `4 min 05 s`, `2 h 03 min`, `3 d 4 h`; a dash for None."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    seconds = max(seconds, 0.0)
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


@lru_cache(16_384, typed=True)  # a page draws the same numbers again and again
def number(value: float | int | bool) -> str:
    """Four significant digits, without an exponent where a person would write none: 0.9722, 2026, 12,345, 3.2e-07."""
    if isinstance(value, bool):
        return "true" if value else "false"
    grouped = "," if abs(value) >= 10_000 else ""  # 2026 may be a year
    if isinstance(value, int):
        return f"{value:{grouped}}" if abs(value) < 10**15 else f"{value:.4g}"
    if not math.isfinite(value):
        return str(value)
    if not value:
        return "0"
    if abs(value) >= 10_000:
        return f"{value:,.0f}" if abs(value) < 10**15 else f"{value:.4g}"
    if abs(value) < 1e-4:
        return f"{value:.3g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"


def number_or_dash(value: float | None) -> str:
    """A number; a dash where there is none."""
    return "–" if value is None else number(value)


def signed(value: float) -> str:
    """A difference, with its sign and three significant digits: +0.0083, -0.00214, 0."""
    if not value or not math.isfinite(value):
        return number(value)
    return f"{value:+.3g}" if 1e-5 <= abs(value) < 1000 else f"{'+' if value > 0 else ''}{number(value)}"


def share(value: float) -> str:
    """`91.2 %`; a dash where it is no number."""
    return f"{value * 100:.1f} %" if math.isfinite(value) else "–"


def moment(seconds: float | None) -> str:
    """A time of the epoch as `2026-11-20 21:43:05`, in the local zone; a dash for None."""
    return "–" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def moment_with_zone(seconds: float | None) -> str:
    """As `moment`, with the zone's offset: what leaves this machine must not depend on where it is read."""
    return "–" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(seconds))


def size(num_bytes: int) -> str:
    """`812 B`, `4.1 kB`, `3.0 MB`: powers of 1000."""
    value = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.5 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("unreachable")


def count(amount: int, noun: str, plural: str = "") -> str:
    """`1 step`, `3 steps`; `2 classes` where the plural is given."""
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"


def place(uri: str) -> str:
    """A place with its long hashes cut: `s3://bucket/data/e4fb9c98…/digits.csv.gz`."""
    return _HASH.sub(lambda found: found[0][:8] + "…", uri)


def printable(text: object) -> str:
    """One line that a terminal shows and does not obey: control and formatting characters are replaced."""
    return "".join(
        char if char.isprintable() or unicodedata.category(char)[0] == "M" else " " if char in "\t\n" else "\ufffd"
        for char in str(text)
    )


def cut(text: str, most: int) -> str:
    """A text of at most so many cells, with an ellipsis where some of it is missing."""
    if cells(text) <= most:
        return text
    kept = text
    while kept and cells(kept) > most - 1:
        kept = kept[:-1]
    return kept.rstrip() + "…"


def cells(text: str) -> int:
    """The columns of a terminal that `text` takes: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
