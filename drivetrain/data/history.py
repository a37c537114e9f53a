"""The history of a data set: its accepted nights, each reduced to the statistics of profile.py, in one file.

The registry keeps it with the other evidence of a group (registry/evidence.py). Only accepted nights are in the arrays.
Nights that were judged and not accepted, and answers to alarms, are records. A column whose history was restarted has
no values of the earlier nights. NaN stands for no value.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.array_file import packed_arrays, unpacked_arrays
from drivetrain.data.arrow import numpy
from drivetrain.data.profile import STATISTICS, Night

MAX_NIGHTS = 400
MAX_RECORDS = 1000
_KIND, _FORMAT = "history", 1
_ADVICE = "Put back a copy of it, or begin anew: drivetrain data alarms GROUP --forget."
# Kinds whose digits matter beyond those of a float32, such as the mean of an id.
_WIDE = ("number", "count")


@dataclass(frozen=True, kw_only=True, eq=False)
class History:
    """Accepted nights, the oldest first. Nothing changes it: each method gives another one."""

    days: tuple[datetime.date, ...] = ()
    rows: tuple[int, ...] = ()
    content_hashes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """STATISTICS by name: float64 [nights, columns] (kept in 24 significant bits, counts and numbers in 33)."""
    records: tuple[Mapping[str, Any], ...] = ()
    """The latest MAX_RECORDS answers and refused nights, the oldest first; JSON objects with `what` and `day`."""
    kinds: Mapping[str, str] = field(default_factory=dict[str, str])
    """Those of the columns when they were there last."""
    alarms: tuple[Mapping[str, Any], ...] = ()
    """Open ones, as JSON objects."""

    def __len__(self) -> int:
        return len(self.days)

    @property
    def weekdays(self) -> list[int]:
        """The weekday of each night, 0 for Monday."""
        return [day.weekday() for day in self.days]

    def aligned(self, columns: Iterable[str]) -> dict[str, Any]:
        """The nights with these columns in their order: by statistic, float64 [nights, columns]."""
        np = numpy()
        known = {name: place for place, name in enumerate(self.columns)}
        wanted = list(columns)
        here = [place for place, name in enumerate(wanted) if name in known]
        there = [known[wanted[place]] for place in here]
        found: dict[str, Any] = {}
        for name in STATISTICS:
            found[name] = np.full((len(self), len(wanted)), np.nan)
            if name in self.values:
                found[name][:, here] = self.values[name][:, there]
        return found

    def append(self, night: Night, *, at_most: int = MAX_NIGHTS) -> History:
        """With an accepted night, in the order of the days and in place of one of the same day; the oldest are dropped.

        Args:
            night: the night.
            at_most: nights that are kept.
        """
        np = numpy()
        others = [place for place, day in enumerate(self.days) if day != night.day]
        kept = others[max(0, len(others) + 1 - at_most) :]
        here = sum(self.days[place] < night.day for place in kept)
        columns = tuple(dict.fromkeys((*self.columns, *night.columns)))
        tonight = History(
            columns=night.columns, days=(night.day,), values={k: v[None] for k, v in night.values.items()}
        )
        before, new = self.aligned(columns), tonight.aligned(columns)
        values = {name: np.insert(before[name][kept], here, new[name][0], axis=0) for name in STATISTICS}
        there = np.any([~np.isnan(each).all(axis=0) for each in values.values()], axis=0)
        there |= np.isin(columns, night.columns)

        def inserted(before: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
            left = [before[place] for place in kept]
            return (*left[:here], value, *left[here:])

        return replace(
            self,
            days=inserted(self.days, night.day),
            rows=inserted(self.rows, night.rows),
            content_hashes=inserted(self.content_hashes, night.content_hash),
            kinds={**self.kinds, **night.kinds} if here == len(kept) else self.kinds,
            columns=tuple(name for name, is_there in zip(columns, there.tolist(), strict=True) if is_there),
            values={name: each[:, there] for name, each in values.items()},
        )

    def recorded(self, what: str, day: datetime.date, **facts: Any) -> History:
        """With a record, such as of a night that was not accepted: `content_hash`, `verdict`."""
        record = {"what": what, "day": day.isoformat(), **facts}
        return replace(self, records=(*self.records, record)[-MAX_RECORDS:])

    def restarted(self, columns: Iterable[str], day: datetime.date, **facts: Any) -> History:
        """With nothing of some columns' earlier nights: an answer to alarms that says "this is the new normal"."""
        np, names = numpy(), list(columns)
        chosen = np.isin(self.columns, names)
        values = {name: np.where(chosen, np.nan, each) for name, each in self.values.items()}
        kinds = {name: kind for name, kind in self.kinds.items() if name not in names}
        return replace(self, values=values, kinds=kinds).recorded("accepted", day, columns=names, **facts)

    def to_bytes(self) -> bytes:
        """The content of its file; the same history gives the same bytes."""
        np = numpy()
        facts: dict[str, Any] = {
            **{"kind": _KIND, "format": _FORMAT, "days": [day.isoformat() for day in self.days], "rows": self.rows},
            **{"content_hashes": self.content_hashes, "columns": self.columns},
            **{"records": self.records, "alarms": self.alarms, "kinds": self.kinds},
        }
        arrays = {
            name: _rounded(each) if STATISTICS[name].kind in _WIDE else each.astype("<f4")
            for name, each in self.values.items()
            if not np.isnan(each).all()
        }
        return packed_arrays(facts, arrays)

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> History:
        """
        Args:
            content: of its file; empty for a history without nights.
            name: of the file, for messages.

        Raises:
            InputError: it is damaged, or of another format.
        """
        if not content:
            return cls()
        facts, arrays = unpacked_arrays(content, name, _KIND, _FORMAT, _ADVICE)
        problem = f"{name} is damaged"
        try:
            shape = (len(facts["days"]), len(facts["columns"]))
            nights = {each: arrays.get(each, numpy().full(shape, numpy().nan)) for each in STATISTICS}
            if any(values.shape != shape for values in nights.values()):
                raise ValueError("an array has another shape")
            return cls(
                days=tuple(map(datetime.date.fromisoformat, facts["days"])),
                **{each: tuple(facts[each]) for each in ("rows", "content_hashes", "columns", "records", "alarms")},
                kinds=facts["kinds"],
                values={each: values.astype("float64") for each, values in nights.items()},
            )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{problem} ({error}). {_ADVICE}") from None


def _rounded(values: Any) -> Any:
    """The nearest float64 numbers of 33 significant bits: their zeros leave three quarters of a file."""
    np = numpy()
    bits = np.ascontiguousarray(values, "<f8").view("<i8")
    return (bits + (1 << 19) & -1 << 20).view("<f8")
