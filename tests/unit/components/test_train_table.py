from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.train_table import train_table
from drivetrain.spec.resources import TRAIN_TABLE
from drivetrain.steps.command_line import read
from drivetrain.steps.signature import parameters_of
from drivetrain.training.table_config import TableConfig

FOLDERS = ["--train", "train", "--validation", "validation", "--model", "m", "--output", "o", "--checkpoints", "c"]


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that are started in place of the launcher, from a shell in `tmp_path`."""
    found: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        found.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path / "no-platform"))
    monkeypatch.setattr(subprocess, "run", run)
    for name in ("train", "validation"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
    return found


def test_declaration() -> None:
    assert train_table.target == TRAIN_TABLE
    assert train_table.job == "training"
    assert {name: folder.optional for name, folder in train_table.inputs.items()} == {
        "train": False,
        "validation": True,
    }
    assert list(train_table.outputs) == ["model", "output"]
    assert train_table.checkpoints is not None
    assert all(each.help for each in (*train_table.parameters.values(), *train_table.inputs.values()))
    assert list(train_table.parameters) == [*parameters_of(TableConfig), "processes"]


def test_the_launcher_gets_the_settings_and_the_folder_of_this_training(commands: list[list[str]]) -> None:
    train_table(**read(train_table, [*FOLDERS, "--rounds", "7", "--processes", "2"]))
    (kept,) = Path("c").resolve().iterdir()
    (command,) = commands
    assert command[:6] == [
        *(sys.executable, "-m", "drivetrain.training_scripts.launch", "--processes=2"),
        *("--launcher=python", f"--checkpoints={kept}"),
    ]
    assert {"--train=train", f"--checkpoints={kept}", "--rounds=7", "--estimator=xgboost"} <= set(command[6:])


@pytest.mark.parametrize(
    "changed",
    [
        ["--rounds", "9"],
        ["--processes", "2"],
        ["--estimator-options", '{"max_depth": 3}'],
        ["--save-every", "5"],
        "data",
        "code",
    ],
    ids=str,
)
def test_another_training_has_another_folder(
    changed: Any, commands: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "mine.py"
    own.write_text("NEEDS = ()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    words = [*FOLDERS, "--estimator", "mine"]
    for _ in range(2):
        train_table(**read(train_table, words))
    assert len(list(Path("c").iterdir())) == 1, "the same training goes on in its folder"
    if changed == "data":
        Path("train/manifest.json").write_text('{"rows": 1}')
    elif changed == "code":
        own.write_text("NEEDS = ('numpy',)\n")
    train_table(**read(train_table, [*words, *(changed if isinstance(changed, list) else [])]))
    assert len(list(Path("c").iterdir())) == 2


@pytest.mark.parametrize(
    ("estimator", "library"),
    [("xgboost", "xgboost-cpu"), ("lightgbm", "lightgbm"), ("sklearn", "scikit-learn"), ("sklearn", "skops")],
)
def test_another_version_of_the_library_is_another_training(
    estimator: str, library: str, commands: list[list[str]]
) -> None:
    train_table(**read(train_table, [*FOLDERS, "--estimator", estimator]))
    (record,) = Path("c").rglob("training.json")
    assert json.loads(record.read_text())["parts"][library] == version(library)


def test_a_setting_out_of_bounds_is_one_line(commands: list[list[str]]) -> None:
    given = {"model": Path("m"), "output": Path("o"), "checkpoints": Path("c"), "train": Path("train")}
    with pytest.raises(InputError, match=r"rounds=0; allowed are whole numbers from 1\."):
        train_table(**given, validation=None, **{**vars(TableConfig()), "rounds": 0})
    assert not commands
