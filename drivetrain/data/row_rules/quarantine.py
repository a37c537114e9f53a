"""The table of the rows that rules put aside: a set with a manifest, as the sides are."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivetrain.base.masking import MASK
from drivetrain.data.arrow import Batch, Schema, arrow
from drivetrain.data.manifest import Manifest
from drivetrain.data.reading import row_numbers
from drivetrain.data.row_rules.declared import RowRules, Rule
from drivetrain.data.shards import ShardWriter
from drivetrain.data.source import Source


class Quarantine:
    """Writes one entry for each row and rule that put it aside, up to `max_rows` entries.

    Columns: `file`; `row`, of the data from 1; `line`, as messages and editors count (the header of a CSV file is row
    1); `column`, `rule`, `cell` (text; `***` of a masked column), and `whole_row` (a struct, in which masked columns
    are null) where the rules ask for it.
    """

    def __init__(self, folder: Path, rules: RowRules, schema: Schema) -> None:
        pa = arrow()
        self._rules = rules
        self._masked = {name for pattern in rules.masked for name in fnmatch.filter(schema.names, pattern)}
        fields = [("file", pa.string()), ("row", pa.int64()), ("line", pa.int64())]
        fields += [("column", pa.string()), ("rule", pa.string()), ("cell", pa.string())]
        self._row = pa.struct(list(schema)) if rules.whole_rows else None
        self._schema = pa.schema([*fields, *([("whole_row", self._row)] if self._row else [])])
        self.writer = ShardWriter(folder, self._schema, key=None, label=None, rows_per_shard=1_000_000)
        self.writer.keep_days = rules.keep_days
        self.beyond = 0

    def add(
        self, rule: Rule, source: Source, first: int, batch: Batch, rows: Any, raw: Mapping[int, str] | None = None
    ) -> None:
        """Take in rows of a batch by their indices in it; `raw` has the cells that could not be read."""
        pa = arrow()
        room = max(0, self._rules.max_rows - self.writer.rows)
        self.beyond += max(0, len(rows) - room)
        rows = rows[:room].tolist()
        if not rows:
            return
        chosen = batch.take(pa.array(rows))
        if rule.column in self._masked:
            cells: Any = [MASK] * len(rows)
        elif raw is not None:
            cells = [raw[row] for row in rows]
        else:
            cells = _as_text(chosen.column(rule.column))
        places = [first + row for row in rows]
        columns: list[Any] = [
            [source.name] * len(rows),
            [place + 1 for place in places],
            row_numbers(source, places),
            [rule.column] * len(rows),
            [rule.name] * len(rows),
            cells,
        ]
        if self._row:
            parts = [
                pa.nulls(len(rows), each.type) if each.name in self._masked else chosen.column(each.name)
                for each in batch.schema
            ]
            columns.append(pa.StructArray.from_arrays(parts, fields=list(batch.schema)))
        typed = zip(columns, self._schema.types, strict=True)
        arrays = [values if isinstance(values, pa.Array) else pa.array(values, kind) for values, kind in typed]
        self.writer.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def stage(self, lineage: Mapping[str, Any]) -> Manifest:
        """Write the manifest; its lineage says for how long the rows are kept, and how many more there were."""
        self.writer.finish()
        return self.writer.stage({**lineage, "keep_days": self._rules.keep_days, "rows_beyond": self.beyond})


def _as_text(column: Any) -> Any:
    pa = arrow()
    try:
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
