"""The Spark session of a transformation, and the folder that all its workers reach.

`spark-submit` says where Spark runs (on YARN in SageMaker's Spark image and on EMR); without it a session of our own
runs on all cores of this machine.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import required

# What the values depend on, which nobody may change.
_MEANING = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.caseSensitive": "true",
    # Statistics of Parquet files leave NaN out, and tell -0.0 from 0.0.
    "spark.sql.parquet.filterPushdown": "false",
    # It takes lower(upper("ß")), which is "ss", for lower("ß").
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.SimplifyCaseConversionExpressions",
    # Days before 1582-10-15 are those of the calendar of today, extended.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
_LOCAL = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
# spark-submit tells the program that it starts where its JVM listens.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


def session(settings: Mapping[str, str]) -> Any:
    """The pyspark.sql.SparkSession that there is, or a new one.

    Args:
        settings: Spark's own, by name; of a session that is there already only those count that it can still change.

    Raises:
        InputError: PySpark or Java is not there; a setting on which the values depend.
    """
    if fixed := sorted(settings.keys() & _MEANING.keys()):
        raise InputError(
            f"spark_settings: {fixed[0]} is {_MEANING[fixed[0]]}, since values depend on it. Leave it out."
        )
    sql = required("pyspark.sql", "spark", "engine=spark needs pyspark")
    found = sql.SparkSession.getActiveSession()
    if found is None:
        builder = sql.SparkSession.builder.appName("drivetrain transform_data")
        submitted = _SUBMITTED in os.environ
        if not submitted and shutil.which("java") is None:
            raise InputError("engine=spark needs Java 17 or newer: the command java is not found.")
        for name, value in {**({} if submitted else _LOCAL), **settings}.items():
            builder = builder.config(name, value)
        found = builder.getOrCreate()
        found.sparkContext.setLogLevel("OFF")
    for name, value in _MEANING.items():
        found.conf.set(name, value)
    return found


@dataclass(frozen=True)
class Exchange:
    """A folder of Parquet files for rows on their way into Spark and out of it.

    `folder` is on this machine. Where Spark's default file system is another one (HDFS, on several hosts), files go
    through a folder there, since workers on other hosts do not see this machine's disk.
    """

    folder: Path
    spark: Any
    shared: str | None = None
    """URI of the folder on Spark's file system; None where that is this machine's."""

    @classmethod
    def of(cls, spark: Any, folder: Path) -> Exchange:
        files = _file_system(spark)
        if files.getUri().getScheme() == "file":
            return cls(folder, spark)
        shared = f"{files.getHomeDirectory().toString().rstrip('/')}/drivetrain-{secrets.token_hex(8)}"
        return cls(folder, spark, shared)

    def read(self, name: str) -> Any:
        """The pyspark.sql.DataFrame of the Parquet files that were written into `folder / name`."""
        local = self.folder / name
        if self.shared is None:
            return self.spark.read.parquet(_uri(local))
        there = f"{self.shared}/{name}"
        files, path = _file_system(self.spark), self.spark._jvm.org.apache.hadoop.fs.Path
        for file in sorted(local.iterdir()):
            files.copyFromLocalFile(True, True, path(_uri(file)), path(f"{there}/{file.name}"))
        return self.spark.read.parquet(there)

    def write(self, data: Any, name: str) -> Iterator[Path]:
        """The Parquet files of a pyspark.sql.DataFrame, in their order; each counts until the next one is asked for."""
        local = self.folder / name
        if self.shared is None:
            data.write.parquet(_uri(local))
            yield from sorted(local.glob("part-*.parquet"))
            return
        there = f"{self.shared}/{name}"
        data.write.parquet(there)
        files, path = _file_system(self.spark), self.spark._jvm.org.apache.hadoop.fs.Path
        names = sorted(status.getPath().getName() for status in files.listStatus(path(there)))
        local.mkdir(parents=True)
        for part in (each for each in names if each.startswith("part-") and each.endswith(".parquet")):
            brought = local / part
            files.copyToLocalFile(False, path(f"{there}/{part}"), path(_uri(brought)), True)
            yield brought
            brought.unlink()

    def clear(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.shared is not None:
            _file_system(self.spark).delete(self.spark._jvm.org.apache.hadoop.fs.Path(self.shared), True)


def _uri(path: Path) -> str:
    """As Hadoop reads one: nothing is escaped."""
    return f"file://{path}"


def _file_system(spark: Any) -> Any:
    """The org.apache.hadoop.fs.FileSystem that a path without a scheme is on."""
    return spark._jvm.org.apache.hadoop.fs.FileSystem.get(spark._jsc.hadoopConfiguration())
