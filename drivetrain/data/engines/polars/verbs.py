"""The verbs on Polars.

A verb that needs all rows at once (sort, window, deduplicate, aggregate, join) holds as many as there is memory for.
Beyond that it puts rows into buckets on the disk by the hash of their keys, works on one bucket after the other, and
puts the results into the order that they must have. The rows of one group, partition or key must fit in memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drivetrain.data.arrow import Batch
from drivetrain.data.engines import Table, mapped
from drivetrain.data.engines.polars.expressions import casted, hashed, translated, without_sign
from drivetrain.data.engines.polars.frames import (
    BUCKETS,
    Buckets,
    Frame,
    Lazy,
    held,
    in_places,
    lazy,
    merged,
    of_size,
    pieces,
    polars,
    scan,
    together,
)
from drivetrain.data.split import threshold
from drivetrain.data.transform import types, verbs
from drivetrain.data.transform.expressions import columns_of
from drivetrain.data.transform.verbs import Columns

# The place of a row among all, and within its partition; no column of a user's has these names.
_ROW = "\1row"
_NUMBER = "\1number"
_DRAWN = "\1drawn"


class Verbs:
    """The verbs on one lazy frame.

    `columns` are those of the frame, `tables` what it may be joined with, `scratch` a folder for what does not fit into
    `memory` bytes.
    """

    def __init__(self, frame: Lazy, columns: Columns, tables: Mapping[str, Table], scratch: Path, memory: int) -> None:
        self._frame = frame
        self._columns = columns
        self._tables = tables
        self._scratch = scratch
        self._memory = memory

    def applied(self, verb: verbs.Verb) -> Lazy:
        pl, frame, columns = polars(), self._frame, self._columns
        match verb:
            case verbs.Select():
                return frame.select(verb.names)
            case verbs.Rename():
                return frame.rename(dict(verb.names))
            case verbs.Cast():
                return frame.with_columns(
                    casted(pl.col(name), columns[name], kind).alias(name) for name, kind in verb.types
                )
            case verbs.Filter():
                return frame.filter(translated(verb.condition, columns))
            case verbs.Derive():
                return frame.with_columns(translated(value, columns).alias(name) for name, value in verb.values)
            case verbs.Sample():
                return frame.filter(hashed(pl.col(verb.key), verb.salt) < pl.lit(threshold(verb.percent), pl.UInt64))
            case verbs.MapBatches():
                return self._mapped(verb)
            case verbs.Sort():
                return self._sorted(verb.by)
            case verbs.Shuffle():
                drawn = frame.with_columns(hashed(pl.col(verb.key), str(verb.seed)).alias(_DRAWN))
                return Verbs(drawn, columns, {}, self._scratch, self._memory)._sorted([_DRAWN]).drop(_DRAWN)
            case verbs.Aggregate():
                return self._aggregated(verb)
            case verbs.Window():
                return self._by_bucket(verb.by, lambda rows: _window(rows, verb, columns))
            case verbs.Deduplicate():
                return self._by_bucket(verb.by, lambda rows: _deduplicated(rows, verb))
            case verbs.Join():
                return self._joined(verb)

    def _mapped(self, verb: verbs.MapBatches) -> Lazy:
        """The user's function on each batch."""
        given = types.arrow_schema(self._columns)

        def batches() -> Iterator[Batch]:
            for piece in pieces(self._frame):
                yield from piece.to_arrow().cast(given).combine_chunks().to_batches()

        return scan(lambda: mapped(verb, batches()), dict(verb.columns))

    def _sorted(self, by: Sequence[str]) -> Lazy:
        def in_order(frame: Frame) -> Frame:
            return frame.sort(by, nulls_last=True, maintain_order=True)

        rows, more = held(self._frame, self._memory)
        if more is None:
            return in_order(rows).lazy()
        runs = of_size(itertools.chain([rows], more), 2 * self._memory)
        return merged(map(in_order, runs), by, self._scratch)

    def _aggregated(self, verb: verbs.Aggregate) -> Lazy:
        columns = self._columns
        values = [translated(value, columns).alias(name) for name, value in verb.values]
        read = {*verb.by, *(name for _, value in verb.values for name in columns_of(value))}
        frame = self._frame.select([name for name in columns if name in read] or list(columns)[:1])
        if not verb.by:
            return together(pieces(frame), frame.collect_schema()).select(values).lazy()
        by = list(verb.by)
        keys = [without_sign(polars().col(name)).alias(name) for name in by if types.is_float(columns[name])]

        # Not streaming: that adds floats up in an order that differs from run to run.
        def of_groups(rows: Frame) -> Frame:
            found = rows.group_by(by, maintain_order=True).agg(values)
            return found.with_columns(keys).sort(by, nulls_last=True)

        return Verbs(frame, columns, {}, self._scratch, self._memory)._by_bucket(by, of_groups, order=by)

    def _joined(self, verb: verbs.Join) -> Lazy:
        frame, on, other = self._frame, list(verb.on), self._tables[verb.table]
        keeps_right = verb.how in ("inner", "left")
        order = {"maintain_order": "left_right"} if keeps_right else {}

        def joined(left: Frame, right: Frame) -> Frame:
            return left.join(right, on=on, how=verb.how, **order)

        right = scan(other.batches, other.columns)
        if not keeps_right:
            right = right.select(on)
        rows, more = held(right, self._memory)
        if more is None:
            schema = joined(polars().DataFrame(schema=frame.collect_schema()), rows.clear()).schema
            return lazy(lambda: (joined(piece, rows) for piece in of_size(pieces(frame), self._memory)), schema)
        rights = Buckets(self._scratch, itertools.chain([rows], more), right.collect_schema(), on, self._memory)
        numbered = frame.with_row_index(_ROW)
        lefts = Buckets(self._scratch, pieces(numbered), numbered.collect_schema(), on, self._memory)
        results = (joined(lefts.take(bucket), rights.take(bucket)) for bucket in range(BUCKETS))
        return in_places(results, _ROW, self._scratch, self._memory).drop(_ROW)

    def _by_bucket(
        self, by: Sequence[str], change: Callable[[Frame], Frame], *, order: Sequence[str] = (_ROW,)
    ) -> Lazy:
        """`change` of all rows, or of one bucket after the other. It gives rows sorted by `order`: their place, or the
        keys of an aggregation."""
        places = list(order) == [_ROW]
        frame = self._frame.with_row_index(_ROW) if places else self._frame
        rows, more = held(frame, self._memory)
        if more is None:
            found = change(rows).lazy()
        else:
            frames = itertools.chain([rows], more)
            buckets = Buckets(self._scratch, frames, frame.collect_schema(), by, self._memory)
            results = (change(buckets.take(bucket)) for bucket in range(BUCKETS))
            if places:
                found = in_places(results, _ROW, self._scratch, self._memory)
            else:
                found = merged(results, order, self._scratch)
        return found.drop(_ROW) if places else found


def _window(rows: Frame, verb: verbs.Window, columns: Columns) -> Frame:
    pl = polars()
    number = _over(pl.int_range(1, pl.len() + 1, dtype=pl.Int64), verb.by)
    ordered = rows.sort([*verb.order_by, _ROW], nulls_last=True).with_columns(number.alias(_NUMBER))
    made: list[Any] = []
    for name, call in verb.values:
        if call.operation.name == "rank":
            value = pl.col(_NUMBER).min().over([*verb.by, *verb.order_by])
        elif call.operation.name == "row_number":
            value = pl.col(_NUMBER)
        else:
            value = _over(translated(call, columns), verb.by)
        made.append(value.alias(name))
    return ordered.with_columns(made).sort(_ROW).drop(_NUMBER)


def _over(value: Any, by: Sequence[str]) -> Any:
    return value.over(list(by)) if by else value


def _deduplicated(rows: Frame, verb: verbs.Deduplicate) -> Frame:
    if not verb.order_by:
        return rows.unique(list(verb.by), keep="first", maintain_order=True)
    ordered = rows.sort([*verb.order_by, _ROW], nulls_last=True)
    return ordered.unique(list(verb.by), keep="first", maintain_order=True).sort(_ROW)
