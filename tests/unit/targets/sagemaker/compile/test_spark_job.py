"""Jobs in SageMaker's Spark image."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Cluster, Deployment, Parameter, Pipeline, SpecError, UserError, script, step
from drivetrain.assets.image import runs_on_spark
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.transform_data import transform_data
from drivetrain.targets.sagemaker.compile import unsupported
from drivetrain.targets.sagemaker.compile.compile import Compiled, compile_pipeline
from drivetrain.targets.sagemaker.compile.spark_job import spark_image, submit
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from drivetrain.targets.sagemaker.run.spark import here
from tests.fixtures.local_runs import LocalRuns

IMAGE = "571004829621.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-spark-processing:3.5-cpu-py312-v1.3"
REGION = Deployment(targets={"sagemaker": {"region": "eu-west-1"}})


def compiled(*steps: Any, deployment: Deployment = REGION, **given: Any) -> Compiled:
    return compile_pipeline(Pipeline(name="p", steps=steps, deployment=deployment), here=True, **given)


def table(**given: Any) -> Any:
    return step(transform_data, **{"raw": "s3://b/r", "plan": "[]", "engine": "spark", **given})


def arguments(made: Compiled) -> dict[str, Any]:
    (built,) = made.definition["Steps"]
    return built["Arguments"]


def test_a_step_on_spark_is_submitted_in_the_managed_image_on_all_hosts() -> None:
    made = compiled(table(cluster=Cluster(count=3)))
    found = arguments(made)
    app = found["AppSpecification"]
    assert app["ImageUri"] == IMAGE == spark_image("eu-west-1").uri
    assert found["ProcessingResources"]["ClusterConfig"]["InstanceCount"] == 3
    assert app["ContainerEntrypoint"][-2:] == ["smspark-submit", "/opt/ml/processing/input/code/start.py"]
    assert app["ContainerArguments"][0] == "--code"
    assert app["ContainerArguments"][2] == "drivetrain.components.transform_data:transform_data"
    assert max(map(len, (*app["ContainerEntrypoint"], *app["ContainerArguments"]))) <= 256
    assert [each["InputName"] for each in found["ProcessingInputs"]] == ["raw", "code"]
    # pyarrow is what the image lacks, and this Python's wheel does not fit it.
    assert any("'pyarrow' is not in the image sagemaker-spark-processing" in note for note in made.notes)
    with pytest.raises(UserError, match=r"pip download .*--python-version 3\.12 "):
        compile_pipeline(made.pipeline)


def test_settings_of_spark_travel_as_configuration_json() -> None:
    made = compiled(table(spark_settings='{"spark.executor.memory": "8g", "spark.executor.cores": 4}'))
    uri = arguments(made)["ProcessingInputs"][1]["S3Input"]["S3Uri"]
    assert arguments(made)["ProcessingInputs"][1]["S3Input"]["LocalPath"] == "/opt/ml/processing/input/conf"
    (asset,) = [each for each in made.assets if each.uri == f"{uri}configuration.json"]
    properties = {"spark.executor.cores": "4", "spark.executor.memory": "8g"}
    assert isinstance(asset.content, bytes)
    assert json.loads(asset.content) == [{"Classification": "spark-defaults", "Properties": properties}]
    for wrong, says in {
        "{": "is not JSON",
        "[1]": "a JSON object",
        '{"executor": 1}': "'executor': 1. Allowed",
        '{"spark.x": {"y": 1}}': "Allowed: a JSON object of names",
        '{"spark.x": "a\\nspark.master yarn"}': "no line can hold",
    }.items():
        with pytest.raises(SpecError, match=rf"'transform-data': spark_settings.*{says}"):
            compiled(table(spark_settings=wrong))


def test_a_program_that_needs_pyspark_is_submitted_too_and_in_an_image_of_ones_own_it_is_started() -> None:
    own = script("job.py", needs=["pyspark>=3.5,<4"], outputs=["out"])
    assert arguments(compiled(own))["AppSpecification"]["ContainerEntrypoint"][7] == "smspark-submit"
    with pytest.raises(SpecError, match=r"'job' needs pyspark>=4, and SageMaker's newest Spark image has 3\.5\.0"):
        compiled(script("job.py", needs=["pyspark>=4"]))
    image = "1.dkr.ecr.eu-west-1.amazonaws.com/spark:1"
    app = arguments(compile_pipeline(Pipeline(name="p", steps=[table(image=image)])))["AppSpecification"]
    assert app["ImageUri"] == image and "smspark-submit" not in app["ContainerEntrypoint"]
    newer = IMAGE.replace("v1.3", "v1.9")
    app = arguments(compile_pipeline(Pipeline(name="p", steps=[table(image=newer)])))["AppSpecification"]
    assert app["ImageUri"] == newer and app["ContainerEntrypoint"][7] == "smspark-submit"
    assert not runs_on_spark(table(engine="polars")) and not runs_on_spark(script("job.py", needs=["pyspark-extra"]))


def test_a_missing_spark_image_is_reported() -> None:
    with pytest.raises(SpecError, match=r"'transform-data': No Spark image is documented for region 'eu-west-9'"):
        compiled(table(), deployment=Deployment(targets={"sagemaker": {"region": "eu-west-9"}}))
    with pytest.raises(SpecError, match=r"'transform-data': 'ml.m7g.large' has an ARM processor"):
        compiled(table(cluster=Cluster(instance_type="ml.m7g.large")))
    china = spark_image("cn-north-1").uri
    assert china.startswith("671472414489.dkr.ecr.cn-north-1.amazonaws.com.cn/sagemaker-spark-processing:")


def test_the_entry_point_starts_spark_where_the_start_file_is_the_one_that_was_deployed(tmp_path: Path) -> None:
    import hashlib

    (tmp_path / "start.py").write_text("print('deployed')\n")
    says = tmp_path / "smspark-submit"
    says.write_text('#!/bin/sh\necho "submitted $@"\n')
    says.chmod(0o755)

    def run() -> subprocess.CompletedProcess[str]:
        command = [*submit(str(tmp_path), sha256), "--code", "with a blank"]
        environment = {"PATH": f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin"}
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    sha256 = hashlib.sha256((tmp_path / "start.py").read_bytes()).hexdigest()
    assert run().stdout == f"submitted {tmp_path}/start.py --code with a blank\n"
    (tmp_path / "start.py").write_text("print('another')\n")
    done = run()
    assert done.returncode == 1 and "is not the file that was deployed" in done.stderr and not done.stdout


@pytest.mark.parametrize(
    ("made", "instead"),
    [
        (lambda count: table(engine="polars", cluster=count), "Give engine=spark, or 1 and a larger machine"),
        (lambda count: step(prepare_data, raw="s3://b/r", key="id", cluster=count), "Give 1 and a larger machine"),
    ],
)
def test_several_hosts_that_would_repeat_the_work_are_refused(made: Any, instead: str) -> None:
    hosts = Parameter.integer("Hosts", default=1)

    def problems(one: Any) -> list[str]:
        found = unsupported(Pipeline(name="p", steps=[one], parameters=[hosts]))
        return [f"{each.step} {each.field} {each.reason}" for each in found]

    for count, said in ((2, "2"), (hosts.ref(), "Parameter 'Hosts', which may be more than 1")):
        (problem,) = problems(made(Cluster(count=count)))
        assert f"cluster.count is {said}, and its program works on one host" in problem
        assert problem.endswith(f"{instead}.")
    for allowed in (
        made(Cluster(count=1)),
        script("own.py", cluster=Cluster(count=2)),
        table(cluster=Cluster(count=2)),
    ):
        assert problems(allowed) == []


def test_where_a_parameter_chooses_the_engine_the_image_has_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Parameter.string("Engine", default="polars")
    given = table(engine=engine, raw="example:digits", plan='[{"select": ["id"]}]', cluster=Cluster(count=2))
    made = compile_pipeline(Pipeline(name="p", steps=[given], parameters=[engine], deployment=REGION), here=True)
    app = arguments(made)["AppSpecification"]
    assert app["ImageUri"] == IMAGE and "smspark-submit" in app["ContainerEntrypoint"]

    # On this machine, Java is asked for by those alone who choose Spark.
    monkeypatch.setattr(here, "home", lambda: None)
    runs = LocalRuns(tmp_path)
    runner = Runner(runs.home, lambda event: None)
    with pytest.raises(UserError, match=r"step 'transform-data' runs on Spark, which needs .*PySpark"):
        runner.start(made.text, {"Engine": "spark"}, Options(pipeline="p"), assets=made.assets)
    summary = runner.start(made.text, {}, Options(pipeline="p"), assets=made.assets)
    assert summary.status == "Succeeded", summary.reason
    (second,) = runs.home.run(summary.execution).glob("**/127.0.0.2.log")
    assert "nothing to do" in second.read_text()
