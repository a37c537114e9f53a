"""Copy one version of a table into Parquet files: files in S3, Iceberg, Delta, a query of a database.

    python -m drivetrain.components.read_source --source s3://bucket/orders --output build/orders
    python -m drivetrain.components.read_source --source sqlite:shop.db --query 'select * from orders' \\
        --watermark id --output build/orders --previous build/orders

The output is what prepare_data and transform_data take as raw, on either engine. With `previous` only the rows that are
new are read, and they come into files of their own, so that prepare_data's own increments read no others.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from drivetrain.base.errors import InputError, warn
from drivetrain.steps import Input, Output
from drivetrain.steps.declaration import component

if TYPE_CHECKING:
    from drivetrain.data.increments import Earlier, EarlierSet
    from drivetrain.data.sources import Opened

# Files on their way lie in the output, on whose disk there must be room anyhow.
_SCRATCH = ".drivetrain-source"


@component(needs=("numpy", "pyarrow", "boto3"))
def read_source(
    output: Output,
    previous: Input | None = None,
    *,
    source: str,
    version: str = "",
    query: str = "",
    watermark: str = "",
    schema: str | None = None,
    extra_columns: Literal["refuse", "keep", "drop"] = "keep",
    delimiter: str = ",",
    rows_per_file: int = 1_000_000,
    keep_versions: int = 1,
    cells_like_rows: Literal["refuse", "keep"] = "refuse",
) -> None:
    """Copy one version of a table into Parquet files with a manifest.

    The table of an earlier run is replaced when the new one is complete: a reader finds in the folder the earlier table
    or the new one, whole. The manifest's lineage says which version was read.

    Args:
        output: gets manifest.json, and part-00000.parquet, ... in a folder of this version.
        previous: the output of an earlier run: rows that it has are not read again. Where rows of it were changed or
            removed since, all are read, and the reason is printed.
        source: where the table is: s3://bucket/prefix, iceberg:CATALOG/NAMESPACE.TABLE, delta:PATH, sqlite:PATH or
            postgresql://user@host/database.
        version: the version to read, as source_version finds it; the newest unless given.
        query: what a database is asked.
        watermark: a column of the query whose values grow with each new row, such as an id. Rows that are changed in
            place are not read again; PostgreSQL tells that there are some, and a line says so.
        schema: types of columns of files, as for prepare_data.
        extra_columns: what to do with columns of files that the schema does not name.
        delimiter: what separates the cells of a CSV file; one character, or tab. Without one a .tsv has tabs.
        rows_per_file: rows of each Parquet file but the last.
        keep_versions: earlier versions of the table that stay in the folder when it is written again.
        cells_like_rows: whether a CSV file may have cells in quotes that look like rows, as for prepare_data.

    Raises:
        InputError: the table or a parameter is wrong. The output stays as it was.
    """
    from drivetrain.data.increments import NotUsableError, open_earlier
    from drivetrain.data.reading import TableOptions
    from drivetrain.data.source import CellError
    from drivetrain.data.sources import Options, open_source

    for name, value, least in (("rows_per_file", rows_per_file, 1), ("keep_versions", keep_versions, 0)):
        if value < least:
            raise InputError(f"{name} is {value}. Allowed: {least} and more.")
    table = TableOptions(
        key=None,
        label=None,
        schema=schema,
        extra_columns=extra_columns,
        delimiter=delimiter,
        cells_like_rows=cells_like_rows,
    )
    parameters = {"source": source, "query": query, "watermark": watermark, "schema": schema}
    scratch = output / _SCRATCH

    def opened(whole: bool, empty: Collection[str] = ()) -> Opened:
        given = Options(
            version=version, query=query, watermark=watermark, table=table, empty=empty, whole=whole, scratch=scratch
        )
        return open_source(source, given)

    def write(found: Opened, rows: Opened, earlier: EarlierSet | None = None) -> None:
        _write(output, found.identity, rows, parameters, rows_per_file, keep_versions, earlier)
        shutil.rmtree(scratch, ignore_errors=True)

    earlier: Earlier | None = None
    if previous is not None:
        try:
            earlier = open_earlier(previous, ("",), parameters)
        except NotUsableError as reason:
            warn(f"all is read anew: {reason}")
    found = opened(whole=False, empty=earlier.columns_without_values() if earlier else ())
    if earlier:
        try:
            known = earlier.sets[""].manifest.lineage["source"]
            write(found, found.added_since(known, earlier.arrow_schema()), earlier.sets[""])
            return
        except (NotUsableError, CellError) as reason:
            warn(f"all is read anew: {reason}")
    try:
        write(found, found)
    except CellError:
        again = opened(whole=True)
        write(again, again)


def _write(
    output: Path,
    identity: Mapping[str, Any],
    rows: Opened,
    parameters: Mapping[str, Any],
    rows_per_file: int,
    keep_versions: int,
    earlier: EarlierSet | None,
) -> None:
    """Write rows after those of an earlier run, and replace the table that readers find."""
    from drivetrain.data.arrow import arrow
    from drivetrain.data.increments import NotUsableError
    from drivetrain.data.shards import ShardWriter
    from drivetrain.data.version_folder import publish

    found = rows.schema
    if earlier and found != arrow().parquet.read_schema(earlier.files[0]):
        raise NotUsableError("its columns or their types are others now")
    writer = ShardWriter(output, found, key=None, label=None, rows_per_shard=rows_per_file)
    try:
        writer.start()
        writer.keep_state()
        if earlier:
            writer.continue_from(earlier)
        for batch in rows.batches():
            writer.append(batch)
        writer.finish()
        if not writer.rows:
            raise InputError(f"{parameters['source']} has no row.")
        lineage: dict[str, object] = {
            "source": {"address": parameters["source"], **identity, **rows.checks},
            "parameters": parameters,
            "sources": [],
            "parent": earlier.manifest.content_hash if earlier else None,
        }
        manifest = writer.stage(lineage)
        publish([writer], keep_versions)
    finally:
        writer.discard()
    read = manifest.rows - (earlier.manifest.rows if earlier else 0)
    name = f"version {identity['version']}" if identity["version"] else "no version"
    print(
        f"{name}: {manifest.rows:,} rows, {read:,} of them read now, content {manifest.content_hash[:12]}", flush=True
    )


if __name__ == "__main__":
    read_source.main()
