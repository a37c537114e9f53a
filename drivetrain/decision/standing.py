"""The standing of a candidate's line, without the numbers of its rows (lines.py has those)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from drivetrain.decision.formatting import count, percent, signed

_MOST_RUNS = 5


@dataclass(frozen=True, kw_only=True)
class Night:
    """One comparison of a line. `mean` and `least` are those of the line by then, where it was a look: its mean gain,
    and the smallest one that is not ruled out (None where the look can show nothing)."""

    candidate: str
    run: str
    at: float
    test_set: str
    gain: float
    """The candidate's own, on the whole test set."""
    pooled: float
    """Its part in its line: its gain on the rows that the line has not had."""
    bound: float = 0.0
    """How far the difference may lie beside the true one for the errors of both values."""
    mean: float | None = None
    least: float | None = None


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A line after a comparison. Without nights it was not entered: as many `lines` as are `allowed` were started
    within a year, and the next may start at `frees`."""

    level: float
    """The line's share of the error rate."""
    lines: int
    allowed: int
    line: int = 0
    rows: Literal["", "reused", "new"] = ""
    """The test set's rows: the same each night, or new ones; unknown on the first night."""
    margin: float = 0.0
    nights: tuple[Night, ...] = ()
    next_look: int | None = None
    frees: float | None = None
    gain: float = 0.0
    """Tonight's own difference, in the direction in which the metric is better."""
    idle: bool = False
    """True if the line had all of tonight's rows before: then tonight does not count as one of its nights."""

    @property
    def shown_at(self) -> int | None:
        """The first look at which the line's candidates were surely better than the champion."""
        for number, night in enumerate(self.nights, 1):
            if night.least is not None and night.least - night.bound > self.margin:
                return number
        return None

    @property
    def mean(self) -> float:
        """The mean gain of the line's candidates so far."""
        return total(night.pooled for night in self.nights) / max(len(self.nights), 1)

    @property
    def is_better(self) -> bool:
        """True if the line's candidates were shown to be better than the champion, are on average no worse by now, and
        tonight's is no worse."""
        return self.shown_at is not None and self.mean >= 0 and self.gain >= 0


def total(parts: Iterable[float]) -> float:
    """Their sum; 0 where they cancel but for rounding."""
    each = list(parts)
    found = math.fsum(each)
    return 0.0 if abs(found) <= 1e-12 * math.fsum(map(abs, each)) else found


def about_standing(standing: Standing) -> list[str]:
    """For people: what the line shows, and what of it is decided tonight."""
    every = f"{count(standing.allowed, 'line')} a year"
    if not standing.nights:
        frees = time.strftime("%Y-%m-%d", time.gmtime(standing.frees or 0.0))
        return [
            f"This candidate was not tested: {count(standing.lines, 'line')} of candidates were begun within a year, "
            f"and lines={standing.allowed} allows no more (a line is one pipeline, one champion and one test set). "
            f"The next one may begin on {frees}. Or allow more lines, each with a smaller share of the error rate, or "
            'compare with nights="bonferroni".'
        ]
    last, night = standing.nights[-1], len(standing.nights)
    rows = {"": "", "reused": " on the same test rows", "new": " on new test rows each night"}[standing.rows]
    after = f"the next one is at night {standing.next_look:,}" if standing.next_look else "it has no further one"
    shown = f"The line's candidates were shown to be better at night {standing.shown_at}"
    is_look = last.mean is not None and not standing.idle
    if standing.idle:
        told = f"Its line {standing.line} had all of these test rows before, so it is no further night of it"
    else:
        told = f"This is night {night:,} of line {standing.line}{rows}"
    if is_look and last.mean is not None:
        who = "the candidate gains" if night == 1 else f"its {night:,} candidates gain on average"
        few = f"so few {'nights were' if standing.rows == 'new' else 'rows differ'} that this look can show nothing"
        if last.least is not None:
            few = f"surely at least {signed(last.least - last.bound)} at this look"
        told += f": {who} {signed(last.mean)}, and {few} (error rate {percent(standing.level)} a line, {every})"
    reasons = [f"{told}."]
    if is_look and night > 1:
        runs = [one.run or f"model {one.candidate[:12]}" for one in standing.nights]
        pooled = f"{', '.join(runs[:_MOST_RUNS])}{', ...' if runs[_MOST_RUNS:] else ''}"
        reasons.append(f"What is shown holds for the line's candidates on average. Pooled were {pooled}.")
    if standing.shown_at is None:
        few = "" if is_look else "The line decides at few nights only. "
        reasons.append(f"{few}The champion stays; {after}.")
    elif standing.mean < 0:
        reasons.append(
            f"{shown}, but gain {signed(standing.mean)} on average by now, so none is registered until their mean gain "
            "is 0 or more."
        )
    elif standing.gain < 0:
        reasons.append(f"{shown}. Tonight's candidate itself is worse than the champion, so it is not registered.")
    else:
        reasons.append(f"{shown}; this one is no worse.")
    return reasons


def standing_record(standing: Standing | None) -> dict[str, Any] | None:
    """For decision.json."""
    if standing is None:
        return None
    said = {"shown_at": standing.shown_at, "mean": standing.mean, "is_better": standing.is_better}
    return {**asdict(standing), **said, "nights": [asdict(one) for one in standing.nights]}
