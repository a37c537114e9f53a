"""Packages that steps and recipes need are looked for before anything starts."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drivetrain import Pipeline, UserError, fail, step, when
from drivetrain.assets.own_values import read_beside
from drivetrain.cli.main import run as cli
from drivetrain.components import Output, component
from drivetrain.components.compare import compare
from drivetrain.components.train import train
from drivetrain.operations.needs import refuse_lacking


@component(needs=["pydantic>=2", "no-such-package>=3", "typer>=999"])
def load(data: Output) -> int:
    return 1


@component(needs=["json", "PIL", "sklearn"])
def other_names(data: Output) -> int:
    return 1


def nightly(**training: Any) -> Pipeline:
    data = step(load)
    trained = step(train, train=data["data"], **{"recipe": "digits_cnn", **training})
    gate = when(data.metric("value").equals(1), then=[trained], otherwise=[fail("no")])
    return Pipeline(name="nightly", steps=[data, gate])


def refused(pipeline: Pipeline, *given: Any, **more: Any) -> str:
    with pytest.raises(UserError) as caught:
        refuse_lacking(pipeline, *given, **more)
    return str(caught.value)


def test_missing_packages_are_named_with_the_install_command(tmp_path: Path) -> None:
    install = f"{sys.executable} -m pip install"
    assert refused(nightly(), tmp_path) == (
        f"step 'load' needs what is not installed here. Install it:\n{install} 'no-such-package>=3' 'typer>=999'"
    )
    wheels = [SimpleNamespace(uri=f"s3://b/code/{name}-3-py3-none-any.whl") for name in ("no_such_package", "typer")]
    refuse_lacking(nightly(), tmp_path, wheels)
    refuse_lacking(nightly(), tmp_path, left_out=["load"])
    refuse_lacking(nightly(), tmp_path, only=["train"])


def test_packages_without_a_wheel_on_pypi_are_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drivetrain.operations.needs._is_importable", lambda module: module != "horovod")
    said = refused(nightly(strategy="horovod"), tmp_path, left_out=["load"])
    assert said.endswith("pip install $(python -m drivetrain.infra.horovod.build torch)")
    said = refused(nightly(strategy="tf_horovod", recipe="digits_keras"), tmp_path, left_out=["load"])
    assert "$(python -m drivetrain.infra.horovod.build tensorflow)" in said


def test_modules_available_otherwise_are_not_requested(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "faces.py").write_text("import __main__, faces_layers\n")
    (tmp_path / "own" / "faces_layers.py").write_text("")
    refuse_lacking(nightly(recipe="own.faces"), tmp_path, left_out=["load"])
    refuse_lacking(Pipeline(name="nightly", steps=[step(other_names)]), tmp_path)


def test_packages_only_for_aws_are_not_requested_locally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", version)
    monkeypatch.setattr("drivetrain.operations.needs._is_importable", lambda module: False)
    compared = step(compare, evaluation="s3://b/e", model="s3://b/m", data="s3://b/d", group="digits")
    said = refused(Pipeline(name="nightly", steps=[compared]), tmp_path)
    assert said.endswith("pip install numpy pyarrow safetensors torch")


def test_imports_of_a_recipe_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drivetrain.operations.needs._DISTRIBUTIONS", {"cv2_missing": "opencv-missing"})
    (tmp_path / "faces.py").write_text(
        "import os.path, numpy as np\nimport no_such_module.part\nfrom cv2_missing import x\nimport faces_layers\n"
        "from . import other\nimport no_such_module\ntry:\n    import done_without\nexcept ImportError:\n    pass\n"
    )
    (tmp_path / "faces_layers.py").write_text("")
    said = refused(nightly(recipe="faces"), tmp_path, left_out=["load"])
    assert said.startswith(
        "step 'train' needs what is not installed here (no_such_module is imported by faces.py, line 2; "
        "cv2_missing is imported by faces.py, line 3). Install it:\n"
    )
    assert said.endswith("pip install no_such_module opencv-missing")


OWN = """
from drivetrain import Pipeline, step
from drivetrain.components import component


@component{decorated}
def load() -> float:
    {body}


def own() -> Pipeline:
    return Pipeline(name="own", steps=[step(load)])
"""


def own(folder: Path, body: str, decorated: str = "", *arguments: str) -> int:
    (folder / "own.py").write_text(OWN.format(body=body, decorated=decorated))
    return cli(["run", str(folder / "own.py"), "--home", str(folder / "home"), "--quiet", *arguments])


def test_top_level_imports_of_a_component_are_needed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "beside.py").write_text("")
    body = '"""Load."""\n    import os, beside\n    from no_such_module.part import x\n    return 1.0'
    assert own(tmp_path, body) == 2
    assert capfd.readouterr().err == (
        "error: step 'load' needs what is not installed here (no_such_module is imported by own.py, line 10). Install "
        f"it:\n{sys.executable} -m pip install no_such_module\n"
    )
    assert not (tmp_path / "home").exists()
    # What the function does first may install it.
    body = "len('pip install')\n    try:\n        import no_such_module\n    except ImportError:\n        return 2.0"
    assert own(tmp_path, body) == 0


def test_a_component_with_an_absolute_path_gets_a_warning(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "numbers.txt").write_text("1")
    assert own(tmp_path, f"return float(open('{tmp_path}/numbers.txt').read())") == 0
    assert capfd.readouterr().err == (
        f"warning: own.py, line 8: step 'load' names {tmp_path}/numbers.txt, which no deployed job has. The cache sees "
        f"no change of it, so the step runs each time. Make it an input: data: Input in load(), and step(load, "
        f"data='{tmp_path}/numbers.txt').\n"
    )
    (tmp_path / "numbers.txt").write_text("7")
    assert own(tmp_path, f"return float(open('{tmp_path}/numbers.txt').read())") == 0
    assert cli(["runs", "show", "latest", "--home", str(tmp_path / "home")]) == 0
    assert "value 7.000" in capfd.readouterr().out


@pytest.mark.parametrize(
    "reading",
    ["open('numbers.txt')", "read_csv('numbers.txt')", "Path('numbers.txt').read_text()", "open('numbers.txt', 'rb')"],
)
def test_opening_a_file_beside_the_pipeline_in_a_component_is_refused(
    reading: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "numbers.txt").write_text("1")
    assert own(tmp_path, f"return float({reading})") == 2
    assert capfd.readouterr().err == (
        "error: own.py, line 8: step 'load' opens 'numbers.txt', which does not travel: only Python files do. Make it "
        "an input: data: Input in load(), and step(load, data='numbers.txt').\n"
    )
    assert not (tmp_path / "home").exists()


BESIDE = """
import os
from os import path
from pathlib import Path
HERE = Path(__file__).resolve().parent
NAME = os.path.join(path.dirname(os.path.abspath(__file__)), "rows.txt")
def load():
    BODY
