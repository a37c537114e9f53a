from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from drivetrain.components import train as train_module
from drivetrain.components.train import train
from drivetrain.steps import programs, start
from drivetrain.steps.command_line import read
from drivetrain.steps.signature import parameters_of
from drivetrain.training.config import LOOKS_ON, SAME_TRAINING, Config


def test_declaration() -> None:
    assert train.job == "training"
    assert list(train.inputs) == ["train", "validation", "weights", "continue_from"]
    assert all(train.inputs[name].optional for name in ("validation", "weights", "continue_from"))
    assert list(train.outputs) == ["model", "output"]
    assert train.checkpoints is not None
    assert train.metrics == ()
    assert "torch" in train.needs
    assert all(parameter.help for parameter in train.parameters.values())


def test_its_parameters_are_the_fields_of_the_program() -> None:
    """In the same order; what the component says otherwise is where the program has no default, and `processes`."""
    program = parameters_of(Config)
    assert list(train.parameters) == [*program, "processes"]
    assert {name for name in program if train.parameters[name] != program[name]} == {"recipe"}
    assert program["recipe"].required and train.parameters["recipe"].default == "digits_cnn"


def test_a_training_job_can_carry_them() -> None:
    """At most 100 hyperparameters of 256 characters."""
    assert len(train.parameters) <= 100
    assert all(len(name) <= 256 and len(str(p.default)) <= 256 for name, p in train.parameters.items())


def test_resumable_parameters_keep_the_checkpoint_location() -> None:
    assert set(LOOKS_ON) < set(SAME_TRAINING) < set(train.resumable)
    assert {"epochs", "max_steps"} == set(train.resumable) - set(SAME_TRAINING)


