"""The version of data that lie elsewhere: of files in S3, Iceberg, Delta, a database.

    python -m drivetrain.components.source_version --source delta:lake/orders

A step that reads the table takes the version as a parameter, so that the cache knows it: the same version is a hit, a
new one is read. Where a schedule or an event starts the pipeline, such steps are there by themselves
(drivetrain/triggers/looking.py).

    found = step(source_version, source="delta:lake/orders")
    table = step(read_source, source="delta:lake/orders", version=found.version)
"""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from drivetrain.base.errors import InputError
from drivetrain.steps.declaration import component


class Found(TypedDict):
    """`version` names the table's rows: a version or snapshot number, a hash of entity tags, a watermark."""

    version: str


@component(cached=False, needs=("numpy", "pyarrow", "boto3"))
def source_version(source: str, query: str = "", watermark: str = "", of_input: bool = False) -> Found:
    """Find out which version of a table is the newest.

    Args:
        source: where the table is, as for read_source.
        query: what a database is asked.
        watermark: a column of the query whose values grow with each new row; only with one has a query a version.
        of_input: the source is the URI of a step's input, s3://bucket/prefix: all that it brings counts, tables or not.

    Raises:
        InputError: there is no such table, or it has no version.
    """
    if of_input:
        from drivetrain.data.prefix_listing import prefix_version

        version = prefix_version(source)
        print(f"version {version}", flush=True)
        return {"version": version}
    from drivetrain.data.reading import TableOptions
    from drivetrain.data.sources import Options, open_source

    table = TableOptions(key=None, label=None)
    given = Options(query=query, watermark=watermark, table=table, scratch=Path("unused"))
    version = str(open_source(source, given).identity["version"])
    if not version:
        raise InputError(
            f"{source}: a query without a watermark has no version. Name a column that grows with each new row "
            "(watermark=id), or read it without this step, each time anew."
        )
    print(f"version {version}", flush=True)
    return {"version": version}


if __name__ == "__main__":
    source_version.main()
