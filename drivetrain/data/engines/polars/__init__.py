"""Polars: on this machine, streaming, with what does not fit in memory on the disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from drivetrain.base.errors import InputError, first_line
from drivetrain.data.arrow import Batch, arrow
from drivetrain.data.engines import Options, Table
from drivetrain.data.engines._told import told
from drivetrain.data.engines.polars.frames import pieces, polars, scan
from drivetrain.data.engines.polars.refusals import understood
from drivetrain.data.engines.polars.verbs import Verbs
from drivetrain.data.transform import types
from drivetrain.data.transform.plan import Plan

SUMMARY = "Polars on this machine, streaming, with bounded memory"


def version() -> str:
    return f"polars {polars().__version__}"


def run(plan: Plan, table: Table, tables: Mapping[str, Table], options: Options) -> Iterator[Batch]:
    """See `drivetrain.data.engines`."""
    pa, pl = arrow(), polars()
    joined = {name: other.columns for name, other in tables.items()}
    columns = table.columns
    schema = types.arrow_schema(plan.output(columns, joined))
    scratch = Path(tempfile.mkdtemp(prefix="transform-", dir=options.scratch))
    try:
        frame = scan(table.batches, columns)
        for verb in plan.verbs:
            frame = Verbs(frame, columns, tables, scratch, options.memory).applied(verb)
            columns = verb.output(columns, joined)
        for piece in pieces(frame):
            yield from piece.to_arrow().cast(schema).combine_chunks().to_batches()
    except (pl.exceptions.PolarsError, pa.ArrowInvalid) as error:
        said = first_line(error)
        if found := understood(said):
            said = told(found, plan, table.columns, joined)
        raise InputError(f"the transformation failed: {said}.") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