"""


@pytest.mark.parametrize(
    "reading",
    [
        "return (Path(__file__).parent / 'rows.txt').read_text()",
        "return Path(__file__).with_name('rows.txt').read_bytes()",
        "with open(os.path.join(os.path.dirname(__file__), 'rows.txt')) as file: return file.read()",
        "return pandas.read_csv(HERE / 'rows.txt')",
        "with (HERE / 'rows.txt').open() as file: return file.read()",
        "return open(NAME).read()",
        "place = HERE.joinpath('rows.txt')\n    return place.read_text()",
        "return helped(1)\ndef helped(value):\n    return open(NAME).read()",
        "return 1\nTEXT = (HERE / 'rows.txt').read_text()",
    ],
)
def test_a_file_beside_the_components_own_is_found(reading: str, tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("1")
    line, name = read_beside(BESIDE.replace("BODY", reading).encode(), "load", tmp_path)
    assert (name, 8 <= line <= 10) == ("rows.txt", True)


@pytest.mark.parametrize(
    "reading",
    [
        "(HERE / 'rows.txt').write_text('1')",
        "open(NAME, 'w').write('1')",
        "return (HERE / 'rows.txt').exists()",
        "return (HERE / 'rows.txt').read_text() if (HERE / 'rows.txt').exists() else ''",
        "try: return open(NAME).read()\n    except OSError: return ''",
        "if not os.path.exists(NAME):\n        return ''\n    return open(NAME).read()",
        "with made():\n        if HERE: return ''\n        return open(NAME).read()",
        "with suppress(OSError): return open(NAME).read()",
        "if os.environ.get('HERE'): return here()\n    return 1\ndef here():\n    return open(NAME).read()",
        "return (HERE / 'other.py').read_text()",
        "return (HERE / 'gone.txt').read_text()",
        "HERE = Path('/opt/ml')\n    return (HERE / 'rows.txt').read_text()",
        "return 1\nif __name__ == '__main__':\n    print(open(NAME).read())",
        "return 1\ndef pipeline():\n    return open(NAME).read()",
    ],
)
def test_a_file_that_may_not_be_read_is_accepted(reading: str, tmp_path: Path) -> None:
    for name in ("rows.txt", "other.py"):
        (tmp_path / name).write_text("1")
    assert read_beside(BESIDE.replace("BODY", reading).encode(), "load", tmp_path) == (0, "")


def test_a_path_relative_to_the_component_file_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "numbers.txt").write_text("1")
    assert own(tmp_path, "return float((__import__('pathlib').Path(__file__).parent / 'numbers.txt').read_text())") == 2
    assert "own.py, line 8: step 'load' opens 'numbers.txt', which does not travel" in capfd.readouterr().err


def test_a_file_written_by_the_component_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "numbers.txt").write_text("1")
    assert own(tmp_path, "return float(open('numbers.txt', 'w').write('1') + len('numbers.txt'))") == 0


def test_reading_a_module_value_changed_by_the_pipeline_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = OWN.format(body="return N", decorated="").replace(
        "    return Pipe", "    global N\n    N = 2\n    return Pipe"
    )
    (tmp_path / "own.py").write_text(f"N = 1\n{text}")
    assert cli(["compile", str(tmp_path / "own.py")]) == 2
    assert capfd.readouterr().err == (
        "error: own.py, line 14: own() changes N, which load() reads. Each step runs in a process of its own, so "
        "load() finds N as the file makes it. Give the value to the step: step(load, ...), as a parameter or "
        "as what another step returned (-> Value).\n"
    )


def test_an_unknown_hyperparameter_of_a_script_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fit.py").write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--epochs')\np.parse_args()\n"
    )
    text = (
        "from drivetrain import Pipeline, step\nfrom drivetrain.components.train_script import train_script\n\n\n"
        "def own() -> Pipeline:\n    fit = step(train_script, train='s3://b/t/', script='fit.py', "
        'hyperparameters=\'{"epochs": 2, "epoch_size": 3}\')\n    return Pipeline(name="own", steps=[fit])\n'
    )
    (tmp_path / "own.py").write_text(text)
    assert cli(["compile", str(tmp_path / "own.py")]) == 2
    assert capfd.readouterr().err == (
        "error: own.py, line 6: Step 'train-script': fit.py takes no argument --epoch_size, which hyperparameters give "
        "it. Did you mean '--epochs'? Allowed: --epochs.\n"
    )
    (tmp_path / "own.py").write_text(text.replace("epoch_size", "epoch"))  # argparse takes a name's beginning
    assert cli(["compile", str(tmp_path / "own.py"), "--output", str(tmp_path / "own.json")]) == 0
