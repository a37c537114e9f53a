"""Which modules travel with a model: found in the files, of nothing that is there for training alone."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from drivetrain.training.recipe import load_recipe
from drivetrain.training.serving import code_folder
from drivetrain.training.serving.code_folder import code_of

OURS = "modules/drivetrain"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, whose modules are forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
    code_folder._code_of.cache_clear()


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))


RECIPE = """
    from __future__ import annotations
    import json
    from dataclasses import dataclass
    from typing import TYPE_CHECKING
    import numpy
    from drivetrain.training_scripts.recipes import digits_cnn
    from .parts import layers
    if TYPE_CHECKING:
        import faces_typing
        from drivetrain.training_scripts.strategies import ddp
    else:
        import faces_at_run_time

    @dataclass(frozen=True, kw_only=True)
    class Recipe(digits_cnn.Recipe):
        def model(self):
            import faces_lazy
            return layers.model()
"""


def test_a_recipe_of_one_s_own_brings_what_it_imports_of_its_own(own: Path) -> None:
    write(own, my__faces=RECIPE, my__parts__layers="from my import constants\ndef model(): ...", my__constants="A = 1")
    write(own, faces_lazy="import os", faces_typing="", faces_at_run_time="", unrelated="")
    (own / "my" / "parts" / "__init__.py").write_text("# the parts\n")
    recipe = load_recipe("my.faces", {})
    code = code_of(recipe, "prepared")
    mine = {name for name in code if not name.startswith(OURS)} - {"inference.py"}
    assert mine == {
        *("modules/my/faces.py", "modules/my/constants.py", "modules/my/parts/__init__.py"),
        *("modules/my/parts/layers.py", "modules/faces_lazy.py", "modules/faces_at_run_time.py"),
    }
    assert code["modules/my/constants.py"] == "A = 1"
    assert f"{OURS}/training_scripts/recipes/digits_cnn.py" in code
    assert f"{OURS}/training_scripts/strategies/ddp.py" not in code


def test_a_recipe_that_is_installed_brings_its_package_and_no_library(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = own / "site-packages"
    monkeypatch.syspath_prepend(str(packages))
    recipe = (
        "import heavy\nfrom my_faces import parts\nfrom drivetrain.training_scripts.recipes.digits_cnn import Recipe\n"
    )
    write(packages, my_faces__recipe=recipe, my_faces__parts="", heavy="")
    importlib.invalidate_caches()
    code = code_of(_recipe("my_faces.recipe"), "prepared")
    assert "modules/my_faces/parts.py" in code
    assert "modules/heavy.py" not in code


def _recipe(name: str) -> object:
    """One whose class is of the module itself."""
    module = importlib.import_module(name)
    return type("Recipe", (), {"__module__": module.__name__})()


def test_the_same_files_give_the_same_texts_whatever_was_imported(own: Path) -> None:
    recipe = load_recipe("digits_cnn", {})
    first = code_of(recipe, "prepared")
    code_folder._code_of.cache_clear()
    second = code_of(recipe, "prepared")
    assert list(first.items()) == list(second.items()) == sorted(first.items())
    for name, text in first.items():
        if name.startswith(OURS) and name != f"{OURS}/__init__.py":
            assert text == (code_folder._OURS / name.removeprefix(f"{OURS}/")).read_text()
    first.clear()
    assert code_of(recipe, "prepared") == second


def test_the_code_for_raw_requests_is_stored_if_the_reader_has_one() -> None:
    recipe = load_recipe("imdb_sentiment", {})
    assert {f"{OURS}/training/serving/raw/imdb.py", f"{OURS}/data/tokens.py"} <= code_of(recipe, "imdb").keys()
    assert f"{OURS}/training/serving/raw/imdb.py" not in code_of(recipe, "prepared")
    assert f"{OURS}/training/serving/raw/imdb.py" not in code_of(recipe, "my_readers.imdb")


def test_unparsable_or_missing_modules_are_ignored(own: Path) -> None:
    """What cannot be imported was not imported either: the recipe does without, or says so itself."""
    write(own, mine="try:\n    import missing\nexcept ImportError:\n    pass\n\n\ndef f():\n    import broken_one\n")
    write(own, broken_one="def (")
    importlib.invalidate_caches()
    code = code_of(_recipe("mine"), "prepared")
    assert code["modules/broken_one.py"] == "def ("
    assert "modules/mine.py" in code
    assert not any("missing" in name for name in code)
