"""Assign rows to the sides of a split: by key, its group, its time, or in equal parts of each stratum.

key                 the hash of the row's key (split.py): a row never changes sides
group:COLUMN        the hash of a column's value: rows of one value are on one side, and never change sides
time:COLUMN         validation and test begin at a time each (validation_from, test_from)
strata:COLUMN       the percentages of the rows of each value, in the order of the keys' hashes: exact for each value;
                    rows near a boundary change sides when data grows
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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

    @property
    def percents(self) -> Mapping[str, int]:
        """The percentages of the sides; of a split by time, 1 for a side that must have rows."""
        if self.kind == "time":
            return {"train": 1, "validation": int(bool(self.validation_from)), "test": int(bool(self.test_from))}
        validation, test = self.validation_percent, self.test_percent
        return {"train": 100 - validation - test, "validation": validation, "test": test}

    def check(self, rows: Mapping[str, int]) -> None:
        """Every side that is to have rows has some; `rows` has their number by side.

        Raises:
            InputError: one has none.
        """
        if not sum(rows.values()):
            raise InputError("the data has no rows: its files hold headers or blank lines only. Add rows.")
        empty = next((side for side, percent in self.percents.items() if percent and not rows[side]), None)
        if empty and self.kind == "time":
            times = {"validation": self.validation_from, "test": self.test_from}
            bounds = ", ".join(f"{side} begins at {time}" for side, time in times.items() if time)
            raise InputError(f"no row falls into {empty} by column {self.column!r}: {bounds}. Give other times.")
        if empty:
            number = "1 row is" if (count := sum(rows.values())) == 1 else f"{count:,} rows are"
            raise InputError(
                f"no row falls into {empty}: {number} too few for {self.percents[empty]} %. Add "
                "rows, raise the percentage, set it to 0, or choose another salt."
            )


def declared_split(
    by: str, *, key: str, salt: str, validation_percent: int, test_percent: int, validation_from: str, test_from: str
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
    if (kind == "time") != bool(validation_from or test_from):
        raise InputError(
            "validation_from and test_from are the times of a split by time: "
            + ("give one or both." if kind == "time" else 'leave them out, or give split_by="time:COLUMN".')
        )
    return Split(
        kind=kind,
        column=column or key,
        key=key,
        salt=salt,
        validation_percent=validation_percent,
        test_percent=test_percent,
        validation_from=validation_from,
        test_from=test_from,
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
            self._bounds = [self._time(name, text, table.schema) for name, text in self._times()]
            if None not in self._bounds and not arrow().compute.less(*self._bounds).as_py():
                validation_from, test_from = split.validation_from, split.test_from
                raise InputError(f"validation_from {validation_from!r} is not before test_from {test_from!r}.")
        self._strata, self._thresholds = self._divided(table) if split.kind == "strata" else (None, [])

    def masks(self, batch: Batch, hashes: Array) -> dict[str, Array]:
        """Masks of the rows of each side; `hashes` are those of the keys."""
        compute = arrow().compute
        in_test, in_either = self._held_back(batch, hashes)
        return {
            "test": in_test,
            "validation": compute.and_not(in_either, in_test),
            "train": compute.invert(in_either),
        }

    def _held_back(self, batch: Batch, hashes: Array) -> tuple[Array, Array]:
        """Masks of the rows in test, and of those in test or validation."""
        pa, split = arrow(), self._split
        compute = pa.compute
        either = split.test_percent + split.validation_percent
        if split.kind == "key":
            return below(hashes, split.test_percent), below(hashes, either)
        column = batch.column(split.column)
        if split.kind == "group":
            groups = key_hashes(column, split.salt)
            return below(groups, split.test_percent), below(groups, either)
        if split.kind == "time":
            never = pa.array([False]).take(pa.array([0] * len(column)))
            at_or_after = [never if bound is None else compute.greater_equal(column, bound) for bound in self._bounds]
            return at_or_after[1], compute.or_(*at_or_after)
        places = compute.index_in(column, value_set=self._strata)
        in_test, in_either = (
            compute.less(hashes, pa.array(each, pa.uint64()).take(places)) for each in self._thresholds
        )
        return in_test, in_either

    def _times(self) -> tuple[tuple[str, str], ...]:
        return ("validation_from", self._split.validation_from), ("test_from", self._split.test_from)

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
        """The values of the strata, and for each the hashes below which its rows are in test, and in either."""
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
        thresholds: list[list[int]] = [[], []]
        for hashes in found.values():
            percents = (split.test_percent, split.test_percent + split.validation_percent)
            places = [round(len(hashes) * percent / 100) for percent in percents]
            for which, hash_ in zip(thresholds, hashes.at(places), strict=True):
                which.append(hash_)
        return pa.array(list(found), table.schema.field(split.column).type), thresholds
