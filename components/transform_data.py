"""Transform tables: select, filter, derive, join, aggregate, ... as a plan declares, into Parquet files.

    python -m drivetrain.components.transform_data --raw data/ --tables other/ --output build/table \\
        --plan '[{"filter": {"greater": ["price", 0]}}, {"derive": {"day": {"to_date": ["when"]}}}]'

The verbs and operations are those of drivetrain/data/transform; docs/data.md says how they are written. The output is
what prepare_data takes as raw.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from drivetrain.base.errors import InputError
from drivetrain.steps import Input, Output
from drivetrain.steps.declaration import component

if TYPE_CHECKING:
    from drivetrain.data.engines import Table
    from drivetrain.data.reading import TableOptions


@component(needs=("numpy", "polars>=2.1,<3", "pyarrow"))
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
    spark_settings: str | None = None,
    memory_mib: int = 128,
    rows_per_file: int = 1_000_000,
    keep_versions: int = 1,
    cells_like_rows: Literal["refuse", "keep"] = "refuse",
) -> None:
    """Transform a table as a plan declares, into Parquet files with a manifest.

    The table of an earlier run is replaced when the new one is complete: a reader finds in the folder the earlier table
    or the new one, whole. The disk needs room for both.

    Args:
        raw: a folder of CSV, JSON Lines, Parquet and Arrow files, or one such file: one table.
        output: gets manifest.json, and part-00000.parquet, ... in a folder of this version.
        tables: what the plan joins with: each file or folder here is a table, called by its name without its ending.
        plan: a JSON list of verbs.
        schema: types of columns of raw, as for prepare_data.
        extra_columns: what to do with columns that the schema does not name.
        delimiter: what separates the cells of a CSV file; one character, or tab. Without one a .tsv has tabs.
        engine: what runs the plan: polars, or spark (needs drivetrain[spark] and Java 17).
        spark_settings: a JSON object of Spark's own settings, such as {"spark.executor.memory": "8g"}.
        memory_mib: MiB of rows that a join, an aggregation, a window, a deduplication or a sort holds; more go to disk.
        rows_per_file: rows of each Parquet file but the last.
        keep_versions: earlier versions of the table that stay in the folder when it is written again.
        cells_like_rows: whether a CSV file may have cells in quotes that look like rows, as for prepare_data.

    Raises:
        InputError: the plan, the data or a parameter is wrong. The output stays as it was.
    """
    from drivetrain.data import engines
    from drivetrain.data.increments import fingerprint
    from drivetrain.data.reading import TableOptions
    from drivetrain.data.shards import ShardWriter
    from drivetrain.data.source import CellError, find_sources
    from drivetrain.data.spark_settings import read_settings
    from drivetrain.data.transform.plan import Plan
    from drivetrain.data.transform.types import arrow_schema
    from drivetrain.data.version_folder import publish

    for name, value, least in (
        *(("memory_mib", memory_mib, 1), ("rows_per_file", rows_per_file, 1)),
        ("keep_versions", keep_versions, 0),
    ):
        if value < least:
            raise InputError(f"{name} is {value}. Allowed: {least} and more.")
    place = output.resolve()
    for name, folder in (("raw", raw), ("tables", tables)):
        taken = None if folder is None else (folder if folder.is_dir() else folder.parent).resolve()
        if taken is not None and (place.is_relative_to(taken) or taken.is_relative_to(place)):
            raise InputError(
                f"output: {output} and the folder of {name} are one, or one inside the other. Give another folder."
            )
    verbs, chosen = Plan.from_json(plan), engines.engine(engine)
    settings = read_settings(spark_settings)
    joined = TableOptions(key=None, label=None, delimiter=delimiter, cells_like_rows=cells_like_rows)
    options = replace(joined, schema=schema, extra_columns=extra_columns)

    def attempt(whole: bool) -> None:
        others = _named(tables) if tables else {}
        given = {name: _table(path, joined, whole) for name, path in others.items()}
        table = _table(raw, options, whole)
        columns = verbs.output(table.columns, {name: other.columns for name, other in given.items()})
        found = arrow_schema(columns)
        writer = ShardWriter(output, found, key=None, label=None, rows_per_shard=rows_per_file)
        try:
            writer.start()
            with tempfile.TemporaryDirectory(prefix="drivetrain-transform-") as scratch:
                running = engines.Options(scratch=Path(scratch), memory=memory_mib << 20, spark_settings=settings)
                for batch in chosen.run(verbs, table, given, running):
                    writer.append(batch)
            writer.finish()
            if not writer.rows:
                raise InputError("no row is left: the plan filters all of them out, or the data has none.")
            read = {name: [fingerprint(source) for source in find_sources(path)] for name, path in others.items()}
            lineage = {
                "plan": json.loads(plan),
                "sources": [fingerprint(source) for source in find_sources(raw)],
                "tables": read,
            }
            manifest = writer.stage(lineage, engine=chosen.version())
            publish([writer], keep_versions)
        finally:
            writer.discard()
        files = "1 file" if len(manifest.shards) == 1 else f"{len(manifest.shards)} files"
        print(f"{manifest.rows:,} rows in {files}, content {manifest.content_hash[:12]}", flush=True)

    try:
        attempt(whole=False)
    except CellError:
        attempt(whole=True)


def _named(tables: Path) -> dict[str, Path]:
    """The files and folders that are tables, by their names in a plan.

    Raises:
        InputError: it is a file, or two tables have one name.
    """
    from drivetrain.data.source import is_passed_over

    if not tables.is_dir():
        raise InputError(f"tables is {tables}, a file. Give the folder that it lies in: its name is the table's.")
    found: dict[str, Path] = {}
    for path in sorted(path for path in tables.iterdir() if not is_passed_over(path.name)):
        name = path.name.partition(".")[0]
        if name in found:
            raise InputError(
                f"tables: {found[name].name} and {path.name} are both called {name!r}. Rename one; parts of one table "
                f"go into a folder {name}/."
            )
        found[name] = path
    return found


def _table(path: Path, options: TableOptions, whole: bool) -> Table:
    from drivetrain.data.engines import Table
    from drivetrain.data.reading import open_table

    opened = open_table(path, options, whole=whole)
    return Table(opened.schema, lambda: (batch for _, _, batch in opened.batches()))


if __name__ == "__main__":
    transform_data.main()
