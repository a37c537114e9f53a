"""Where a candidate's line stands: what is told of it, without the numbers of its rows (lines.py has those)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Night:
    """One comparison of a line. `mean` and `least` are those of the line by then, where it was a look: its mean gain,
    and the smallest one that is not ruled out."""

    candidate: str
    run: str
    at: float
    test_set: str
    gain: float
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
    """Of the test set: the same each night, or new ones; unknown on the first night."""
    margin: float = 0.0
    nights: tuple[Night, ...] = ()
    next_look: int | None = None
    frees: float | None = None

    @property
    def is_better(self) -> bool:
        """Whether the line's candidates are surely better than the champion, and tonight's is no worse."""
        if not self.nights or self.nights[-1].least is None:
            return False
        return self.nights[-1].least > self.margin and self.nights[-1].gain >= 0
