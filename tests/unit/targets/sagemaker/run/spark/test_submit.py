"""What stands for smspark-submit and for a cluster's spark-submit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store.objects import ObjectStore
from drivetrain.targets.sagemaker.run.spark import clusters, here, submit
from tests.fixtures.local_runs import LocalRuns


def ran(folder: Path, *arguments: str, host: str = "algo-1") -> subprocess.CompletedProcess[str]:
    """The program with a spark-submit that says its arguments, one a line."""
    (folder / "bin").mkdir(exist_ok=True)
    says = folder / "bin" / "spark-submit"
    says.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    says.chmod(0o755)
    (folder / "config").mkdir(exist_ok=True)
    hosts = {"current_host": host, "hosts": ["algo-2", "algo-1"]}
    (folder / "config" / "resourceconfig.json").write_text(json.dumps(hosts))
    environment = {"PATH": os.environ["PATH"], "SPARK_HOME": str(folder), "SAGEMAKER_BASE_DIR": str(folder)}
    command = [sys.executable, "-I", str(here.PROGRAM), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_the_job_runs_on_this_machine_with_its_files_and_settings(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    for name in ("b.jar", "a.jar"):
        (tmp_path / "jars" / name).touch()
    app = tmp_path / "app.py"
    app.touch()
    conf = tmp_path / "processing" / "input" / "conf"
    conf.mkdir(parents=True)
    settings = {"spark.executor.memory": "8g", "spark.master": "yarn"}
    told = [{"Classification": "spark-defaults", "Properties": settings}, {"Classification": "yarn-site"}]
    (conf / "configuration.json").write_text(json.dumps(told))
    events = tmp_path / "events"
    given = ("--jars", f"{tmp_path}/jars", "--local-spark-event-logs-dir", str(events), "--master=yarn", "-v")
    done = ran(tmp_path, *given, "--conf", "spark.x=a=b", str(app), "--plan", '[{"x": 1}]', "--master", "mine")
    assert done.returncode == 0, done.stderr
    note, *words = done.stdout.splitlines()
    assert note == "note: there is no cluster here, so these are not used: yarn-site"
    assert words[:2] == ["--master", "local[*]"] and words.count("yarn") == 0
    assert words[-5:] == [str(app), "--plan", '[{"x": 1}]', "--master", "mine"]
    for wanted in ("spark.executor.memory=8g", "spark.x=a=b", f"spark.eventLog.dir=file://{events}"):
        assert wanted in words
    assert f"{tmp_path}/jars/a.jar,{tmp_path}/jars/b.jar" in words and "--verbose" not in words and "-v" in words
    assert events.is_dir()


def test_other_hosts_leave_the_program_to_the_first(tmp_path: Path) -> None:
    done = ran(tmp_path, "/missing.py", host="algo-2")
    assert done.returncode == 0 and "nothing to do" in done.stdout


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--jars"], "--jars has no value"),
        ([], "no program"),
        (["/missing.py"], "the program /missing.py is not there"),
        (["--py-files", "/missing.zip", "/missing.py"], "--py-files: /missing.zip is not there"),
    ],
)
def test_unsubmittable_jobs_give_one_error(given: list[str], says: str) -> None:
    with pytest.raises(submit.SubmitError, match=re.escape(says)):
        submit.command_of(given, {})


def test_settings_that_are_no_classifications_are_one_error(tmp_path: Path) -> None:
    path = tmp_path / "configuration.json"
    for wrong in ("{", "[1]", '{"spark.x": 1}'):
        path.write_text(wrong)
        with pytest.raises(submit.SubmitError, match="Classification and Properties"):
            submit.configured(str(path))
    path.write_text('{"Classification": "spark-defaults", "Properties": {"spark.x": 1}}')
    assert submit.configured(str(path)) == {"spark.x": "1"}


def test_buckets_are_folders_of_the_store_and_local_data_lies_where_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    store = ObjectStore(tmp_path / "s3", {"s3://mine/raw": str(tmp_path / "raw")})
    store.put("s3://made/by/x", b"")
    found = here.store_settings(store, ["asked"])
    table = "spark.hadoop.fs.viewfs.mounttable"
    assert found[f"{table}.made.linkFallback"] == f"raw://{tmp_path}/s3/made"
    assert found[f"{table}.asked.linkFallback"] == f"raw://{tmp_path}/s3/asked"
    assert found[f"{table}.mine.link./raw"] == f"raw://{tmp_path}/raw"


def emr(*words: Any, jar: str = "command-runner.jar") -> dict[str, Any]:
    return {"StepConfig": {"HadoopJarStep": {"Jar": jar, "Args": list(words)}}}


def test_a_clusters_program_is_read_with_what_it_reads_and_writes() -> None:
    words = ("spark-submit", "--py-files", "s3a://c/a.zip,s3://c/b.zip", "--master=yarn", "s3n://c/job.py")
    found = clusters.of_emr(emr(*words, "--to=s3://c/out", {"Get": "Parameters.X"}))
    assert found.program == "s3://c/job.py" and found.options == words[1:4]
    assert found.uris == ["s3://c/job.py", "s3://c/a.zip", "s3://c/b.zip", "s3://c/out"]
    later = clusters.of_emr(emr("spark-submit", {"Get": "Parameters.Program"}, "a"))
    assert later.program is None and later.arguments == ("a",)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (emr("--out", jar="s3://b/a.jar"), "runs 'a.jar --out'"),
        (emr("hive-script"), "runs 'command-runner.jar hive-script'"),
        (emr("spark-submit", "--class", "a.B", "s3://b/a.jar"), "a class of Java"),
        (emr("spark-submit", "/home/hadoop/job.py"), "the program '/home/hadoop/job.py': Python files of S3"),
        ({}, "runs 'nothing'"),
    ],
)
def test_cluster_only_features_are_refused_with_the_reason(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(clusters.NotHereError, match=re.escape(says)):
        clusters.of_emr(arguments)


def test_java_and_pyspark_are_asked_for_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = LocalRuns(tmp_path)
    job = runs.processing("table", "")
    entry = job["Arguments"]["AppSpecification"]["ContainerEntrypoint"]
    job["Arguments"]["AppSpecification"]["ContainerEntrypoint"] = ["smspark-submit", *entry[1:]]
    step = {"Name": "crunch", "Type": "EMR", "Arguments": emr("spark-submit", runs.put("code/job.py", ""))}
    monkeypatch.setattr(here.shutil, "which", lambda command: None)
    monkeypatch.setattr(here, "home", lambda: None)
    with pytest.raises(UserError) as caught:
        runs.start([job, step])
    lines = str(caught.value).splitlines()
    assert [line.partition(" runs on Spark")[0] for line in lines] == ["step 'table'", "step 'crunch'"]
    for line in lines:
        assert "Java 17" in line and "drivetrain[spark]" in line and "engine=polars" in line and "--stub" in line
    assert not runs.home.ledger.exists()


def test_a_program_that_is_nowhere_is_refused_and_what_it_writes_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(here, "problem", lambda step: None)
    runs = LocalRuns(tmp_path)
    step = {
        "Name": "crunch",
        "Type": "EMR",
        "Arguments": emr("spark-submit", "s3://bucket/job.py", "s3a://bucket/out/"),
    }
    reader = runs.processing("reader", "", inputs={"data": "s3://bucket/out/"})
    with pytest.raises(UserError) as caught:
        runs.start([step, reader])
    assert str(caught.value).startswith("step 'crunch': its program reads s3://bucket/job.py, and nothing is there")
    assert "--data s3://bucket/job.py=LOCAL_PATH" in str(caught.value) and "reader" not in str(caught.value)


def test_options_that_are_no_words_are_one_error_by_step(tmp_path: Path) -> None:
    submitted = {"entryPoint": "s3://b/job.py", "sparkSubmitParameters": "--conf 'spark.x=1"}
    arguments = {"ApplicationId": "a", "ExecutionRoleArn": "r", "JobConfig": {"jobDriver": {"sparkSubmit": submitted}}}
    with pytest.raises(UserError, match=r"^step 'it': sparkSubmitParameters .* are no words of a shell: No closing"):
        LocalRuns(tmp_path).start([{"Name": "it", "Type": "EMRServerless", "Arguments": arguments}])
