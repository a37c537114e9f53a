"""Jobs that read what a manifest lists."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.run.jobs.job_data import training_channels
from tests.fixtures.local_runs import BUCKET, LocalRuns

PROCESSING_PROGRAM = """
    from pathlib import Path

    data = Path("/opt/ml/processing/input/data")
    found = sorted(str(path.relative_to(data)) for path in data.rglob("*") if path.is_file())
    assert found == ["a.csv", "deep/b.csv"], found
"""
TRAINING_PROGRAM = PROCESSING_PROGRAM.replace("/opt/ml/processing/input/data", "/opt/ml/input/data/data")


def listed(runs: LocalRuns, *names: str) -> str:
    runs.put("in/a.csv", "1\n")
    runs.put("in/deep/b.csv", "2\n")
    runs.put("in/not-listed.csv", "9\n")
    return runs.put("list.json", json.dumps([{"prefix": f"{BUCKET}/in/"}, *names]))


def of_manifest(step: dict[str, Any]) -> dict[str, Any]:
    arguments = step["Arguments"]
    for entry in [*arguments.get("ProcessingInputs", []), *arguments.get("InputDataConfig", [])]:
        if "data" in (entry.get("InputName"), entry.get("ChannelName")):
            source = entry["S3Input"] if "S3Input" in entry else entry["DataSource"]["S3DataSource"]
            source["S3DataType"] = "ManifestFile"
    return step


def test_jobs_read_what_a_manifest_lists_and_the_cache_looks_behind_it(runs: LocalRuns) -> None:
    inputs = {"data": listed(runs, "a.csv", "deep/b.csv")}
    steps = [
        of_manifest(runs.processing("prepare", PROCESSING_PROGRAM, inputs=inputs, cache=True)),
        of_manifest(runs.training("train", TRAINING_PROGRAM, inputs=inputs)),
    ]
    summary = runs.start(steps)
    assert summary.status == "Succeeded", summary.reason
    runs.start(steps[:1], explain_cache=True)
    assert runs.statuses() == {"prepare": "Cached"}
    assert not [event for event in runs.events if "input data: the bytes" in str(event)]
    runs.put("in/deep/b.csv", "changed")
    runs.start(steps[:1], explain_cache=True)
    assert [event for event in runs.events if "input data: the bytes" in str(event)]


@pytest.mark.parametrize(
    ("names", "message"), [(["gone.csv"], "in/gone.csv, and nothing is there"), ([], "list.json is not a manifest")]
)
def test_a_manifest_that_cannot_be_read_is_refused_before_the_start(
    runs: LocalRuns, names: list[str], message: str
) -> None:
    step = of_manifest(runs.processing("prepare", PROCESSING_PROGRAM, inputs={"data": listed(runs, *names)}))
    with pytest.raises(UserError, match=message):
        runs.start([step])


def test_an_augmented_manifest_says_that_pipe_mode_is_missing() -> None:
    source = {"S3DataSource": {"S3Uri": "s3://b/k", "S3DataType": "AugmentedManifestFile"}}
    channel = {"ChannelName": "c", "DataSource": source, "InputMode": "Pipe", "RecordWrapperType": "RecordIO"}
    with pytest.raises(UserError, match=r"in Pipe mode alone.*--stub"):
        training_channels({"InputDataConfig": [channel]})
