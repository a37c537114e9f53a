"""Iceberg tables, read by the package pyiceberg: `iceberg:CATALOG/NAMESPACE.TABLE`.

Catalogs are set up as pyiceberg wants it: `.pyiceberg.yaml`, or variables such as PYICEBERG_CATALOG__NAME__URI. The
version is the id of a snapshot; deleted rows are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Batch, Schema, plain_schema, required
from drivetrain.data.increments import NotUsableError
from drivetrain.data.sources import Opened, Options, no_such_version
from drivetrain.data.sources._batches import plain_batches

SUMMARY = "Iceberg tables"
EXAMPLE = "iceberg:CATALOG/sales.orders"


class _Snapshot(Opened):
    """The rows of a snapshot, or those that were added between two."""

    def __init__(self, place: str, table: Any, snapshot: int, after: int | None = None) -> None:
        self._place = place
        self._table = table
        self._snapshot = snapshot
        self._after = after
        if after is None:
            self._scan = table.scan(snapshot_id=snapshot)
        else:
            self._scan = table.incremental_append_scan(
                from_snapshot_id_exclusive=after, to_snapshot_id_inclusive=snapshot
            )
        self._schema = plain_schema(self._scan.projection().as_arrow())

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"version": str(self._snapshot), "table": str(self._table.metadata.table_uuid)}

    @property
    def schema(self) -> Schema:
        return self._schema

    def batches(self) -> Iterator[Batch]:
        found = () if self._after == self._snapshot else self._scan.to_arrow_batch_reader()
        return plain_batches(found, self._schema, f"iceberg:{self._place}")

    def added_since(self, earlier: Mapping[str, Any], schema: Schema) -> _Snapshot:
        if earlier["table"] != self.identity["table"]:
            raise NotUsableError(f"iceberg:{self._place} is another table now")
        known = int(earlier["version"])
        snapshot = self._table.snapshot_by_id(self._snapshot)
        while snapshot is not None and snapshot.snapshot_id != known:
            operation = snapshot.summary.operation.value if snapshot.summary else "unknown"
            if operation != "append":
                raise NotUsableError(f"snapshot {snapshot.snapshot_id} did not only append ({operation})")
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self._table.snapshot_by_id(parent)
        if snapshot is None:
            raise NotUsableError(f"snapshot {known} is not among those before {self._snapshot}")
        return _Snapshot(self._place, self._table, self._snapshot, known)


def open_source(place: str, options: Options) -> _Snapshot:
    catalog, _, name = place.partition("/")
    if not catalog or "." not in name:
        raise InputError(f"source is 'iceberg:{place}'. Allowed: iceberg:CATALOG/NAMESPACE.TABLE.")
    pyiceberg = required("pyiceberg.catalog", "iceberg")
    errors = required("pyiceberg.exceptions", "iceberg")
    refused = (
        *(errors.NoSuchTableError, errors.NoSuchNamespaceError, errors.RESTError, errors.NoSuchIdentifierError),
        *(ValueError, OSError, ImportError),
    )
    try:
        table = pyiceberg.load_catalog(catalog).load_table(name)
    except refused as error:
        raise InputError(
            f"iceberg:{place} cannot be opened: {error}. Is the catalog set up (PYICEBERG_CATALOG__"
            f"{catalog.upper()}__URI, ...), and the name right?"
        ) from error
    newest = table.current_snapshot()
    if newest is None:
        raise InputError(f"iceberg:{place} has no rows: nothing was ever written to it.")
    snapshot = newest.snapshot_id
    if options.version:
        if not options.version.isdecimal() or table.snapshot_by_id(int(options.version)) is None:
            raise no_such_version(options.version, str(snapshot), f"iceberg:{place}")
        snapshot = int(options.version)
    return _Snapshot(place, table, snapshot)
