"""Another code of the recipe is another training, also where the edit is in a file that the recipe imports."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from drivetrain.training.config import Config, Folders
from drivetrain.training.loop import identity as identity_module
from drivetrain.training.loop.identity import Identity, code_hashes, training_identity
from drivetrain.training.process import Process
from drivetrain.training.recipe import load_recipe
from drivetrain.training.torch.models import parameter_groups
from drivetrain.training_scripts.train import train

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
RECIPE = """
from dataclasses import dataclass
from drivetrain.training_scripts.recipes import digits_cnn
{imports}
@dataclass(frozen=True, kw_only=True)
class Recipe(digits_cnn.Recipe):
    channels: int = 2
    hidden: int = 4
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)

    def written(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)

    yield written
    for name in [name for name in sys.modules if name.startswith("own_identity")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("recipe", "imports", "edited"),
    [
        ("own_identity_a", "", "own_identity_a.py"),
        ("own_identity_b", "import own_identity_blocks", "own_identity_blocks.py"),
        ("own_identity_c", "from own_identity_p.blocks import SIZE", "own_identity_p/blocks.py"),
        ("own_identity_d", "from own_identity_p import blocks", "own_identity_p/blocks.py"),
        ("own_identity_p.faces", "from .blocks import SIZE", "own_identity_p/blocks.py"),
        ("own_identity_p.faces", "from . import blocks", "own_identity_p/blocks.py"),
        ("own_identity_p.inner.faces", "from ..blocks import SIZE", "own_identity_p/blocks.py"),
        ("own_identity_e", "from own_identity_p.blocks import SIZE", "own_identity_p/deep.py"),
        ("own_identity_f", "from own_identity_p.blocks import SIZE", "own_identity_p/__init__.py"),
    ],
)
def test_an_edit_in_what_the_recipe_imports(recipe: str, imports: str, edited: str, write, tmp_path: Path) -> None:
    (tmp_path / "own_identity_p").mkdir()
    write("own_identity_p/__init__.py", "")
    write("own_identity_p/deep.py", "SIZE = 3\n")
    write("own_identity_p/blocks.py", "from own_identity_p.deep import SIZE\n")
    write("own_identity_p/inner/__init__.py", "")
    write("own_identity_blocks.py", "SIZE = 3\n")
    write("own_identity_unrelated.py", "")
    write(recipe.replace(".", "/") + ".py", RECIPE.format(imports=imports))
    loaded = load_recipe(recipe, {})
    before = code_hashes(loaded)
    write("own_identity_unrelated.py", "SIZE = 4\n")
    assert code_hashes(loaded) == before
    write(edited, (tmp_path / edited).read_text() + "# edited\n")
    assert code_hashes(loaded) != before


def test_blanks_and_order_in_options_make_no_other_training() -> None:
    dataset: Any = SimpleNamespace(content_hash="d1", fitted={})

    def identity(options: str) -> Identity:
        config = Config(recipe="digits_cnn", recipe_options=options)
        return training_identity(config, dataset, load_recipe("digits_cnn", {}), None, ALONE)

    one, other = identity('{"channels": 4, "hidden": 8}'), identity('{"hidden":8,\n "channels":4}')
    assert one.name == other.name
    assert one.name != identity('{"hidden": 8}').name


def test_a_field_that_came_later_counts_where_it_says_something_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if `ema_decay` had come after trainings were begun: they have no such field, and went on without."""
    dataset: Any = SimpleNamespace(content_hash="d1", fitted={})

    def identity(**fields: Any) -> Identity:
        config = Config(recipe="digits_cnn", **fields)
        return training_identity(config, dataset, load_recipe("digits_cnn", {}), None, ALONE)

    now, averaged = identity(), identity(ema_decay=0.9)
    before = replace(now, fields={name: value for name, value in now.fields.items() if name != "ema_decay"})
    assert before.name != now.name
    monkeypatch.setattr(identity_module, "values_before", lambda kind: {"ema_decay": 0.0})
    assert before.name == now.name != averaged.name
    monkeypatch.setattr(
        identity_module, "values_before", lambda kind: {"ema_decay": 0.5}
    )  # whatever the default became
    assert before.name != now.name


def test_the_parts_of_a_shipped_recipe_count(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, other = load_recipe("ants_bees_resnet18", {}), load_recipe("digits_cnn", {})
    before, other_before = code_hashes(recipe), code_hashes(other)
    read = Path.read_bytes

    def edited(path: Path) -> bytes:
        return read(path) + (b"\n# edited" if path == Path(str(parameter_groups.__file__)) else b"")

    monkeypatch.setattr(Path, "read_bytes", edited)
    assert code_hashes(recipe) != before
    assert code_hashes(other) == other_before


def test_an_edited_part_starts_afresh(write, prepared_data: ModuleType, tmp_path: Path) -> None:
    data = prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(8))
    write("own_identity_parts.py", "SIZE = 3\n")
    write("own_identity_g.py", RECIPE.format(imports="import own_identity_parts"))
    config = Config(recipe="own_identity_g", epochs=1, global_batch=4)
    folders = Folders(train=data, model=tmp_path / "model", checkpoints=tmp_path / "checkpoints")
    train(config, folders, ALONE)
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1
    write("own_identity_parts.py", "SIZE = 4\n")
    train(config, folders, ALONE)
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2
