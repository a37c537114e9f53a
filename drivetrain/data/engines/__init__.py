"""Engines that run a transformation: one file or folder an engine, found by its name, held by the suite in
tests/contract/engines.

An engine has

    SUMMARY = "..."                       one line for people
    def version() -> str                  what a manifest says of it, such as "polars 2.1.0"
    def run(plan, table, tables, options) -> Iterator[Batch]

`run` applies the verbs of a plan and gives Arrow batches of the columns that `plan.output` promises, with their types.
What the verbs and operations mean stands in drivetrain/data/transform; engines agree value by value and in the order of
the rows. An error in the data is one InputError.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.data.arrow import Batch, Schema, arrow
from drivetrain.data.transform.plan import Plan
from drivetrain.data.transform.types import arrow_schema, type_of
from drivetrain.data.transform.verbs import Columns, MapBatches


@dataclass(frozen=True)
class Table:
    """Rows from somewhere: `batches` may be called again, and gives the same rows in the same order."""

    schema: Schema
    batches: Callable[[], Iterator[Batch]]

    @property
    def columns(self) -> Columns:
        return {field.name: type_of(field.type, field.name) for field in self.schema}


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a transformation is run."""

    scratch: Path
    """A folder for what does not fit in memory; the engine leaves nothing in it."""
    memory: int = 128 << 20
    """Bytes of rows that a verb which needs all of them (join, aggregate, window, deduplicate, sort) holds."""
    spark_settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings of Spark's session, by their names there."""


class Engine(Protocol):
    SUMMARY: str

    @staticmethod
    def version() -> str: ...

    @staticmethod
    def run(plan: Plan, table: Table, tables: Mapping[str, Table], options: Options) -> Iterator[Batch]: ...


def names() -> tuple[str, ...]:
    """The engines that there are."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.iterdir() if not path.stem.startswith("_")))


def engine(name: str) -> Engine:
    """
    Raises:
        InputError: there is no engine of this name.
    """
    if name not in names():
        raise InputError(f"there is no engine {name!r}. {did_you_mean(name, names())}")
    return cast("Engine", importlib.import_module(f"drivetrain.data.engines.{name}"))


def mapped(verb: MapBatches, batches: Iterator[Batch]) -> Iterator[Batch]:
    """A user's function on each batch; what it gives is held against the columns that were promised.

    Raises:
        InputError: it is not there, or gives something else.
    """
    pa = arrow()
    name, function = _function(verb.function)
    schema = arrow_schema(dict(verb.columns))
    for batch in batches:
        made = function(batch)
        if not isinstance(made, pa.RecordBatch) or made.schema.names != schema.names:
            found = made.schema.names if isinstance(made, pa.RecordBatch) else f"a {type(made).__name__}"
            raise InputError(
                f"map_batches: {name} gave {found}. It must give a pyarrow.RecordBatch of the columns {schema.names}."
            )
        yield made.cast(schema)


def _function(given: Callable[[Any], Any] | str) -> tuple[str, Callable[[Any], Any]]:
    """A user's function with its name for messages."""
    if not isinstance(given, str):
        return getattr(given, "__qualname__", repr(given)), given
    module, colon, name = given.partition(":")
    try:
        found = getattr(importlib.import_module(module), name) if colon else None
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"map_batches: {given!r} is not found ({error}). Give it as package.module:name.") from None
    if not callable(found):
        raise InputError(f"map_batches: {given!r} is no function. Give one as package.module:name.")
    return given, found
