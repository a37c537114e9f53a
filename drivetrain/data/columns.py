"""Statistics of one column, gathered piece by piece, and merged with those of other rows of the column."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from drivetrain.data.arrow import Array, DataType, arrow, numpy
from drivetrain.data.shapes import is_number

# Days that stand for "always was" and "no end" in many data sets, and lie.
SENTINELS = ("1900-01-01", "9999-12-31")
# So many days of a column of times are counted, the latest ones; the rows of earlier days are counted together.
MAX_DAYS = 64
_DAY_S = 86_400
_PER_S = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
# Days that lie so close are counted in an array.
_CLOSE = 1 << 16


class Column:
    """Any column: the count of missing values."""

    def __init__(self) -> None:
        self.nulls = 0

    def add(self, column: Array) -> None:
        self.nulls += column.null_count

    def entries(self) -> dict[str, Any]:
        return {"nulls": self.nulls}

    def state(self) -> dict[str, Any]:
        return {"nulls": self.nulls}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.nulls = state["nulls"]

    def merge(self, later: Any) -> None:
        """Take in the statistics of other rows of the column."""
        self.nulls += later.nulls

    def measures(self) -> dict[str, float]:
        """The column's numbers in a profile, by their names there."""
        return {"nulls": self.nulls}


class Texts(Column):
    """Texts: how many are blank (empty, or of white space alone), and their lengths in characters."""

    def __init__(self) -> None:
        super().__init__()
        self.blanks = 0
        self.length = 0
        self.longest = 0

    def add(self, column: Array) -> None:
        super().add(column)
        if column.null_count == len(column):
            return
        pa = arrow()
        compute = pa.compute
        lengths = compute.binary_length(column)
        if not all(map(_is_ascii, column.chunks if isinstance(column, pa.ChunkedArray) else [column])):
            lengths = compute.utf8_length(column)  # which takes fifty times as long
        empty = compute.sum(compute.equal(lengths, 0)).as_py()
        self.blanks += empty + compute.sum(compute.utf8_is_space(column)).as_py()
        self.length += compute.sum(lengths).as_py()
        self.longest = max(self.longest, compute.max(lengths).as_py())

    def state(self) -> dict[str, Any]:
        return {**super().state(), "blanks": self.blanks, "length": self.length, "longest": self.longest}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.blanks, self.length, self.longest = state["blanks"], state["length"], state["longest"]

    def merge(self, later: Any) -> None:
        super().merge(later)
        self.blanks += later.blanks
        self.length += later.length
        self.longest = max(self.longest, later.longest)

    def measures(self) -> dict[str, float]:
        return {**super().measures(), "blanks": self.blanks, "length_sum": self.length, "length_max": self.longest}


