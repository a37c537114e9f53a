"""A program of Spark as people give it to a cluster: it reads one place of S3 and writes another."""

from __future__ import annotations

from tests.fixtures.local_runs import BUCKET, LocalRuns

# The two spellings that Spark's file systems have for S3.
ARGUMENTS = [f"{BUCKET}/in/", BUCKET.replace("s3://", "s3a://") + "/out/doubled"]
PROGRAM = """\
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
assert spark.conf.get("spark.said") == "here" and spark.sparkContext.master.startswith("local")
rows = spark.read.csv(sys.argv[1], header=True, inferSchema=True)
rows.selectExpr("2 * a as b").coalesce(1).write.mode("overwrite").csv(sys.argv[2])
"""


def put(runs: LocalRuns) -> str:
    """The program and what it reads; gives the program's URI."""
    runs.put("in/rows.csv", "a\n1\n21\n")
    return runs.put("code/double.py", PROGRAM)


def made(runs: LocalRuns) -> None:
    """What it wrote, as objects of the store, and nothing else that Hadoop would put beside them."""
    found = {each.name: each.path.read_text() for each in runs.store.find(f"{BUCKET}/out/doubled/")}
    (rows,) = [content for name, content in found.items() if name.startswith("part-")]
    assert rows.split() == ["2", "42"] and {name for name in found if "part-" not in name} == {"_SUCCESS"}
