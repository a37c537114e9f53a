"""A training component of the user's own runs, whichever of the folders of a training job it takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drivetrain.pipelines.loading import load
from drivetrain.pipelines.targets.local.home import Home
from drivetrain.pipelines.targets.local.options import Options
from drivetrain.pipelines.targets.local.runner import Runner
from drivetrain.pipelines.targets.sagemaker.compile import compile_pipeline

FILE = """
from drivetrain.components import Checkpoints, Input, Output, component
from drivetrain.pipelines import Pipeline, step


@component(job="training")
def fit({signature}) -> None:
    import json

    print("TOOK", json.dumps(sorted(locals().keys() - {{"json"}})))


def pipe() -> Pipeline:
    return Pipeline(name="pipe", steps=[step(fit)])
"""


@pytest.mark.parametrize(
    "folders",
    [
        [],
        ["model: Output"],
        ["output: Output"],
        ["model: Output", "checkpoints: Checkpoints"],
        ["model: Output", "output: Output", "checkpoints: Checkpoints"],
    ],
    ids=lambda folders: "+".join(folder.partition(":")[0] for folder in folders) or "none",
)
def test_the_program_gets_the_folders_that_it_takes(folders: list[str], tmp_path: Path) -> None:
    file = tmp_path / f"own_training_{'_'.join(folder.partition(':')[0] for folder in folders)}.py"
    file.write_text(FILE.format(signature=", ".join([*folders, "epochs: int = 1"])))
    loaded = load(str(file))
    compiled = compile_pipeline(loaded.pipeline, loaded.source, loaded.base)
    home = Home(tmp_path / "home")
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="pipe"), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    (log,) = (home.run(summary.execution) / "fit").rglob("*.log")
    (took,) = (line.removeprefix("TOOK ") for line in log.read_text().splitlines() if line.startswith("TOOK "))
    assert json.loads(took) == sorted([*(folder.partition(":")[0] for folder in folders), "epochs"])