class Times(Column):
    """Dates and time stamps; those with a time zone are shown in UTC."""

    def __init__(self, data_type: DataType) -> None:
        super().__init__()
        pa = arrow()
        aware = pa.types.is_timestamp(data_type) and data_type.tz is not None
        self._type = pa.timestamp(data_type.unit) if aware else data_type
        self._suffix = "Z" if aware else ""
        self._minimum: Any = None
        self._maximum: Any = None
        self._sentinel_days = {day: _first_and_next(day, self._type) for day in SENTINELS}
        self._sentinels: dict[str, int] | None = dict.fromkeys(SENTINELS, 0)
        # Units of the type a day; one of the clock has no time of day.
        self._a_day = _DAY_S * _PER_S[data_type.unit] if pa.types.is_timestamp(data_type) else 0
        self.days: dict[int, int] = {}
        """Rows by day, counted from 1970."""
        self.before = 0
        """Rows of days before all in `days`."""
        self._of_day = 0

    def add(self, column: Array) -> None:
        super().add(column)
        compute, column = arrow().compute, column.cast(self._type)
        minimum, maximum = compute.min_max(column).values()
        if minimum.is_valid:
            self._count_days(column)
            for day, ends in self._sentinel_days.items():
                if (
                    self._sentinels is not None
                    and ends
                    and minimum.value < ends[1].value
                    and maximum.value >= ends[0].value
                ):
                    of_day = compute.and_(compute.greater_equal(column, ends[0]), compute.less(column, ends[1]))
                    self._sentinels[day] += compute.sum(of_day).as_py() or 0
            if self._minimum is None or minimum.value < self._minimum.value:
                self._minimum = minimum
            if self._maximum is None or maximum.value > self._maximum.value:
                self._maximum = maximum

    def entries(self) -> dict[str, Any]:
        ends = {"min": self._text(self._minimum), "max": self._text(self._maximum)}
        found = {day: rows for day, rows in (self._sentinels or {}).items() if rows}
        return {**super().entries(), **ends, **({"sentinels": found} if found else {})}

    def state(self) -> dict[str, Any]:
        ends = [None if end is None else end.value for end in (self._minimum, self._maximum)]
        days = {"days": list(self.days.items()), "before": self.before, "of_day": self._of_day}
        return {**super().state(), "ends": ends, "sentinels": self._sentinels, **days}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        pa = arrow()
        number = pa.int32() if pa.types.is_date32(self._type) else pa.int64()
        ends = [None if end is None else pa.scalar(end, number).cast(self._type) for end in state["ends"]]
        self._minimum, self._maximum = ends
        self._sentinels = state.get("sentinels")  # (an earlier release did not count them)
        self.days, self.before, self._of_day = dict(state["days"]), state["before"], state["of_day"]

    def merge(self, later: Any) -> None:
        super().merge(later)
        for which, lesser in (("_minimum", True), ("_maximum", False)):
            mine, its = getattr(self, which), getattr(later, which)
            if mine is None or (its is not None and (its.value < mine.value) == lesser):
                setattr(self, which, its)
        if self._sentinels is not None and later._sentinels is not None:
            self._sentinels = {day: rows + later._sentinels[day] for day, rows in self._sentinels.items()}
        else:
            self._sentinels = None
        self._of_day += later._of_day
        self.before += later.before
        self._take_in(later.days)

    def measures(self) -> dict[str, float]:
        unit = self._a_day or (1 if arrow().types.is_date32(self._type) else _DAY_S * 1000)
        ends = {"oldest": self._minimum, "newest": self._maximum}
        found = {name: end.value / unit for name, end in ends.items() if end is not None}
        hours = {"hours_sum": self._of_day / self._a_day * 24} if self._a_day else {}
        return {**super().measures(), **found, **hours, "before": self.before}

    def _count_days(self, column: Array) -> None:
        pa, np = arrow(), numpy()
        is_date32 = pa.types.is_date32(self._type)
        units = (column.drop_null() if column.null_count else column).cast(pa.int32() if is_date32 else pa.int64())
        units = units.to_numpy()
        days = units if is_date32 else units // (self._a_day or _DAY_S * 1000)
        if self._a_day:
            self._of_day += int((units - days * self._a_day).sum())
        least = int(days.min())
        if int(days.max()) - least < _CLOSE:
            rows = np.bincount(days - least)
            (found,) = np.nonzero(rows)
            rows = rows[found]
        else:
            found, rows = np.unique(days - least, return_counts=True)
        self._take_in(dict(zip((found[-MAX_DAYS:] + least).tolist(), rows[-MAX_DAYS:].tolist(), strict=True)))
        self.before += int(rows[:-MAX_DAYS].sum())

    def _take_in(self, days: Mapping[int, int]) -> None:
        for day, rows in days.items():
            self.days[day] = self.days.get(day, 0) + rows
        for day in sorted(self.days)[:-MAX_DAYS]:
            self.before += self.days.pop(day)

    def _text(self, value: Any) -> str | None:
        if value is None:
            return None
        text: str = value.cast(arrow().string()).as_py()
        return text.replace(" ", "T") + self._suffix


def _first_and_next(day: str, data_type: DataType) -> tuple[Any, Any] | None:
    """The first moment of a day and that of the next one; None where the type has no such day."""
    pa = arrow()
    first = pa.scalar(day).cast(pa.date32())
    try:
        return tuple(pa.scalar(first.value + more, pa.int32()).cast(pa.date32()).cast(data_type) for more in (0, 1))
    except pa.ArrowInvalid:
        return None


