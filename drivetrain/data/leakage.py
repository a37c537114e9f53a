"""Leakage between the sides of a split: rows that are equal but for their key, and groups that are on several sides.

Rows and groups are compared by hashes of 64 bits, which take 8 bytes of memory each. Manifests of validation and test
say what was found:

    "leakage": {"rows": 12, "groups": {"user": 3}}      rows of this side that train has, too; values that it has, too

A run that goes on from an earlier one compares all rows, too: the hashes of the earlier ones lie beside their shards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Array, Batch, Schema, arrow, numpy
from drivetrain.data.increments import Earlier, NotUsableError
from drivetrain.data.schema import suggestion
from drivetrain.data.sketches import as_integers, mixed
from drivetrain.data.split import among

HELD_BACK = ("validation", "test")


class Leakage:
    """Gathers the hashes of each side's rows and groups."""

    def __init__(self, schema: Schema, key: str, groups: str) -> None:
        """
        Args:
            schema: the columns.
            key: the column that names a row, which does not count.
            groups: columns whose values are to be on one side each, separated by commas.

        Raises:
            InputError: there is no such column.
        """
        self._columns = [name for name in schema.names if name != key]
        self._groups = [name.strip() for name in groups.split(",") if name.strip()]
        for name in self._groups:
            if name not in schema.names:
                raise InputError(f"groups: there is no column {name!r}{suggestion(name, schema.names)}")
        self._rows: dict[str, list[Any]] = {}
        self._values: dict[str, dict[str, Any]] = {name: {} for name in self._groups}
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
            for name, hashes in found.group_hashes().items():
                self._values[name][side] = numpy().asarray(hashes)
        self._earlier = earlier

    def add(self, rows: Batch, sides: Mapping[str, Array]) -> None:
        """Take in the next rows; `sides` has of each side which rows are on it."""
        np = numpy()
        hashes = {name: _hashes(rows.column(name)) for name in {*self._columns, *self._groups}}
        combined = _combined([hashes[name] for name in self._columns], rows.num_rows)
        for side, mask in sides.items():
            chosen = np.asarray(mask)
            if chosen.any():
                self._rows.setdefault(side, []).append(combined[chosen])
                for name in self._groups:
                    self._add_group(name, side, hashes[name][chosen])

    def found(self) -> dict[str, dict[str, Any]]:
        """What a manifest says, by side."""
        np = numpy()
        rows = {side: np.sort(np.concatenate(parts)) for side, parts in self._rows.items()}
        shared = {side: _shared(rows, side) for side in HELD_BACK}
        if self._earlier:
            shared = self._with_earlier(self._earlier, rows)
        return {
            side: {
                "rows": shared[side],
                "groups": {name: _shared(by_side, side) for name, by_side in self._values.items()},
            }
            for side in HELD_BACK
        }

    def kept(self, side: str) -> tuple[Any, dict[str, Any]]:
        """What a later run compares with: the hashes of the side's new rows, and of all values of its groups."""
        np = numpy()
        none = np.empty(0, "<u8")
        groups = {name: by_side.get(side, none) for name, by_side in self._values.items()}
        return np.concatenate([none, *self._rows.get(side, ())]), groups

    def _with_earlier(self, earlier: Earlier, rows: Mapping[str, Any]) -> dict[str, int]:
        """Rows of each side that train has, too, by way of the new hashes alone, which are few."""
        np = numpy()
        none = np.empty(0, "<u8")
        new = np.concatenate([none, *rows.values()])
        new_in_train = rows.get("train", none)
        known = np.concatenate([none, *(among(hashes, new) for hashes in earlier.sets["train"].row_hashes())])
        train = np.sort(np.concatenate([known, new_in_train]))
        found: dict[str, int] = {}
        for side in HELD_BACK:
            number = earlier.sets[side].manifest.leakage["rows"]
            number += _shared({"train": train, side: rows.get(side, none)}, side)
            for hashes in earlier.sets[side].row_hashes():
                # Earlier rows that only a new row of train is equal to.
                equal = among(hashes, new_in_train)
                number += len(equal) - len(among(equal, known))
            found[side] = number
        return found

    def _add_group(self, name: str, side: str, hashes: Any) -> None:
        np = numpy()
        known = self._values[name].get(side, np.empty(0, "<u8"))
        self._values[name][side] = np.unique(np.concatenate([known, hashes]))


def report(found: Mapping[str, Mapping[str, Any]], rows: Mapping[str, int], on_leakage: str) -> None:
    """Print what leaks into validation and test; nothing for nothing.

    Raises:
        InputError: something leaks, and `on_leakage` is "fail".
    """
    lines: list[str] = []
    for side in HELD_BACK:
        if number := found[side]["rows"]:
            lines.append(f"{number:,} of {rows[side]:,} rows of {side} are equal to a row of train, but for the key")
        for name, values in found[side]["groups"].items():
            if values:
                lines.append(f"{values:,} values of {name!r} are in {side} and in train")
    if lines and on_leakage == "fail":
        raise InputError(
            f"the sides leak: {'; '.join(lines)}. Deduplicate the rows (transform_data), split by a group "
            "(split_by=group:COLUMN), or allow it with on_leakage=report."
        )
    for line in lines:
        print(f"leakage: {line}", flush=True)


def _shared(by_side: Mapping[str, Any], side: str) -> int:
    """How many of a side's hashes train has; both are sorted."""
    if side not in by_side or not len(by_side.get("train", ())):
        return 0
    np, train = numpy(), by_side["train"]
    places = np.minimum(np.searchsorted(train, by_side[side]), len(train) - 1)
    return int(np.count_nonzero(train[places] == by_side[side]))


def _combined(columns: Sequence[Any], rows: int) -> Any:
    np = numpy()
    found = np.zeros(rows, "<u8")
    for column in columns:
        found = found * np.uint64(0x9E3779B97F4A7C15) + column
    return mixed(found)


def _hashes(column: Array) -> Any:
    """A hash of each value; of a missing one another constant than of any value, but for chance."""
    pa, np = arrow(), numpy()
    kinds = pa.types
    if kinds.is_null(column.type):
        return np.zeros(len(column), "<u8")
    plain = kinds.is_primitive(column.type) or kinds.is_string(column.type) or kinds.is_binary(column.type)
    if not plain:
        texts = (repr(value).encode() for value in column.to_pylist())
        digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
        return np.frombuffer(digests, "<u8")
    if not column.null_count:
        return mixed(as_integers(column))
    found = np.full(len(column), 0x6A09E667F3BCC909, "<u8")
    found[np.asarray(column.is_valid())] = mixed(as_integers(column.drop_null()))
    return found
