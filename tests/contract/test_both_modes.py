"""/opt/ml by a private mount and by rewritten paths: the same programs, started alike, give the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

from drivetrain import Pipeline, folder_in, folder_out, script
from drivetrain.authoring.loading import load
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.compile.compile import Compiled, compile_pipeline
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner

Mode = Literal["auto", "rewrite"]
MODES = pytest.mark.parametrize("mode", ["auto", "rewrite"])

# A script of the user's own: no word of ours in it, and its arguments in its own order.
CLEAN = """
import json, sys
from pathlib import Path

words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
rows = sorted(Path(words["--from"]).joinpath("rows.txt").read_text().split())[: int(words["--rows"])]
Path(words["--to"]).joinpath("clean.json").write_text(json.dumps([rows, words["--say"]]))
"""


def execute(compiled: Compiled, home: Home, mode: Mode, pipeline: str, step: str) -> Path:
    """Run it; the folder with the outputs of a step."""
    summary = Runner(home).start(compiled.text, {}, Options(pipeline=pipeline, mode=mode), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    return home.objects / "drivetrain-local" / "pipelines" / pipeline / "steps" / step / summary.execution


@MODES
def test_a_script_of_ones_own_with_its_arguments(mode: Mode, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "raw").mkdir(parents=True)
    (source / "raw" / "rows.txt").write_text("c\na\nb\n")
    (source / "clean.py").write_text(CLEAN)
    words = "$(touch pwned); `id` ' \" *"
    step = script(
        "clean.py",
        inputs={"raw": "raw"},
        outputs=["clean"],
        arguments=["--from", folder_in("raw"), "--to", folder_out("clean"), "--rows", 2, "--say", words],
    )
    compiled = compile_pipeline(Pipeline(name="own", steps=[step]), source, source)
    outputs = execute(compiled, Home(tmp_path / "home"), mode, "own", "clean")
    assert json.loads((outputs / "clean" / "clean.json").read_text()) == [["a", "b"], words]


# By a private mount every other run of the flagship in this suite goes.
@pytest.mark.parametrize(
    "mode", [pytest.param("auto", marks=pytest.mark.nightly), pytest.param("rewrite", marks=pytest.mark.slow)]
)
def test_the_flagship(mode: Mode, tmp_path: Path) -> None:
    loaded = load("retraining", overrides=["epochs=1", "min_accuracy=0"])
    compiled = compile_pipeline(loaded.pipeline, here=True)
    outputs = execute(compiled, Home(tmp_path / "home"), mode, "retraining", "evaluate")
    assert json.loads((outputs / "metrics" / "metrics.json").read_text())["accuracy"] > 0.5
    [log] = (tmp_path / "home" / "runs").glob("*/train/attempt-1/logs/*.log")
    assert "1 host x 2 processes" in log.read_text().splitlines()[0]
