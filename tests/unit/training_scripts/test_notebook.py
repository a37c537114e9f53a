"""Training from a prompt, a notebook, or any Python that has no file of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training_scripts import notebook
from drivetrain.training_scripts.notebook import spawn
from drivetrain.training_scripts.recipes import digits_cnn

OWN_RECIPE = """
import os
from dataclasses import dataclass

from drivetrain.training_scripts.recipes import digits_cnn


@dataclass(frozen=True)
class Recipe(digits_cnn.Recipe):
    fails_on: int = -1

    def losses(self, outputs, targets):
        if int(os.environ["RANK"]) == self.fails_on:
            raise ValueError("boom")
        return super().losses(outputs, targets)
"""


@pytest.fixture
def digits(prepared_data: ModuleType, tmp_path: Path) -> Path:
    (tmp_path / "my_recipe.py").write_text(OWN_RECIPE)
    return prepared_data.write_prepared(tmp_path / "train", prepared_data.digit_columns(50))


def prompt(folder: Path, *lines: str) -> subprocess.Popen[str]:
    """A fresh Python in `folder` that gets its lines through stdin: it has no __main__ that anybody could import."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write("\n".join(["from drivetrain.training_scripts.notebook import *", *lines]))
    process.stdin.close()
    process.stdin = None
    return process


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"recipe": "digits_cnn", "epoch": 3}, "no field of a training 'epoch'. Did you mean 'epochs'?"),
        ({}, "no recipe. Give recipe="),
        ({"recipe": "digits_cnn", "epochs": 0}, "epochs=0; allowed are whole numbers from 1"),
        ({"recipe": "digits_cnn", "epochs": "3"}, "epochs='3'; allowed is a whole number"),
        ({"recipe": "digits_cnn", "epochs": True}, "epochs=True; allowed is a whole number"),
        ({"recipe": "digits_cnn", "compile": "yes"}, "compile='yes'; allowed is True or False"),
        ({"recipe": "digits_cnn", "learning_rate": None}, "learning_rate=None; allowed is a number"),
        ({"recipe": 3}, "recipe=3 is not a name"),
        ({"recipe": digits_cnn.Recipe()}, r"is not a name.*%%writefile"),
        ({"recipe": type("Recipe", (), {"__module__": "__main__"})}, r"Recipe is defined in the notebook.*%%writefile"),
        ({"recipe": type("Faces", (), {"__module__": "my_recipe"})}, r"recipe Faces: a recipe's file holds a class"),
        ({"recipe": "digits_cnn", "processes": 0}, "processes=0; allowed are whole numbers from 1"),
    ],
)
def test_bad_input_starts_nothing(
    given: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "Ranks", None)
    with pytest.raises(InputError, match=message):
        spawn(train=tmp_path, model=tmp_path / "model", **given)


def test_no_more_processes_than_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "Ranks", None)
    monkeypatch.setattr(notebook, "num_gpus", lambda environment: 1)
    with pytest.raises(InputError, match="processes=2; allowed are whole numbers from 1 to 1, one a GPU"):
        spawn(recipe="digits_cnn", train=tmp_path, model=tmp_path / "model", processes=2)


