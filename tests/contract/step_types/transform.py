"""Transform: a model answers by its own code."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import BUCKET, LocalRuns

SAYS = ("TransformJobName", "TransformJobStatus", "TransformOutput.S3OutputPath", "ModelName")
CODE = """
def model_fn(model_dir):
    return str.upper
def transform_fn(model, body, content_type, accept):
    return model(body)
"""


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    runs.put("model/code/inference.py", CODE)
    data = {"S3DataSource": {"S3Uri": f"{BUCKET}/model/", "S3DataType": "S3Prefix", "CompressionType": "None"}}
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": runs.put("in/a.txt", "a")}}
    model = {"ExecutionRoleArn": "r", "PrimaryContainer": {"Image": "i", "ModelDataSource": data}}
    transform = {
        "ModelName": {"Get": "Steps.model.ModelName"},
        "TransformInput": {"DataSource": source, "ContentType": "text/plain"},
        "TransformOutput": {"S3OutputPath": f"{BUCKET}/out"},
        "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
    }
    return [
        {"Name": "model", "Type": "Model", "Arguments": model},
        {"Name": "it", "Type": "Transform", "Arguments": transform},
    ]


def refused(runs: LocalRuns) -> list[dict[str, Any]]:
    model, transform = steps(runs)
    model["Arguments"]["PrimaryContainer"] = {"Image": "i", "ModelDataUrl": runs.put("bare.tar.gz", "no archive")}
    model["Arguments"]["PrimaryContainer"]["Mode"] = "MultiModel"
    return [model, transform]
