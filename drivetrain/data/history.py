"""The history of a data set: its accepted nights, each reduced to the statistics of profile.py, in one file.

    history.npz       arrays [nights, columns] by statistic, what was recorded of nights, the baseline's profile

Only accepted nights are in the arrays. Nights that were judged and not accepted, and answers to alarms, are records. Of
a column whose history was restarted the earlier nights have no values. NaN stands for no value.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.array_file import read_arrays, write_arrays
from drivetrain.data.arrow import numpy
from drivetrain.data.profile import STATISTICS, Night, Profile
from drivetrain.data.version_folder import locked

MAX_NIGHTS = 400
MAX_RECORDS = 1000
_KIND, _FORMAT = "history", 1
_ADVICE = "Put back a copy of it, or begin a new history."
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
    """STATISTICS by name: float64 [nights, columns] (kept in float32, but for counts and numbers)."""
    baseline: Profile | None = None
    records: tuple[Mapping[str, Any], ...] = ()
    """The latest MAX_RECORDS answers and refused nights, the oldest first; JSON objects with `what` and `day`."""
    accepted: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The last accepted night: `content_hash`, `day`, and `sets`, the folder of each side's version."""

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

    def append(self, night: Night, sets: Mapping[str, str], *, at_most: int = MAX_NIGHTS) -> History:
        """With an accepted night, in place of the last one if that has the same content; the oldest ones are dropped.

        Args:
            night: the night.
            sets: side -> the folder of its version, from which the next increment goes on.
            at_most: nights that are kept.
        """
        np = numpy()
        again = self.content_hashes[-1:] == (night.content_hash,)
        kept = slice(max(0, len(self) + 1 - again - at_most), len(self) - again)
        columns = tuple(dict.fromkeys((*self.columns, *night.columns)))
        tonight = History(
            columns=night.columns, days=(night.day,), values={k: v[None] for k, v in night.values.items()}
        )
        before, new = self.aligned(columns), tonight.aligned(columns)
        values = {name: np.concatenate([before[name][kept], new[name]]) for name in STATISTICS}
        there = np.any([~np.isnan(each).all(axis=0) for each in values.values()], axis=0)
        there |= np.isin(columns, night.columns)
        return replace(
            self,
            days=(*self.days[kept], night.day),
            rows=(*self.rows[kept], night.rows),
            content_hashes=(*self.content_hashes[kept], night.content_hash),
            columns=tuple(name for name, is_there in zip(columns, there.tolist(), strict=True) if is_there),
            values={name: each[:, there] for name, each in values.items()},
            accepted={"content_hash": night.content_hash, "day": night.day.isoformat(), "sets": dict(sets)},
        )

    def recorded(self, what: str, day: datetime.date, **facts: Any) -> History:
        """With a record, such as of a night that was not accepted: `content_hash`, `verdict`."""
        record = {"what": what, "day": day.isoformat(), **facts}
        return replace(self, records=(*self.records, record)[-MAX_RECORDS:])

    def restarted(self, columns: Iterable[str], *, who: str, why: str, day: datetime.date) -> History:
        """With nothing of some columns' earlier nights: an answer to alarms that says "this is the new normal".

        Raises:
            InputError: the history has no such column.
        """
        np, names = numpy(), list(columns)
        if unknown := [name for name in names if name not in self.columns]:
            raise InputError(
                f"the history has no column {unknown[0]!r}. It has: {', '.join(filter(None, self.columns[:20]))}."
            )
        chosen = np.isin(self.columns, names)
        values = {name: np.where(chosen, np.nan, each) for name, each in self.values.items()}
        return replace(self, values=values).recorded("accepted", day, columns=names, who=who, why=why)

    def write(self, path: Path) -> None:
        """Write the file in one move; the same history gives the same bytes."""
        np = numpy()
        facts: dict[str, Any] = {
            **{"kind": _KIND, "format": _FORMAT, "days": [day.isoformat() for day in self.days], "rows": self.rows},
            **{"content_hashes": self.content_hashes, "columns": self.columns},
            **{"records": self.records, "accepted": self.accepted},
        }
        arrays = {
            f"nights.{name}": each.astype("<f8" if STATISTICS[name].kind in _WIDE else "<f4")
            for name, each in self.values.items()
            if not np.isnan(each).all()
        }
        if self.baseline:
            facts["baseline"], more = self.baseline.packed()
            arrays |= {f"baseline.{name}": each for name, each in more.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(path, facts, arrays)

    @classmethod
    def read(cls, path: Path) -> History:
        """
        Raises:
            InputError: the file is missing, damaged, or of another format.
        """
        facts, arrays = read_arrays(path, _KIND, _FORMAT, _ADVICE)
        by_part: dict[str, dict[str, Any]] = {"nights": {}, "baseline": {}}
        problem, baseline = f"{path} is damaged", facts.get("baseline")
        try:
            for name, values in arrays.items():
                part, _, inner = name.partition(".")
                by_part[part][inner] = values
            shape = (len(facts["days"]), len(facts["columns"]))
            nights = {name: by_part["nights"].get(name, numpy().full(shape, numpy().nan)) for name in STATISTICS}
            if any(values.shape != shape for values in nights.values()):
                raise ValueError("an array has another shape")
            return cls(
                days=tuple(map(datetime.date.fromisoformat, facts["days"])),
                **{name: tuple(facts[name]) for name in ("rows", "content_hashes", "columns", "records")},
                values={name: values.astype("float64") for name, values in nights.items()},
                baseline=Profile.unpacked(baseline, by_part["baseline"], problem, _ADVICE) if baseline else None,
                accepted=facts["accepted"],
            )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{problem} ({error}). {_ADVICE}") from None


def change(path: Path, edit: Callable[[History], History]) -> History:
    """Replace a history by what `edit` makes of it, or of an empty one where there is no file.

    Raises:
        InputError: another run changes it now, or the file is damaged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = locked(path.parent)
    try:
        found = edit(History.read(path) if path.exists() else History())
        found.write(path)
        return found
    finally:
        os.close(descriptor)
