"""A file beside a pipeline that hides a module, or that one of Python's own hides, is refused before the run."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from drivetrain.authoring.hidden_modules import refuse_hidden
from drivetrain.authoring.loading import load
from drivetrain.base.errors import UserError

OWN = """from drivetrain import Pipeline, step
from drivetrain.components.prepare_data import prepare_data
IMPORT

def own() -> Pipeline:
    return Pipeline(name="own", steps=[step(prepare_data, raw="s3://b/rows", key="id")])
"""


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])


def write(folder: Path, imports: str = "", **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "hides_some.py").write_text(OWN.replace("IMPORT", imports))
    return folder / "hides_some.py"


def test_a_file_that_hides_an_installed_package_is_refused_before_the_import(tmp_path: Path) -> None:
    path = write(tmp_path, "raise RuntimeError('imported')", click="X = 1\n")
    with pytest.raises(UserError) as caught:
        load(str(path))
    assert str(caught.value) == "click.py beside your pipeline hides the installed package click. Rename click.py."


def test_a_file_hidden_by_a_standard_module_is_refused(tmp_path: Path) -> None:
    assert random.random
    for imports in ("from random import VALUE", "import random as r\nr.VALUE"):
        with pytest.raises(UserError) as caught:
            load(str(write(tmp_path, imports, random="VALUE = 3\n")))
        assert str(caught.value) == (
            "random.py beside your pipeline has the name of Python's own module random, which is loaded instead (asked "
            "for VALUE). Rename random.py."
        )


def test_a_pipeline_named_like_a_needed_package_is_refused(tmp_path: Path) -> None:
    write(tmp_path, pydantic="")
    with pytest.raises(UserError, match=r"^pydantic\.py beside your pipeline hides the installed package pydantic"):
        refuse_hidden(tmp_path / "pydantic.py", ["pydantic"])
    (tmp_path / "yaml").mkdir()
    (tmp_path / "yaml" / "__init__.py").touch()
    with pytest.raises(UserError, match=r"^yaml/ beside your pipeline hides the installed package yaml\. Rename yaml/"):
        refuse_hidden(write(tmp_path), ["yaml"])


def test_a_package_whose_names_the_file_lacks_is_hidden(tmp_path: Path) -> None:
    path = write(tmp_path, "import pytest\npytest.approx(1)", pytest="def mine(): ...\n")
    with pytest.raises(UserError, match=r"^pytest\.py beside your pipeline hides"):
        refuse_hidden(path, ["pytest"])


@pytest.mark.parametrize(
    ("imports", "name", "text"),
    [
        ("import random\nrandom.seed(1)", "random", "def draw(): ...\n"),  # a script of its own
        ("import random\nrandom.seed(1)", "random", "def draw():\n    seed = 1\n    return seed\n"),
        ("from turtle import VALUE", "turtle", "VALUE = 1\n"),  # nobody has loaded Python's
        ("from pytest import mine", "pytest", "def mine(): ...\n"),  # nobody else needs the installed one
        ("", "pytest", "print('a script')\n"),
        ("from train import fit", "train", "def fit(): ...\n"),
        ("from utils import load", "utils", "def load(): ...\n"),
    ],
)
def test_a_file_that_hides_only_unused_packages_is_accepted(
    imports: str, name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "turtle":
        monkeypatch.delitem(sys.modules, name, raising=False)
    path = write(tmp_path, imports, **{name: text})
    refuse_hidden(path, [name])
    assert path.is_file()


def test_an_editable_installation_of_the_folder_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "site-packages"
    info = installed / "churn_of_mine-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: churn-of-mine\nVersion: 1\n")
    for folder in (installed, tmp_path):
        (folder / "churn_of_mine").mkdir()
        (folder / "churn_of_mine" / "__init__.py").touch()
        (folder / "churn_of_mine" / "features.py").write_text("def read(): ...\n")
    monkeypatch.syspath_prepend(str(installed))
    path = write(tmp_path, "from churn_of_mine.features import read")
    refuse_hidden(path, ["churn_of_mine"])
    (info / "direct_url.json").write_text('{"dir_info": {"editable": true}}')
    refuse_hidden(path, ["churn_of_mine"])
    assert load(str(path)).pipeline.name == "own"
