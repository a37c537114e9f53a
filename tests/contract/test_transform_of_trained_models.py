"""A Transform step on this machine serves a model of our own training by the code in its archive: the answers are those
of the training's own model, joined to the ids that the model never saw."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from drivetrain.training.config import Config, Folders
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.process import Process
from drivetrain.training.torch.models.loaded_model import load_model
from drivetrain.training_scripts.train import train
from tests.fixtures import tiny_data
from tests.fixtures.local_runs import BUCKET, LocalRuns

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
ROWS = 20


@pytest.mark.slow
def test_a_trained_model_is_transformed_with_as_it_is(tmp_path: Path) -> None:
    tiny_data.write("prepared", tmp_path / "data", rows=ROWS)
    config = Config(recipe="digits_cnn", recipe_options="{}", global_batch=8, max_steps=1)
    train(config, Folders(train=tmp_path / "data", model=tmp_path / "trained"), ALONE)
    recipe, model, description = load_model(tmp_path / "trained")
    dataset = Dataset(tmp_path / "data", recipe, ALONE, fitted=description["data"]["fitted"])
    with torch.no_grad():
        expected = model.eval()(dataset.batch(slice(0, ROWS)).inputs).argmax(dim=-1).tolist()
    columns = dataset.reader.read(slice(0, ROWS), recipe.columns)
    pixels = np.stack([columns[name] for name in recipe.columns], axis=1)

    runs = LocalRuns(tmp_path / "runs")
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        archive.add(tmp_path / "trained", ".")
    rows = "".join(f"row-{number},{','.join(map(str, row))}\n" for number, row in enumerate(pixels.tolist()))
    steps = [
        {
            "Name": "model",
            "Type": "Model",
            "Arguments": {
                "ExecutionRoleArn": "r",
                "PrimaryContainer": {"Image": "i", "ModelDataUrl": runs.put("model.tar.gz", stream.getvalue())},
            },
        },
        {
            "Name": "predict",
            "Type": "Transform",
            "Arguments": {
                "ModelName": {"Get": "Steps.model.ModelName"},
                "TransformInput": {
                    "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": runs.put("rows.csv", rows)}},
                    "ContentType": "text/csv",
                    "SplitType": "Line",
                },
                "TransformOutput": {"S3OutputPath": f"{BUCKET}/out", "Accept": "text/csv", "AssembleWith": "Line"},
                "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
                "DataProcessing": {
                    "InputFilter": "$[1:]",
                    "JoinSource": "Input",
                    "OutputFilter": f"$[0,{1 + len(recipe.columns)}]",
                },
            },
        },
    ]
    summary = runs.start(steps)
    assert summary.status == "Succeeded", summary.reason
    answers = [line.split(",") for line in runs.read(f"{BUCKET}/out/rows.csv.out").splitlines()]
    assert answers == [[f"row-{number}", str(label)] for number, label in enumerate(expected)]
