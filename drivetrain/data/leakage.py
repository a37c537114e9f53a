"""Leakage between the sides of a split: rows that are equal but for their key, and groups that are on several sides.

Rows and groups are compared by hashes of 64 bits, one range of hashes after the other (hash_runs.py). Manifests of
validation, test and calibration say what was found:

    "leakage": {"rows": 12, "groups": {"user": 3}}      rows of this side that train has, too; values that it has, too

A run that goes on from an earlier one compares all rows, too: the hashes of the earlier ones lie beside their shards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from drivetrain.base.errors import InputError, warn
from drivetrain.data.arrow import Array, Batch, Schema, arrow, numpy
from drivetrain.data.hash_runs import HashRuns, HashSet, Scratch, num_parts, ordered
from drivetrain.data.increments import Earlier, NotUsableError
from drivetrain.data.schema import suggestion
from drivetrain.data.sides import SIDES
from drivetrain.data.sketches import as_integers, mixed


class Leakage:
    """Gathers the hashes of each side's rows and groups."""

    def __init__(self, schema: Schema, key: str, groups: str, scratch: Scratch, sides: Sequence[str] = SIDES) -> None:
        """
        Args:
            schema: the columns.
            key: the column that names a row, which does not count.
            groups: columns whose values are to be on one side each, separated by commas.
            scratch: where hashes go that do not fit in memory.
            sides: train, and those that are compared with it.

        Raises:
            InputError: there is no such column.
        """
        self._columns = [name for name in schema.names if name != key]
        self._groups = [name.strip() for name in groups.split(",") if name.strip()]
        for name in self._groups:
            if name not in schema.names:
                raise InputError(f"groups: there is no column {name!r}{suggestion(name, schema.names)}")
        self._rows = {side: HashRuns(scratch) for side in sides}
        self._values = {name: {side: HashRuns(scratch, unique=True) for side in sides} for name in self._groups}
        self._held_back = [side for side in sides if side != "train"]
        self._earlier: Earlier | None = None

    def continue_from(self, earlier: Earlier) -> None:
        """Compare with the rows of an earlier run, too.

        Raises:
            NotUsableError: it did not look for leakage, or looked at other groups.
        """
        for side, found in earlier.sets.items():
            if found.groups is None:
                raise NotUsableError("it did not look for leakage")
            if [*found.groups] != self._groups:
                raise NotUsableError(f"groups was {','.join(found.groups)!r}, and is {','.join(self._groups)!r} now")
            for name in self._groups:
                for hashes in found.group_hashes(name):
                    self._values[name][side].add(hashes)
        self._earlier = earlier

    def add(self, rows: Batch, sides: Mapping[str, Array]) -> dict[str, Any]:
        """Take in the next rows; `sides` has of each side which rows are on it.

        Returns:
            By side, what a later run compares its rows with: a hash of each row, uint64.
        """
        np = numpy()
        hashes = {name: value_hashes(rows.column(name)) for name in {*self._columns, *self._groups}}
        # A missing value does not count as shared by two sides.
        present = {name: np.asarray(rows.column(name).is_valid()) for name in self._groups}
        combined = row_hashes([hashes[name] for name in self._columns], rows.num_rows)
        found: dict[str, Any] = {}
        for side, mask in sides.items():
            chosen = np.asarray(mask)
            found[side] = combined[chosen]
            self._rows[side].add(found[side])
            for name in self._groups:
                self._values[name][side].add(hashes[name][chosen & present[name]])
        return found

    def found(self) -> dict[str, dict[str, Any]]:
        """The manifest's entry on leakage, by side."""
        return {
            side: {
                "rows": rows,
                "groups": {name: _shared(by_side, side) for name, by_side in self._values.items()},
            }
            for side, rows in self._shared_rows().items()
        }

    def groups(self, side: str) -> dict[str, Iterable[Any]]:
        """The hashes of all groups on a side, with which a later run compares its own, in their
        order, some at a time."""
        return {name: by_side[side].parts(num_parts(len(by_side[side]))) for name, by_side in self._values.items()}

    def _shared_rows(self) -> dict[str, int]:
        """For each side, the number of rows that train has, too."""
        earlier = self._earlier
        if not earlier:
            return {side: _shared(self._rows, side) for side in self._held_back}
        found = {side: earlier.sets[side].manifest.leakage["rows"] for side in self._held_back}
        for rows in _together(self._rows):
            for side, more in _with_earlier(earlier, rows).items():
                found[side] += more
        return found