class Numbers(Column):
    """Integers, bools (as 0 and 1), decimals and floats."""

    def __init__(self, data_type: DataType) -> None:
        super().__init__()
        pa = arrow()
        self._floating = pa.types.is_floating(data_type)
        self._cast_to = (
            pa.uint8()
            if pa.types.is_boolean(data_type)
            else pa.float64()
            if pa.types.is_decimal(data_type)
            else pa.float32()
            if pa.types.is_float16(data_type)
            else None
        )
        self._count = 0
        self._not_finite = 0
        self._minimum: float | None = None
        self._maximum: float | None = None
        # Sums are kept a piece: fsum adds them without rounding in between.
        self._sums: list[float] = []
        self._mean = 0.0
        self._squares = 0.0

    def add(self, column: Array) -> None:
        super().add(column)
        compute = arrow().compute
        if self._cast_to is not None:
            column = column.cast(self._cast_to)
        if self._floating:
            finite = compute.is_finite(column)
            count = compute.sum(finite).as_py() or 0
            self._not_finite += len(column) - column.null_count - count
            if count < len(column):
                column = column.filter(finite)  # drops nulls too
        else:
            count = len(column) - column.null_count
        if not count:
            return
        extremes = compute.min_max(column).as_py()
        self._minimum = extremes["min"] if self._minimum is None else min(self._minimum, extremes["min"])
        self._maximum = extremes["max"] if self._maximum is None else max(self._maximum, extremes["max"])
        total = _sum(column, max(abs(extremes["min"]), abs(extremes["max"])) * count)
        self._sums.append(total)
        # Chan, Golub and LeVeque (1979), "Updating formulae and a pairwise algorithm for computing sample variances".
        mean, variance = total / count, compute.variance(column).as_py()
        self._take_in(count, mean, variance * count)

    def entries(self) -> dict[str, Any]:
        ends = {"min": self._minimum, "max": self._maximum}
        found = {**super().entries(), **ends, "mean": None, "std": None, "sum": None}
        if self._count:
            total = self._total()
            mean = total / self._count
            found["sum"] = total if math.isfinite(total) else None
            std = math.sqrt(self._squares / self._count) if self._squares >= 0 else math.nan
            # Sums and squares of the largest floats are beyond what a float, and JSON, can say.
            found["mean"] = mean if math.isfinite(mean) else None
            found["std"] = std if math.isfinite(std) else None
        return {**found, "not_finite": self._not_finite} if self._floating else found

    def state(self) -> dict[str, Any]:
        total = self._total()
        return {
            **super().state(),
            **{"count": self._count, "not_finite": self._not_finite, "min": self._minimum, "max": self._maximum},
            **{"sums": [total] if math.isfinite(total) else self._sums, "mean": self._mean, "squares": self._squares},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._count, self._not_finite = state["count"], state["not_finite"]
        self._minimum, self._maximum = state["min"], state["max"]
        self._sums, self._mean = list(state["sums"]), state["mean"]
        self._squares = state["squares"]

    def merge(self, later: Any) -> None:
        super().merge(later)
        self._not_finite += later._not_finite
        if not later._count:
            return
        ends = [(self._minimum, later._minimum), (self._maximum, later._maximum)]
        low, high = ([end for end in both if end is not None] for both in ends)
        self._minimum, self._maximum = min(low), max(high)
        self._sums += later._sums
        self._take_in(later._count, later._mean, later._squares)

    def measures(self) -> dict[str, float]:
        found = {**super().measures(), "not_finite": self._not_finite, "count": self._count}
        if not self._count:
            return found
        ends = {"min": float(self._minimum or 0), "max": float(self._maximum or 0)}
        return {**found, **ends, "mean": self._total() / self._count, "squares": self._squares}

    def _take_in(self, count: int, mean: float, squares: float) -> None:
        merged = self._count + count
        delta = mean - self._mean
        self._squares += squares + delta * delta * self._count * count / merged
        self._mean += delta * count / merged
        self._count = merged

    def _total(self) -> float:
        if all(isinstance(piece, int) for piece in self._sums):
            return sum(self._sums)
        try:
            return math.fsum(self._sums)
        except (OverflowError, ValueError):
            return math.inf


def column_statistics(data_type: DataType) -> Column:
    """The statistics that a column of this type has."""
    kinds = arrow().types
    if is_number(data_type):
        return Numbers(data_type)
    if kinds.is_date(data_type) or kinds.is_timestamp(data_type):
        return Times(data_type)
    return Texts() if kinds.is_string(data_type) else Column()


def _sum(column: Array, bound: float) -> float:
    """The sum; of integers the exact one, also where 64 bits would overflow (`bound` is an upper limit of it)."""
    pa = arrow()
    compute = pa.compute
    if not pa.types.is_integer(column.type) or bound < 1 << 62:
        return compute.sum(column).as_py()
    high = compute.shift_right(column, pa.scalar(32, column.type))
    low = compute.bit_wise_and(column, pa.scalar((1 << 32) - 1, column.type))
    return (compute.sum(high).as_py() << 32) + compute.sum(low).as_py()


def _is_ascii(column: Array) -> bool:
    """Return True if no cell has a character of several bytes."""
    _, bounds, content = column.buffers()
    if content is None:
        return True
    np = numpy()
    first, last = np.frombuffer(bounds, "<i4")[[column.offset, column.offset + len(column)]].tolist()
    return bool(np.frombuffer(content, "i1")[first:last].min(initial=0) >= 0)
