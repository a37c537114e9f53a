"""The verbs on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from drivetrain.data.engines import mapped
from drivetrain.data.engines.spark.casting import casted
from drivetrain.data.engines.spark.expressions import hashed, translated
from drivetrain.data.engines.spark.frames import Column, Frame, fresh, functions, in_order, of_batches, read
from drivetrain.data.engines.spark.session import Exchange
from drivetrain.data.split import threshold
from drivetrain.data.transform import verbs
from drivetrain.data.transform.verbs import Columns


class Verbs:
    """The verbs on one frame; `tables` are what it may be joined with."""

    def __init__(self, exchange: Exchange, frame: Frame, tables: Mapping[str, Frame], place: str) -> None:
        self._exchange = exchange
        self._frame = frame
        self._tables = tables
        self._place = place

    def applied(self, verb: verbs.Verb) -> Frame:
        frame, tables = self._frame, {name: table.columns for name, table in self._tables.items()}
        columns = verb.output(frame.columns, tables)
        match verb:
            case verbs.Select():
                return replace(frame, names={name: frame.names[name] for name in columns}, columns=columns)
            case verbs.Rename():
                new = dict(verb.names)
                names = {new.get(name, name): place for name, place in frame.names.items()}
                return replace(frame, names=names, columns=columns)
            case verbs.Cast():
                made = {name: casted(frame.column(name), frame.columns[name], kind) for name, kind in verb.types}
                return self._with(made, columns)
            case verbs.Filter():
                return replace(frame, data=frame.data.filter(translated(verb.condition, frame)))
            case verbs.Derive():
                return self._with({name: translated(value, frame) for name, value in verb.values}, columns)
            case verbs.Sample():
                lowest = functions().lit(str(threshold(verb.percent))).cast("decimal(20, 0)")
                return replace(frame, data=frame.data.filter(hashed(frame.column(verb.key), verb.salt) < lowest))
            case verbs.MapBatches():
                return self._mapped(verb, columns)
            case verbs.Sort():
                return self._sorted({name: frame.column(name) for name in verb.by})
            case verbs.Shuffle():
                return self._sorted({"": hashed(frame.column(verb.key), str(verb.seed))})
            case verbs.Aggregate():
                return self._aggregated(verb, columns)
            case verbs.Window():
                made = {name: self._windowed(call, verb) for name, call in verb.values}
                return self._with(made, columns)
            case verbs.Deduplicate():
                return self._deduplicated(verb)
            case verbs.Join():
                return self._joined(verb, columns)

    def _with(self, made: Mapping[str, Column], columns: Columns) -> Frame:
        names = {name: fresh() for name in made}
        data = self._frame.data.withColumns({names[name]: value for name, value in made.items()})
        return replace(self._frame, data=data, names={**self._frame.names, **names}, columns=columns)

    def _mapped(self, verb: verbs.MapBatches, columns: Columns) -> Frame:
        """By this process, batch by batch: workers do not have the user's code, and batches come in order."""
        batches: Iterator[Any] = mapped(verb, read(self._exchange, self._frame, f"{self._place}-given"))
        return of_batches(self._exchange, batches, columns, f"{self._place}-made")

    def _sorted(self, by: Mapping[str, Column]) -> Frame:
        keys = {fresh("order"): column for column in by.values()}
        return replace(self._frame, data=self._frame.data.withColumns(keys), order=(*keys, *self._frame.order))

    def _aggregated(self, verb: verbs.Aggregate, columns: Columns) -> Frame:
        frame = self._frame
        names = {name: fresh() for name in columns}
        groups = [frame.column(name).alias(names[name]) for name in verb.by]
        values = [translated(call, frame).alias(names[name]) for name, call in verb.values]
        grouped = frame.data.groupBy(*groups)
        data = grouped.agg(*values) if values else frame.data.select(*groups).distinct()
        order = {names[name]: fresh("order") for name in verb.by}
        data = data.withColumns({key: data[name] for name, key in order.items()}) if order else data
        return Frame(data, names, columns, tuple(order.values()))

    def _windowed(self, call: Any, verb: verbs.Window) -> Column:
        sql, frame = functions(), self._frame
        window = _window(frame, verb.by)
        keys = [frame.column(name).asc_nulls_last() for name in verb.order_by]
        ordered = window.orderBy(*keys, *in_order(frame.order, frame.data))
        match call.operation.name:
            case "row_number":
                return sql.row_number().over(ordered).cast("bigint")
            case "rank":
                return sql.rank().over(window.orderBy(*keys)).cast("bigint")
            case "lag" | "lead" as name:
                value, count = call.arguments
                return getattr(sql, name)(translated(value, frame), count.value).over(ordered)
            case "cumulative_sum":
                return translated(call, frame, over=ordered.rowsBetween(-(1 << 63), 0))
            case _:
                return translated(call, frame, over=window)

    def _deduplicated(self, verb: verbs.Deduplicate) -> Frame:
        frame, number = self._frame, fresh("number")
        keys = [frame.column(name).asc_nulls_last() for name in verb.order_by]
        window = _window(frame, verb.by).orderBy(*keys, *in_order(frame.order, frame.data))
        data = frame.data.withColumn(number, functions().row_number().over(window))
        return replace(frame, data=data.filter(data[number] == 1).drop(number))

    def _joined(self, verb: verbs.Join, columns: Columns) -> Frame:
        left, right = self._frame, self._tables[verb.table]
        # Names of its own for each use of a table, which may be joined twice.
        again = {name: fresh() for name in right.data.columns}
        other = right.data.select(*(right.data[name].alias(new) for name, new in again.items()))
        names = {name: again[place] for name, place in right.names.items()}
        equal = [left.column(name) == other[names[name]] for name in verb.on]
        how = {"semi": "left_semi", "anti": "left_anti"}.get(verb.how, verb.how)
        data = left.data.join(other, on=equal, how=how)
        if verb.how in ("semi", "anti"):
            return replace(left, data=data)
        more = {name: names[name] for name in columns if name not in left.names}
        order = (*left.order, *(again[name] for name in right.order))
        return Frame(data, {**left.names, **more}, columns, order)


def _window(frame: Frame, by: Sequence[str]) -> Any:
    from importlib import import_module

    window = import_module("pyspark.sql.window").Window
    return window.partitionBy(*(frame.column(name) for name in by)) if by else window.partitionBy(functions().lit(1))
