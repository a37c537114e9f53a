"""What steps with engine=spark compile to, run here: the managed image's Processing job, and a task of Kubeflow.

Programs of clusters: test_step_types.py.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Cluster, Pipeline, step
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.transform_data import transform_data
from drivetrain.data.manifest import Manifest
from drivetrain.data.transform.expressions import op
from drivetrain.data.transform.plan import Plan
from drivetrain.targets.kubeflow import target as kubeflow
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.fixtures.local_runs import LocalRuns

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_the_flagships_data_is_the_same_by_polars_in_the_spark_image_and_on_kubeflow(tmp_path: Path) -> None:
    """What would be deployed, on two hosts and with settings of its own: the tables have one content hash, and so have
    the sets that the flagship trains and evaluates with."""
    digits = Plan().derive(half=op("bucket", "id", 2, "s")).filter(op("equal", "half", 0)).sort("label", "id").to_json()
    settings: dict[str, Any] = {"engine": "spark", "spark_settings": '{"spark.sql.shuffle.partitions": 3}'}
    tables = {
        "polars": step(transform_data, name="polars", raw="example:digits", plan=digits),
        "spark": step(
            transform_data, name="spark", raw="example:digits", plan=digits, cluster=Cluster(count=2), **settings
        ),
    }
    sets = [
        step(prepare_data, name=f"{name}-sets", raw=table["output"], key="id", label="label", test_percent=20)
        for name, table in tables.items()
    ]
    pipeline = Pipeline(name="tables", steps=[*tables.values(), *sets])
    compiled = compile_pipeline(pipeline, here=True)
    runs = LocalRuns(tmp_path)
    summary = Runner(runs.home, lambda event: None).start(
        compiled.text, {}, Options(pipeline="tables"), assets=compiled.assets
    )
    assert summary.status == "Succeeded", summary.reason
    root = runs.home.objects / "drivetrain-local" / "pipelines" / "tables" / "steps"

    def made(name: str, output: str) -> Manifest:
        return Manifest.read(next((root / name).glob(f"*/{output}")))

    polars, spark = made("polars", "output"), made("spark", "output")
    assert polars.content_hash == spark.content_hash and polars.rows == spark.rows > 500
    assert polars.engine.startswith("polars ") and spark.engine.startswith("spark ")
    for output in ("train", "validation", "test"):
        assert made("polars-sets", output).content_hash == made("spark-sets", output).content_hash
    logs = {path.name: path.read_text() for path in runs.home.run(summary.execution).glob("spark/**/*.log")}
    assert "rows in 1 file" in logs["127.0.0.1.log"] and "nothing to do" in logs["127.0.0.2.log"]

    # kfp's runner has this machine's Python, and not the folder that this suite has PySpark in.
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None and pyspark.origin is not None
    there = step(
        transform_data,
        raw="example:digits",
        plan=digits,
        image="registry.example.com/drivetrain-spark:1",
        environment={"PYTHONPATH": str(Path(pyspark.origin).parents[1])},
        **settings,
    )
    task = kubeflow.compile(Pipeline(name="task", steps=[there]), here=True)
    ended = kubeflow.run(task, {}, tmp_path / "kubeflow", lambda event: None)
    assert ended.status == "Succeeded", ended.reason
    (found,) = [path.parent for path in (tmp_path / "kubeflow").rglob("manifest.json") if path.parent.name == "output"]
    assert Manifest.read(found).content_hash == polars.content_hash
