"""Spark: for tables beyond one machine. Rows keep an order by hidden columns, and are sorted by them at the end.

ANSI mode is on, so that what does not fit is an error, and the session's time zone is UTC. Rows go into Spark, and come
out of it, as Parquet files: in the scratch folder, or in one of Spark's own file system where that is another. Sums and
means of floats, and variances, may differ from other engines' in the last digits, since Spark adds up in no order; all
else is equal.
"""

from __future__ import annotations

import importlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Batch, arrow
from drivetrain.data.engines import Options, Table
from drivetrain.data.engines._told import told
from drivetrain.data.engines.spark.frames import Frame, read, written
from drivetrain.data.engines.spark.refusals import understood
from drivetrain.data.engines.spark.session import Exchange, session
from drivetrain.data.engines.spark.verbs import Verbs
from drivetrain.data.transform.plan import Plan

SUMMARY = "PySpark, for tables beyond one machine; locally on all cores"


def version() -> str:
    return f"spark {importlib.import_module('pyspark').__version__}"


def run(plan: Plan, table: Table, tables: Mapping[str, Table], options: Options) -> Iterator[Batch]:
    """See `drivetrain.data.engines`."""
    columns = {name: other.columns for name, other in tables.items()}
    plan.output(table.columns, columns)
    spark = session(options.spark_settings)
    exchange = Exchange.of(spark, Path(tempfile.mkdtemp(prefix="transform-", dir=options.scratch)))
    errors = importlib.import_module("pyspark.errors").PySparkException
    java_errors = importlib.import_module("py4j.protocol").Py4JJavaError
    try:
        joined = {
            name: written(exchange, other, f"table-{number}") for number, (name, other) in enumerate(tables.items())
        }
        frame: Frame = written(exchange, table, "rows")
        for number, verb in enumerate(plan.verbs):
            frame = Verbs(exchange, frame, joined, f"verb-{number}").applied(verb)
        yield from read(exchange, frame, "result")
    except (errors, java_errors, arrow().ArrowInvalid) as error:
        found = understood(str(error))
        said = told(found, plan, table.columns, columns) if found else _reason(error)
        raise InputError(f"the transformation failed: {said}.") from error
    finally:
        exchange.clear()


def _reason(error: Exception) -> str:
    """The first line of Spark's error that is a condition, without Java's trace."""
    text = str(error)
    found = re.search(r"\[[A-Z_.]+\][^\n]*", text)
    return (found[0] if found else text.strip().splitlines()[0])[:300].rstrip(".")