def _with_earlier(earlier: Earlier, rows: Mapping[str, Any]) -> dict[str, int]:
    """How many more rows of each side train has, by the new rows of one range of hashes. All earlier ones are read."""
    np = numpy()
    new_in_train = HashSet(rows["train"])
    new = HashSet(np.concatenate(list(rows.values())))
    known = np.empty(0, "<u8")
    for hashes in earlier.sets["train"].row_hashes():
        known = ordered([known, new.among(hashes)], unique=True)
    known_before = HashSet(known)
    in_train = ordered([known, rows["train"]])
    found: dict[str, int] = {}
    for side in (each for each in rows if each != "train"):
        found[side] = _among(in_train, rows[side])
        for hashes in earlier.sets[side].row_hashes():
            # Earlier rows that only a new row of train is equal to.
            equal = new_in_train.among(hashes)
            found[side] += len(equal) - len(known_before.among(equal))
    return found


def report(found: Mapping[str, Mapping[str, Any]], rows: Mapping[str, int], on_leakage: str) -> None:
    """Print what leaks into the other sides; nothing for nothing.

    Raises:
        InputError: something leaks, and `on_leakage` is "fail".
    """
    lines: list[str] = []
    for side in found:
        if number := found[side]["rows"]:
            lines.append(f"{number:,} of {rows[side]:,} rows of {side} are equal to a row of train, but for the key")
        for name, values in found[side]["groups"].items():
            if values:
                what = "1 value" if values == 1 else f"{values:,} values"
                lines.append(f"{what} of {name!r} {'is' if values == 1 else 'are'} in {side} and in train")
    if lines and on_leakage == "fail":
        raise InputError(
            f"the sides leak: {'; '.join(lines)}. Deduplicate the rows (transform_data), split by a group "
            "(split_by=group:COLUMN), or allow it with on_leakage=report."
        )
    for line in lines:
        warn(f"leakage: {line}")


def _shared(by_side: Mapping[str, HashRuns], side: str) -> int:
    """How many of a side's hashes train has."""
    both = {name: by_side[name] for name in ("train", side)}
    return sum(_among(part["train"], part[side]) for part in _together(both))


def _together(by_side: Mapping[str, HashRuns]) -> Iterator[dict[str, Any]]:
    """The hashes of sides in their order, one range of all of them after the other."""
    number = num_parts(sum(map(len, by_side.values())))
    for parts in zip(*(hashes.parts(number) for hashes in by_side.values()), strict=True):
        yield dict(zip(by_side, parts, strict=True))


def _among(train: Any, hashes: Any) -> int:
    """How many of the hashes are in train, which is sorted."""
    if not len(train):
        return 0
    np = numpy()
    places = np.minimum(np.searchsorted(train, hashes), len(train) - 1)
    return int(np.count_nonzero(train[places] == hashes))


def row_hashes(columns: Sequence[Any], rows: int) -> Any:
    np = numpy()
    found = np.zeros(rows, "<u8")
    for column in columns:
        found = found * np.uint64(0x9E3779B97F4A7C15) + column
    return mixed(found)


def value_hashes(column: Array) -> Any:
    """A hash of each value; of a missing one another constant than of any value, but for chance."""
    pa, np = arrow(), numpy()
    kinds = pa.types
    if kinds.is_null(column.type):
        return np.zeros(len(column), "<u8")
    plain = kinds.is_primitive(column.type) or kinds.is_string(column.type) or kinds.is_binary(column.type)
    if not plain:
        # Times as numbers: Python has none of nanoseconds, nor of the year 10000.
        texts = (repr(value).encode() for value in column.cast(_with_numbers(column.type)).to_pylist())
        digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
        return np.frombuffer(digests, "<u8")
    if not column.null_count:
        return mixed(as_integers(column))
    found = np.full(len(column), 0x6A09E667F3BCC909, "<u8")
    found[np.asarray(column.is_valid())] = mixed(as_integers(column.drop_null()))
    return found


def _with_numbers(kind: Any) -> Any:
    """A type with integers in place of dates, times and durations."""
    pa = arrow()
    kinds = pa.types
    if kinds.is_temporal(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    if kinds.is_map(kind):
        return pa.map_(_with_numbers(kind.key_type), _with_numbers(kind.item_type), kind.keys_sorted)
    if kinds.is_struct(kind):
        return pa.struct([field.with_type(_with_numbers(field.type)) for field in kind])
    if kinds.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_with_numbers(kind.value_type)), kind.list_size)
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        made = pa.list_ if kinds.is_list(kind) else pa.large_list
        return made(kind.value_field.with_type(_with_numbers(kind.value_type)))
    return kind
