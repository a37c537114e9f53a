"""Spark: for tables beyond one machine. Rows keep an order by hidden columns, and are sorted by them at the end.

ANSI mode is on, so that what does not fit is an error, and the session's time zone is UTC. Rows go into Spark, and come
out of it, as Parquet files in the scratch folder, which all its workers must reach. Sums and means of floats may differ
from other engines' in the last digits, since Spark adds up in no order; all else is equal.
"""

from __future__ import annotations

import importlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Batch, arrow
from drivetrain.data.engines import Options, Table
from drivetrain.data.engines.spark.frames import Frame, read, written
from drivetrain.data.engines.spark.verbs import Verbs
from drivetrain.data.transform.plan import Plan

SUMMARY = "PySpark, for tables beyond one machine; locally on all cores"

_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.caseSensitive": "true",
}
# Of a session that is made here; one that is there already (on EMR, or in a managed image) has its own.
_LOCAL_SETTINGS = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def version() -> str:
    return f"spark {importlib.import_module('pyspark').__version__}"


def run(plan: Plan, table: Table, tables: Mapping[str, Table], options: Options) -> Iterator[Batch]:
    """See `drivetrain.data.engines`."""
    plan.output(table.columns, {name: other.columns for name, other in tables.items()})
    spark = _session()
    scratch = Path(tempfile.mkdtemp(prefix="transform-", dir=options.scratch))
    errors = importlib.import_module("pyspark.errors").PySparkException
    java_errors = importlib.import_module("py4j.protocol").Py4JJavaError
    try:
        joined = {
            name: written(spark, other, scratch / f"table-{number}")
            for number, (name, other) in enumerate(tables.items())
        }
        frame: Frame = written(spark, table, scratch / "rows")
        for number, verb in enumerate(plan.verbs):
            frame = Verbs(spark, frame, joined, scratch / f"verb-{number}").applied(verb)
        yield from read(frame, scratch / "result")
    except (errors, java_errors, arrow().ArrowInvalid) as error:
        raise InputError(f"the transformation failed: {_reason(error)}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _session() -> Any:
    """The session that there is, or a local one.

    Raises:
        InputError: PySpark or Java is not there.
    """
    try:
        sql = importlib.import_module("pyspark.sql")
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise InputError("engine=spark needs pyspark: python -m pip install 'drivetrain[spark]'.") from None
    session = sql.SparkSession.getActiveSession()
    if session is None:
        if shutil.which("java") is None:
            raise InputError("engine=spark needs Java 17 or newer: the command java is not found.")
        builder = sql.SparkSession.builder.appName("drivetrain transform_data")
        for name, value in _LOCAL_SETTINGS.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session


def _reason(error: Exception) -> str:
    """What Spark says in its first line that is a condition, without the trace of Java."""
    text = str(error)
    found = re.search(r"\[[A-Z_.]+\][^\n]*", text)
    return (found[0] if found else text.strip().splitlines()[0])[:300]
