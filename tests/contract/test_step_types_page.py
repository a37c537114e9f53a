"""docs/step_types.md: it names every type, its server answers, its settings are settings."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain.authoring.settings import Settings, build
from drivetrain.cli.declared import parameters_of
from drivetrain.cli.local.run import run as run_command
from drivetrain.cli.runs.here import callback as callback_command
from drivetrain.targets.sagemaker.run import step_types
from drivetrain.targets.sagemaker.run.step_types._absent import ABSENT
from tests.fixtures.local_runs import BUCKET, LocalRuns

PAGE = (Path(__file__).parents[2] / "docs" / "step_types.md").read_text(encoding="utf-8")
TABLE = {
    name.strip(): told
    for types, told in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
    for name in types.partition(":")[0].split(",")
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("file", step_types.known())
def test_every_type_is_in_the_table(file: str) -> None:
    name = step_types.known()[file]
    told = TABLE.get(name) or next(
        (text for key, text in TABLE.items() if name.startswith(key.removesuffix("*"))), None
    )
    assert told is not None, f"say in docs/step_types.md what {name} does here"
    assert ("a stub stands for" in told) == (name in ABSENT)


def test_the_server_of_the_page_replaces_an_image(tmp_path: Path) -> None:
    runs = LocalRuns(tmp_path)
    [server] = blocks("python")
    (tmp_path / "serve.py").write_text(server)
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": runs.put("in/rows.csv", "1\n2\n")}}
    container = {"Image": "far.example/my-image:1", "ModelDataUrl": runs.put("m.tar.gz", _empty_archive())}
    steps: list[dict[str, Any]] = [
        {"Name": "model", "Type": "Model", "Arguments": {"ExecutionRoleArn": "r", "PrimaryContainer": container}},
        {
            "Name": "predict",
            "Type": "Transform",
            "Arguments": {
                "ModelName": {"Get": "Steps.model.ModelName"},
                "TransformInput": {"DataSource": source, "ContentType": "text/csv", "SplitType": "Line"},
                "TransformOutput": {"S3OutputPath": f"{BUCKET}/out", "AssembleWith": "Line"},
                "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
            },
        },
    ]
    summary = runs.start(steps, image_commands={"my-image": (sys.executable, str(tmp_path / "serve.py"))})
    assert summary.status == "Succeeded", summary.reason
    assert runs.read(f"{BUCKET}/out/rows.csv.out") == "0.5\n0.5\n"


def test_the_pages_settings_and_options_exist(tmp_path: Path) -> None:
    [text] = blocks("yaml")
    (tmp_path / "settings.yaml").write_text(text)
    local = build(Settings, tmp_path / "settings.yaml", environment={}).local
    assert local.callbacks == {"review": "reviews.py:decide"} and local.stubs["spark"] == ""
    options = {
        word for command in (run_command, callback_command) for each in parameters_of(command) for word in each.opts
    }
    shown = {word for block in blocks("sh") for word in re.findall(r"(?<= )--?[a-z-]+(?= )", block)}
    assert shown >= {"--stub", "--callback", "--output", "--fail"} and shown <= options


def _empty_archive() -> bytes:
    import io
    import tarfile

    stream = io.BytesIO()
    tarfile.open(fileobj=stream, mode="w:gz").close()
    return stream.getvalue()
