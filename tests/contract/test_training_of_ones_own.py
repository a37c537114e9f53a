"""A training of the user's own runs: a component, whichever folders of a training job it takes; a script, as it is."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Cluster, Pipeline, step
from drivetrain.authoring.loading import load
from drivetrain.components.train_script import train_script
from drivetrain.run_store.events import ExecutionFinished
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner

FILE = """
from drivetrain.components import Checkpoints, Input, Output, component
from drivetrain import Pipeline, step


@component(job="training")
def fit({signature}) -> None:
    import json

    print("TOOK", json.dumps(sorted(locals().keys() - {{"json"}})))


def pipe() -> Pipeline:
    return Pipeline(name="pipe", steps=[step(fit)])
"""


@pytest.mark.slow_cases(but=["none", "model+output+checkpoints"])
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


SCRIPTS = Path(__file__).parents[1] / "fixtures" / "own_scripts"


@dataclass(frozen=True)
class Run:
    summary: ExecutionFinished
    log: str
    outputs: Path

    def found(self, name: str, archive: str) -> Any:
        """A file of the step's `model.tar.gz` or `output.tar.gz`."""
        (path,) = self.outputs.rglob(f"{archive}.tar.gz")
        with tarfile.open(path) as opened:
            file = opened.extractfile(name)
            assert file is not None
            text = file.read().decode()
        return json.loads(text) if name.endswith(".json") else text


def run_script(tmp_path: Path, *, count: int = 1, processes: int = 1, **given: Any) -> Run:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.csv").write_text("1\n")
    fit = step(
        train_script,
        name="fit",
        train=data,
        cluster=Cluster(instance_type="ml.m5.large", count=count, processes=processes),
        **given,
    )
    compiled = compile_pipeline(Pipeline(name="own", steps=[fit]), source=SCRIPTS, base=tmp_path)
    home = Home(tmp_path / "home")
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="own"), assets=compiled.assets)
    logs = sorted((home.run(summary.execution) / "fit").rglob("*.log"))
    return Run(summary, "".join(log.read_text() for log in logs), home.objects)


@pytest.mark.slow
def test_a_script_runs_as_it_is(tmp_path: Path) -> None:
    run = run_script(tmp_path, script="report.py", hyperparameters='{"epochs": 3, "flag": true}')
    assert run.summary.status == "Succeeded", run.summary.reason
    found = run.found("rank0.json", "output")
    assert found["argv"] == ["report.py", "--epochs", "3", "--flag", "True"]
    variables = found["variables"]
    assert variables["SM_CURRENT_INSTANCE_TYPE"] == "ml.m5.large"
    assert variables["SM_HP_EPOCHS"] == "3"
    assert variables["SM_CHANNELS"] == '["train"]'
    assert variables["SM_CHANNEL_TRAIN"].endswith("/input/data/train")
    assert variables["SM_MODEL_DIR"].endswith("/ml/model")
    assert "/ml/trainings/" in variables["SM_CHECKPOINT_DIR"]
    assert found["file"] == f"{found['cwd']}/report.py"
    assert run.found("model.txt", "model") == "trained on ['a.csv']\n"


@pytest.mark.slow
def test_a_users_launcher_script_is_the_entry_point(tmp_path: Path) -> None:
    """It comes with the other files of its folder, also those that are no Python, and starts what it likes."""
    run = run_script(tmp_path, script="launch.sh", source=SCRIPTS, launcher="python")
    assert run.summary.status == "Succeeded", run.summary.reason
    assert run.log.count("rank 0 loss=0.25") == run.log.count("rank 1 loss=0.25") == 1


@pytest.mark.slow
def test_each_rank_of_each_host_runs_the_script(tmp_path: Path) -> None:
    run = run_script(tmp_path, count=2, processes=2, script="report.py")
    assert run.summary.status == "Succeeded", run.summary.reason
    assert sorted(line for line in run.log.splitlines() if "loss=" in line) == [
        f"rank {rank} loss=0.25" for rank in range(4)
    ]


@pytest.mark.slow
def test_the_rank_that_failed_is_the_reason_of_the_run(tmp_path: Path) -> None:
    run = run_script(tmp_path, processes=2, script="report.py", hyperparameters='{"fail-rank": 1}')
    assert run.summary.status == "Failed"
    assert "rank 1 of 2 on 127.0.0.1 failed: KeyError: 'price'" in str(run.summary.reason)
    assert 'raise KeyError("price")' in run.log


def test_a_script_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    run = run_script(tmp_path, script="reports.py", source=SCRIPTS)
    assert run.summary.status == "Failed"
    assert "error: no script 'reports.py' in " in str(run.summary.reason)
    assert "report.py" in str(run.summary.reason)
    assert "Traceback" not in run.log