@pytest.mark.parametrize(
    ("given", "name"),
    [("my_recipe", "my_recipe"), (digits_cnn, "digits_cnn"), (digits_cnn.Recipe, "digits_cnn")],
)
def test_a_recipe_is_given_by_its_module(
    given: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []

    class Ranks:
        def __init__(self, number: int, program: Any, work: str, environment: dict[str, str]) -> None:
            seen.append({"work": json.loads(work), "environment": environment})

        def run(self, folder: Path) -> None:
            (folder / "output").mkdir()
            (folder / "output" / "history.json").write_text('[{"epoch": 1}]')

    monkeypatch.setattr(notebook, "Ranks", Ranks)
    monkeypatch.chdir(tmp_path)
    result = spawn(recipe=given, recipe_options={"channels": 8}, train="data", model="model", processes=1, epochs=2)
    (found,) = seen
    assert found["work"]["config"] == {"recipe": name, "recipe_options": '{"channels": 8}', "epochs": 2}
    assert found["work"]["folders"]["train"] == str(tmp_path / "data")
    assert "MASTER_PORT" not in found["environment"]
    assert result == notebook.Result(model=tmp_path / "model", history=[{"epoch": 1}])


@pytest.mark.nightly
def test_it_trains_from_a_prompt(digits: Path, tmp_path: Path) -> None:
    lines = """
    import os
    os.environ["RANK"] = "7"  # what another job has left in the shell
    result = spawn(recipe="my_recipe", train="train", model="model", output="output", processes=2, epochs=2)
    print("HISTORY", [sorted(entry) for entry in result.history], result.model)
    """
    with prompt(tmp_path, textwrap.dedent(lines)) as process:
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    shown = output.splitlines()
    assert shown[-1].startswith("HISTORY [['epoch', 'step', 'train_loss'") and shown[-1].endswith(f"{tmp_path}/model")
    assert [line.partition(" step")[0] for line in shown if line.startswith("epoch")] == ["epoch 1/2", "epoch 2/2"]
    assert (tmp_path / "model" / "model.safetensors").is_file()
    assert len(json.loads((tmp_path / "output" / "history.json").read_text())) == 2


@pytest.mark.nightly
def test_it_gives_the_model_that_the_launcher_gives(digits: Path, tmp_path: Path) -> None:
    words = ["--train=train", "--model=launched", "--recipe=my_recipe", "--epochs=2"]
    launch = [sys.executable, "-m", "drivetrain.training_scripts.launch", "--processes=2"]
    subprocess.run(
        [*launch, "drivetrain.training_scripts.train", *words], cwd=tmp_path, check=True, capture_output=True
    )
    with prompt(tmp_path, 'spawn(recipe="my_recipe", train="train", model="spawned", epochs=2)\n') as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    launched, spawned = (tmp_path / name / "model.safetensors" for name in ("launched", "spawned"))
    assert launched.read_bytes() == spawned.read_bytes()


@pytest.mark.nightly
def test_a_failing_rank_is_an_exception_with_its_traceback(digits: Path, tmp_path: Path) -> None:
    lines = """
    try:
        spawn(recipe="my_recipe", recipe_options={"fails_on": 1}, train="train", model="model")
    except RankError as error:
        print(error)
    """
    with prompt(tmp_path, textwrap.dedent(lines)) as process:
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "rank 1 of 2 on this machine failed: ValueError: boom\nTraceback" in output
    assert 'raise ValueError("boom")' in output


@pytest.mark.slow
def test_an_interrupt_leaves_no_process(digits: Path, tmp_path: Path) -> None:
    lines = 'spawn(recipe="my_recipe", train="train", model="model", epochs=100000)\n'
    with prompt(tmp_path, lines) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("epoch 1/"):
            assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)  # ends only when the ranks' pipes are closed, too
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode == -signal.SIGINT


@pytest.mark.slow
def test_it_trains_in_a_notebook(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What rank 0 prints is shown below the cell; a recipe is written in one cell and used in the next."""
    client, formats = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    cells = [
        "from drivetrain.training_scripts.notebook import spawn",
        "%%writefile cell_recipe.py\nfrom my_recipe import Recipe as Mine\n\n\nclass Recipe(Mine):\n    pass",
        "result = spawn(recipe='cell_recipe', train='train', model='model', epochs=2)",
        "class Recipe: pass\n\ntry:\n    spawn(recipe=Recipe, train='train', model='model')\n"
        "except ValueError as error:\n    print(error)",
    ]
    book = formats.v4.new_notebook(cells=[formats.v4.new_code_cell(source) for source in cells])
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    client.NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = ["".join(output.get("text", "") for output in cell.outputs) for cell in book.cells]
    assert "epoch 1/2 step 2 train_loss=" in shown[2] and "epoch 2/2" in shown[2]
    assert "recipe Recipe is defined in the notebook" in shown[3]
    assert (tmp_path / "model" / "model.safetensors").is_file()
