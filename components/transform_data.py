"""Transform tables: select, filter, derive, join, aggregate, ... as a plan declares, into Parquet files.

    python -m drivetrain.components.transform_data --raw data/ --tables other/ --output build/table \\
        --plan '[{"filter": {"greater": ["price", 0]}}, {"derive": {"day": {"to_date": ["when"]}}}]'

The verbs and operations are those of drivetrain/data/transform; docs/data.md says how they are written. The output is
what prepare_data takes as raw.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from drivetrain.base.errors import InputError
from drivetrain.steps.contract import Input, Output
from drivetrain.steps.declaration import component

if TYPE_CHECKING:
    from drivetrain.data.arrow import Batch, Schema
    from drivetrain.data.engines import Table
    from drivetrain.data.reading import TableOptions


@component(needs=("polars>=2.1,<3", "pyarrow"))
def transform_data(
    raw: Input,
    output: Output,
    tables: Input | None = None,
    *,
    plan: str,
    schema: str | None = None,
    extra_columns: Literal["refuse", "keep", "drop"] = "keep",
    delimiter: str = ",",
    engine: str = "polars",
    memory_mib: int = 128,
    rows_per_file: int = 1_000_000,
) -> None:
    """Transform a table as a plan declares, into Parquet files.

    Args:
        raw: a folder of CSV, JSON Lines and Parquet files, or one such file: one table.
        output: gets part-00000.parquet, ...; those of an earlier run are replaced when all new ones are written.
        tables: what the plan joins with: each file or folder here is a table, called by its name without its ending.
        plan: a JSON list of verbs.
        schema: types of columns of raw, as for prepare_data.
        extra_columns: what to do with columns that the schema does not name.
        delimiter: what separates the cells of a CSV file; one character, or tab.
        engine: what runs the plan.
        memory_mib: MiB of rows that a join, an aggregation, a window, a deduplication or a sort holds; more go to disk.
        rows_per_file: rows of each Parquet file but the last.

    Raises:
        InputError: the plan, the data or a parameter is wrong. The output stays as it was.
    """
    from drivetrain.data import engines
    from drivetrain.data.arrow import arrow
    from drivetrain.data.reading import TableOptions
    from drivetrain.data.source import CellError
    from drivetrain.data.transform.plan import Plan
    from drivetrain.data.transform.types import arrow_type

    for name, value in (("memory_mib", memory_mib), ("rows_per_file", rows_per_file)):
        if value < 1:
            raise InputError(f"{name} is {value}. Allowed: 1 and more.")
    place = output.resolve()
    for name, folder in (("raw", raw), ("tables", tables)):
        taken = None if folder is None else (folder if folder.is_dir() else folder.parent).resolve()
        if taken is not None and (place.is_relative_to(taken) or taken.is_relative_to(place)):
            raise InputError(
                f"output: {output} and the folder of {name} are one, or one inside the other. Give another folder."
            )
    verbs, chosen = Plan.from_json(plan), engines.engine(engine)
    options = TableOptions(key=None, label=None, schema=schema, extra_columns=extra_columns, delimiter=delimiter)
    joined = TableOptions(key=None, label=None, delimiter=delimiter)

    def attempt(whole: bool) -> None:
        others = {path.name.partition(".")[0]: path for path in sorted(tables.iterdir())} if tables else {}
        given = {name: _table(path, joined, whole) for name, path in others.items()}
        table = _table(raw, options, whole)
        columns = verbs.output(table.columns, {name: other.columns for name, other in given.items()})
        found = arrow().schema([(name, arrow_type(kind)) for name, kind in columns.items()])
        with tempfile.TemporaryDirectory(prefix="drivetrain-transform-") as scratch:
            running = engines.Options(scratch=Path(scratch), memory=memory_mib << 20)
            _write(chosen.run(verbs, table, given, running), found, output, rows_per_file)

    try:
        attempt(whole=False)
    except CellError:
        attempt(whole=True)


def _table(path: Path, options: TableOptions, whole: bool) -> Table:
    from drivetrain.data.engines import Table
    from drivetrain.data.reading import open_table

    opened = open_table(path, options, whole=whole)
    return Table(opened.schema, lambda: (batch for _, _, batch in opened.batches()))


def _write(batches: Iterator[Batch], schema: Schema, output: Path, rows_per_file: int) -> None:
    """Write the rows beside those of an earlier run, and then in their place."""
    from drivetrain.data.shard_files import ShardFiles

    output.mkdir(parents=True, exist_ok=True)
    staging = output / ".drivetrain-new"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    files = ShardFiles(staging, schema, rows_per_file)
    try:
        for batch in batches:
            files.append(batch)
        files.finish()
        if not files.shards:
            raise InputError("no row is left: the plan filters all of them out, or the data has none.")
        for path in output.glob("part-*.parquet"):
            path.unlink()
        for shard in files.shards:
            (staging / shard.file).rename(output / shard.file)
    finally:
        files.close()
        shutil.rmtree(staging, ignore_errors=True)
    rows = sum(shard.rows for shard in files.shards)
    print(f"{rows:,} rows in {len(files.shards)} files", flush=True)


if __name__ == "__main__":
    transform_data.main()
