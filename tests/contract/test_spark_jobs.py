"""Jobs of Spark on this machine: the managed image's Processing job, and a cluster's program between other steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drivetrain import Cluster, Pipeline, step
from drivetrain.components.transform_data import transform_data
from drivetrain.data.manifest import Manifest
from drivetrain.data.transform.expressions import col, op
from drivetrain.data.transform.plan import Plan
from drivetrain.targets.local.options import Options
from drivetrain.targets.local.runner import Runner
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from tests.contract.step_types import _spark_program
from tests.fixtures.local_runs import LocalRuns

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_the_same_definition_makes_the_same_table_on_polars_and_in_the_spark_image(tmp_path: Path) -> None:
    """What would be deployed, on two hosts and with settings of its own: one content hash, whatever the engine."""
    rows = [{"id": n, "price": n % 7 / 4, "who": "abc"[n % 3]} for n in range(50)]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plan = Plan().filter(col("price") > 0).derive(side=op("bucket", "id", 5, "s")).sort("who", "price").to_json()
    polars = step(transform_data, name="polars", raw="raw", plan=plan)
    spark = step(
        transform_data,
        name="spark",
        raw="raw",
        plan=plan,
        engine="spark",
        spark_settings='{"spark.sql.shuffle.partitions": 3}',
        cluster=Cluster(count=2),
    )
    compiled = compile_pipeline(Pipeline(name="tables", steps=[polars, spark]), base=tmp_path, wheels_optional=True)
    runs = LocalRuns(tmp_path)
    summary = Runner(runs.home, lambda event: None).start(
        compiled.text, {}, Options(pipeline="tables"), assets=compiled.assets
    )
    assert summary.status == "Succeeded", summary.reason
    root = runs.home.objects / "drivetrain-local" / "pipelines" / "tables" / "steps"
    found = {name: Manifest.read(next((root / name).glob("*/output"))) for name in ("polars", "spark")}
    assert found["polars"].content_hash == found["spark"].content_hash
    assert found["polars"].engine.startswith("polars ") and found["spark"].engine.startswith("spark ")
    logs = {path.name: path.read_text() for path in runs.home.run(summary.execution).glob("spark*/**/*.log")}
    assert "rows in 1 file" in logs["127.0.0.1.log"] and "nothing to do" in logs["127.0.0.2.log"]


def test_a_step_after_a_cluster_reads_what_its_program_wrote(tmp_path: Path) -> None:
    runs = LocalRuns(tmp_path)
    words = ["spark-submit", "--conf", "spark.said=here", _spark_program.put(runs), *_spark_program.ARGUMENTS]
    jar = {"Jar": "command-runner.jar", "Args": words}
    crunch = {"Name": "crunch", "Type": "EMR", "Arguments": {"ClusterId": "j-1", "StepConfig": {"HadoopJarStep": jar}}}
    program = """
        from pathlib import Path
        files = sorted(path.name for path in Path("/opt/ml/processing/input/data").rglob("*"))
        (rows,) = [path.read_text() for path in Path("/opt/ml/processing/input/data").rglob("part-*.csv")]
        assert rows.split() == ["2", "42"], rows
        assert not [name for name in files if name.endswith(".crc")], files
    """
    read = runs.processing("read", program, inputs={"data": "s3://bucket/out/doubled/"}, DependsOn=["crunch"])
    summary = runs.start([crunch, read])
    assert summary.status == "Succeeded", summary.reason
