"""What runs a transformation: one file or folder an engine, found by its name, held by the suite in
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
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.data.arrow import Batch, Schema
from drivetrain.data.transform.plan import Plan
from drivetrain.data.transform.types import type_of
from drivetrain.data.transform.verbs import Columns


@dataclass(frozen=True)
class Table:
    """Rows from somewhere: `batches` may be called again, and gives the same rows in the same order."""

    schema: Schema
    batches: Callable[[], Iterator[Batch]]

    @property
    def columns(self) -> Columns:
        return {field.name: type_of(field.type) for field in self.schema}


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a transformation is run."""

    scratch: Path
    """A folder for what does not fit in memory; the engine leaves nothing in it."""
    memory: int = 128 << 20
    """Bytes of rows that a verb which needs all of them (join, aggregate, window, deduplicate, sort) holds."""


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
