"""Delta tables, read by the package deltalake: `delta:PATH`, a folder or an s3:// address.

The version is the table's own number with the table's id, so that a table which was made anew is another one.
Deletion vectors and mapped columns are refused, since they are not applied here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from drivetrain.base.errors import InputError, first_line
from drivetrain.data.arrow import Batch, Schema, arrow, plain_schema, required
from drivetrain.data.increments import NotUsableError
from drivetrain.data.sources import Opened, Options, no_such_version
from drivetrain.data.sources._batches import plain_batches

SUMMARY = "Delta tables"
EXAMPLE = "delta:lake/orders"

_READ_AHEAD = 2


class _DeltaVersion(Opened):
    """One version of a table; `files` are those whose rows count."""

    def __init__(self, place: str, table: Any, files: frozenset[str] | None = None) -> None:
        self._place = place
        self._table = table
        self._files = files
        self._dataset = table.to_pyarrow_dataset()

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"version": _version(self._table), "files": sorted(_paths(self._table))}

    @property
    def schema(self) -> Schema:
        return plain_schema(self._dataset.schema)

    def batches(self) -> Iterator[Batch]:
        fragments = [each for each in self._dataset.get_fragments() if self._files is None or each.path in self._files]
        for fragment in sorted(fragments, key=lambda each: each.path):
            found = fragment.to_batches(schema=self._dataset.schema, batch_readahead=_READ_AHEAD, use_threads=False)
            yield from plain_batches(found, self.schema, f"delta:{self._place}")

    def added_since(self, earlier: Mapping[str, Any], schema: Schema) -> _DeltaVersion:
        if _id(earlier["version"]) != _id(_version(self._table)):
            raise NotUsableError(f"delta:{self._place} was made anew")
        now = _paths(self._table)
        if gone := sorted(set(earlier["files"]) - now):
            raise NotUsableError(f"rows of {gone[0]} were changed or removed")
        return _DeltaVersion(self._place, self._table, frozenset(now - set(earlier["files"])))


def open_source(place: str, options: Options) -> _DeltaVersion:
    deltalake = required("deltalake", "delta")
    errors = required("deltalake.exceptions", "delta")
    try:
        table = deltalake.DeltaTable(place)
        if options.version:
            newest = _version(table)
            number = options.version.partition("@")[0]
            if not number.isdecimal() or int(number) > table.version():
                raise no_such_version(options.version, newest, f"delta:{place}")
            table.load_as_version(int(number))
            if options.version not in (number, _version(table)):
                raise no_such_version(options.version, newest, f"delta:{place}")
        return _DeltaVersion(place, table)
    except (errors.DeltaError, OSError) as error:
        raise InputError(f"delta:{place} cannot be read: {first_line(error)}.") from error


def _version(table: Any) -> str:
    return f"{table.version()}@{table.metadata().id}"


def _id(version: str) -> str:
    return version.partition("@")[2]


def _paths(table: Any) -> set[str]:
    """The files of a version, by their paths below the table."""
    actions = arrow().table(table.get_add_actions())
    return set(actions.column("path").to_pylist())
