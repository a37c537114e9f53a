"""Assign rows to the sides of a split: by key, its group, its time, or in equal parts of each stratum.

key                 the hash of the row's key (split.py): a row never changes sides
group:COLUMN        the hash of a column's value: rows of one value are on one side, and never change sides
time:COLUMN         validation, calibration and test begin at a time each (validation_from, calibration_from, test_from)
strata:COLUMN       the percentages of the rows of each value, in the order of the keys' hashes: exact for each value;
                    rows near a boundary change sides when data grows
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from typing import Any

from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.data.arrow import Array, Batch, Schema, arrow, numpy
from drivetrain.data.checks import check_present
from drivetrain.data.convert import described, typed
from drivetrain.data.hash_runs import HashRuns, Scratch
from drivetrain.data.reading import Table
from drivetrain.data.schema import suggestion
from drivetrain.data.split import below, key_hashes

KINDS = ("key", "group", "time", "strata")
SIDES = ("train", "validation", "test")
CALIBRATION = "calibration"
"""The side that only a split with calibration_percent or calibration_from has. Its rows are taken from train (of a
split by time, from validation), so that the other sides stay as they are."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """The rule that decides on the sides. Build it with `declared_split`."""

    kind: str
    column: str
    key: str
    salt: str
    validation_percent: int
    test_percent: int
    validation_from: str = ""
    test_from: str = ""
    calibration_percent: int = 0
    calibration_from: str = ""

    @property
    def sides(self) -> tuple[str, ...]:
        return (*SIDES, CALIBRATION) if self.calibration_percent or self.calibration_from else SIDES

    @property
    def parameters(self) -> dict[str, Any]:
        """The fields, as manifests have them: those of a calibration side only where there is one."""
        found = asdict(self)
        return found if CALIBRATION in self.sides else {k: v for k, v in found.items() if CALIBRATION not in k}

    @property
    def held_back(self) -> tuple[str, ...]:
        """The sides but train, in the order in which they take their rows."""
        if CALIBRATION not in self.sides:
            return "test", "validation"
        return ("test", CALIBRATION, "validation") if self.kind == "time" else ("test", "validation", CALIBRATION)

    @property
    def times(self) -> dict[str, str]:
        """Side -> when it begins, "" for a side without a time; the latest side first."""
        return {side: getattr(self, f"{side}_from") for side in self.held_back}

    @property
    def percents(self) -> Mapping[str, int]:
        """The percentages of the sides; of a split by time, 1 for a side that must have rows."""
        if self.kind == "time":
            return {"train": 1, **{side: int(bool(self.times[side])) for side in self.sides[1:]}}
        held_back = {side: int(getattr(self, f"{side}_percent")) for side in self.sides[1:]}
        return {"train": 100 - sum(held_back.values()), **held_back}

    def check(self, rows: Mapping[str, int]) -> None:
        """Every side that is to have rows has some; `rows` has their number by side.

        Raises:
            InputError: one has none.
        """
        if not sum(rows.values()):
            raise InputError("the data has no rows: its files hold headers or blank lines only. Add rows.")
        empty = next((side for side, percent in self.percents.items() if percent and not rows[side]), None)
        if empty and self.kind == "time":
            times = [(side, self.times[side]) for side in self.sides[1:]]
            bounds = ", ".join(f"{side} begins at {time}" for side, time in times if time)
            raise InputError(f"no row falls into {empty} by column {self.column!r}: {bounds}. Give other times.")
        if empty:
            number = "1 row is" if (count := sum(rows.values())) == 1 else f"{count:,} rows are"
            raise InputError(
                f"no row falls into {empty}: {number} too few for {self.percents[empty]} %. Add "
                "rows, raise the percentage, set it to 0, or choose another salt."
            )


def declared_split(
    by: str,
    *,
    key: str,
    salt: str,
    validation_percent: int,
    test_percent: int,
    validation_from: str,
    test_from: str,
    calibration_percent: int = 0,
    calibration_from: str = "",
) -> Split:
    """The split that a step's parameters declare.

    Raises:
        InputError: they declare none.
    """
    kind, _, column = by.partition(":")
    if kind not in KINDS:
        raise InputError(f"split_by: there is no split by {kind!r}. {did_you_mean(kind, KINDS)}")
    if (kind == "key") == bool(column):
        raise InputError(f'split_by is {by!r}. Allowed: "key", or one of group, time and strata with ":" and a column.')
    if (kind == "time") != bool(validation_from or test_from) or (kind != "time" and calibration_from):
        raise InputError(
            "validation_from and test_from are the times of a split by time: "
            + ("give one or both." if kind == "time" else 'leave them out, or give split_by="time:COLUMN".')
        )
    if kind == "time" and calibration_percent:
        raise InputError("calibration_percent is not for a split by time. Give calibration_from, when it begins.")
    return Split(
        kind=kind,
        column=column or key,
        key=key,
        salt=salt,
        validation_percent=validation_percent,
        test_percent=test_percent,
        validation_from=validation_from,
        test_from=test_from,
        calibration_percent=calibration_percent,
        calibration_from=calibration_from,
    )


class Sides:
    """The sides of a table's rows.

    Raises:
        InputError: the split's column is missing, or its type cannot be split by; or the times of a split by time do
            not have the column's type, or are in the wrong order.
    """

    def __init__(self, split: Split, table: Table, scratch: Scratch) -> None:
        self._split = split
        self._scratch = scratch
        self._check_column(table.schema)
        self._bounds: list[Any] = []
        if split.kind == "time":
            names = [f"{side}_from" for side in split.times]
            self._bounds = [self._time(f"{side}_from", text, table.schema) for side, text in split.times.items()]
            there = [(name, bound) for name, bound in zip(names, self._bounds, strict=True) if bound is not None]
            for (later, bound), (name, earlier) in pairwise(there):
                if not arrow().compute.less(earlier, bound).as_py():
                    raise InputError(
                        f"{name} {getattr(split, name)!r} is not before {later} {getattr(split, later)!r}."
                    )
        self._strata, self._thresholds = self._divided(table) if split.kind == "strata" else (None, [])

    def masks(self, batch: Batch, hashes: Array) -> dict[str, Array]:
        """Masks of the rows of each side; `hashes` are those of the keys."""
        compute = arrow().compute
        found: dict[str, Array] = {}
        taken = None
        for side, up_to in zip(self._split.held_back, self._held_back(batch, hashes), strict=True):
            found[side] = up_to if taken is None else compute.and_not(up_to, taken)
            taken = up_to
        return {**found, "train": compute.invert(taken)}

    def _held_back(self, batch: Batch, hashes: Array) -> list[Array]:
        """For each side that is held back, the mask of the rows on it or on one before it."""
        pa, split = arrow(), self._split
        compute = pa.compute
        if split.kind in ("key", "group"):
            of = hashes if split.kind == "key" else key_hashes(batch.column(split.column), split.salt)
            return [below(of, percent) for percent in self._cumulative]
        column = batch.column(split.column)
        if split.kind == "time":
            never = pa.array([False]).take(pa.array([0] * len(column)))
            at_or_after = [never if bound is None else compute.greater_equal(column, bound) for bound in self._bounds]
            return list(accumulate(at_or_after, compute.or_))
        places = compute.index_in(column, value_set=self._strata)
        return [compute.less(hashes, pa.array(each, pa.uint64()).take(places)) for each in self._thresholds]

    @property
    def _cumulative(self) -> list[int]:
        return list(accumulate(self._split.percents[side] for side in self._split.held_back))

    def _check_column(self, schema: Schema) -> None:
        pa, split = arrow(), self._split
        kinds = pa.types
        if split.column not in schema.names:
            raise InputError(f"split_by: there is no column {split.column!r}{suggestion(split.column, schema.names)}")
        found = schema.field(split.column).type
        allowed = {
            "time": ("dates and time stamps", (kinds.is_date, kinds.is_timestamp, kinds.is_integer)),
            "key": ("integers and text", (kinds.is_integer, kinds.is_string, kinds.is_null)),
        }.get(split.kind, ("integers, bools and text", (kinds.is_integer, kinds.is_string, kinds.is_boolean)))
        if not any(is_kind(found) for is_kind in allowed[1]):
            example = "date32" if split.kind == "time" else "string"
            raise InputError(
                f"split_by: column {split.column!r} is {described(found)} column. Allowed: {allowed[0]}. Give it a "
                f"type with schema, for example {typed(split.column, example)}."
            )

    def _time(self, name: str, text: str, schema: Schema) -> Any:
        pa = arrow()
        wanted = schema.field(self._split.column).type
        if not text:
            return None
        plain = pa.timestamp(wanted.unit) if pa.types.is_timestamp(wanted) else wanted
        try:
            found = pa.scalar(text, pa.string()).cast(plain)
        except pa.ArrowInvalid:
            raise InputError(
                f"{name} is {text!r}, which is not {described(wanted)}. Give it as 2026-11-25, or 2026-11-25T08:00:00 "
                "for a time stamp (in UTC where it has a zone)."
            ) from None
        return found.cast(wanted)

    def _divided(self, table: Table) -> tuple[Array, list[list[int]]]:
        """The values of the strata; and for each side but train, by stratum, the hash below which the rows lie that are
        on it or on one before it."""
        pa, np, split = arrow(), numpy(), self._split
        found: dict[Any, HashRuns] = {}
        for source, first, batch in table.batches([split.key, split.column]):
            check_present(table, source, first, batch, "key", split.key)
            check_present(table, source, first, batch, split.kind, split.column)
            column = batch.column(split.column).dictionary_encode()
            strata = np.asarray(column.indices)
            order = np.argsort(strata, kind="stable")
            hashes = np.asarray(key_hashes(batch.column(split.key), split.salt))[order]
            ends = np.cumsum(np.bincount(strata)).tolist()
            for value, start, end in zip(column.dictionary.to_pylist(), [0, *ends], ends, strict=False):
                found.setdefault(value, HashRuns(self._scratch)).add(hashes[start:end])
        thresholds: list[list[int]] = [[] for _ in self._cumulative]
        for hashes in found.values():
            places = [round(len(hashes) * percent / 100) for percent in self._cumulative]
            for which, hash_ in zip(thresholds, hashes.at(places), strict=True):
                which.append(hash_)
        return pa.array(list(found), table.schema.field(split.column).type), thresholds