def test_the_help_names_every_strategy_and_reader() -> None:
    from drivetrain.training import plugins

    for parameter, family in (("strategy", "strategies"), ("reader", "readers")):
        words = re.findall(r"\w+", train.parameters[parameter].help)
        assert set(plugins.names(family)) | {"auto"} <= set(words)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train_loss", "0.0123"),
        ("validation_loss", "1.2e-05"),
        ("validation_accuracy", "0.9778"),
        ("learning_rate", "0.0001"),
        ("gradient_norm", "inf"),
    ],
)
def test_the_progress_lines_carry_the_declared_metrics(
    name: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    from drivetrain.training.loop.journal import Journal
    from drivetrain.training.process import Process

    values = {"train_loss": 0.0123, "validation_loss": 1.2e-05, "validation_accuracy": 0.9778}
    with Journal(Process(0, 1, 0, 1, torch.device("cpu")), None, epochs=10, total_steps=400) as journal:
        journal.begin(0, 0, [])
        journal.progress(2, 120, 3840, values, learning_rate=1e-4, gradient_norm=float("inf"))
    line = capsys.readouterr().out
    assert line.startswith("epoch 3/10 step 120 train_loss=0.0123 ")
    assert re.findall(train.logs[name], line) == [expected]
    assert float(re.findall(train.logs["samples_per_second"], line)[0]) > 0


def test_the_names_that_the_two_sides_share() -> None:
    """components/ and training_scripts/ import nothing of each other; they meet in the environment."""
    from drivetrain.steps import call
    from drivetrain.training.launch.processes import failure, parent

    assert call.FAILURE_FILE == failure.FAILURE_FILE
    assert f'"{train_module.TENSORBOARD_FOLDER}"' in Path(start.__file__).read_text()
    assert f'"{parent.PARENT}": str(os.getpid())' in Path(str(programs.__file__)).read_text()


def given(monkeypatch: pytest.MonkeyPatch, *, is_the_step: bool, returncode: int = 0) -> list[tuple[str, list[str]]]:
    calls: list[tuple[str, list[str]]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        calls.append(("run", command))
        return subprocess.CompletedProcess(command, returncode)

    def execve(path: str, command: list[str], environment: Mapping[str, str]) -> None:
        assert path == command[0] and environment == os.environ
        calls.append(("exec", command))
        raise SystemExit(0)  # the real one does not come back

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(programs, "is_the_step", lambda module: is_the_step)
    return calls


COMMAND = ["--train", "t", "--model", "m", "--output", "o", "--checkpoints", "c", "--seed", "-3"]


def test_as_a_step_it_becomes_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = given(monkeypatch, is_the_step=True)
    monkeypatch.setenv(train_module.TENSORBOARD_FOLDER, "t/b")
    with pytest.raises(SystemExit):
        train(**read(train, COMMAND))
    ((how, command),) = calls
    assert how == "exec"
    assert command[:6] == [
        *(sys.executable, "-m", "drivetrain.training_scripts.launch", "--processes=0", "--checkpoints=c"),
        "drivetrain.training_scripts.train",
    ]
    assert {"--train=t", "--model=m", "--output=o", "--checkpoints=c", "--seed=-3"} <= set(command)
    assert {"--tensorboard=t/b", "--strategy-options={}", "--keep-best=False", "--weight-column="} <= set(command)
    assert not any(argument.startswith(("--validation", "--weights")) for argument in command)


def test_a_call_from_python_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = given(monkeypatch, is_the_step=False)
    monkeypatch.delenv(train_module.TENSORBOARD_FOLDER, raising=False)
    train(**read(train, [*COMMAND, "--validation", "v", "--weights", "w", "--processes", "2"]))
    ((how, command),) = calls
    assert how == "run"
    assert not any(argument.startswith("--tensorboard") for argument in command)
    assert {"--validation=v", "--weights=w", "--processes=2"} <= set(command)


def test_a_call_from_python_passes_on_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, is_the_step=False, returncode=75)
    with pytest.raises(SystemExit) as ended:
        train(**read(train, COMMAND))
    assert ended.value.code == 75


@pytest.mark.parametrize("program", ["drivetrain.components.train", "drivetrain.steps.call"])
def test_bad_input_through_the_command(program: str, tmp_path: Path) -> None:
    """No torch is needed to find it, and nothing stands between the launcher and the platform."""
    (tmp_path / "data").mkdir()
    target = [] if program.endswith("train") else ["drivetrain.components.train:train"]
    ended = subprocess.run(
        [
            *(sys.executable, "-m", program, *target, "--train", str(tmp_path / "data")),
            *("--model", str(tmp_path / "m"), "--output", str(tmp_path / "o"), "--checkpoints", str(tmp_path / "c")),
            *("--processes", "-1"),
        ],
        env={**os.environ, "DRIVETRAIN_FAILURE_FILE": str(tmp_path / "failure")},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert ended.stderr == "error: processes=-1; allowed are whole numbers from 1, or 0 for one a GPU.\n"
    assert (tmp_path / "failure").read_text() == ended.stderr


def test_its_import_brings_no_torch() -> None:
    code = "import drivetrain.components.train, drivetrain.components.evaluate, sys; print(sorted(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for module in ("torch", "numpy", "pyarrow", "drivetrain.training_scripts"):
        assert f"'{module}'" not in ended.stdout


def test_its_page_names_every_field_and_strategy() -> None:
    from drivetrain.training import plugins

    page = (Path(__file__).parents[3] / "docs" / "training.md").read_text()
    named = set(re.findall(r"`([a-z_]+)`", page))
    assert {name for name in train.parameters if name != "processes"} <= named
    assert set(plugins.names("strategies")) <= named


def test_weights_are_shipped_and_part_of_the_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache and a resumption compare where an input lies, and that is where its content says."""
    from drivetrain.cli.local.job import Job
    from drivetrain.cli.local.submitted import one_step_pipeline
    from drivetrain.targets.sagemaker.compile.compile import compile_pipeline

    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows").write_text("rows")
    places: list[str] = []
    for content in ("one", "one", "other"):
        (tmp_path / "w.pth").write_text(content)
        pipeline, source = one_step_pipeline(Job(component="train", set_=["train=data", "weights=w.pth"]))
        (step,) = compile_pipeline(pipeline, source, tmp_path, here=True).definition["Steps"]
        channels = {each["ChannelName"]: each["DataSource"] for each in step["Arguments"]["InputDataConfig"]}
        places.append(str(channels["weights"]["S3DataSource"]["S3Uri"]))
    assert places[0] == places[1] != places[2]
    assert places[0].endswith("/w.pth")
