"""The facts file: what is written is read again, and what is no facts file says so."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.catalog.strategies import recipe_file
from drivetrain.recommend import facts_places
from drivetrain.recommend.facts import FactsError, new_file, read_file
from drivetrain.recommend.facts_places import beside, look_up, recommend_command
from drivetrain.recommend.profile import merged

SOURCE = b"class Recipe: ...\n"


def sizes(activations: int) -> dict[str, int]:
    others = ("checkpointed", "recomputed", "outputs", "reduced", "gathered", "keys_and_values")
    return {"activations": activations, **dict.fromkeys(others, 40)}


def measured(recipe: str = "faces", options: dict[str, Any] | None = None, source: bytes = SOURCE) -> dict[str, Any]:
    layer = {"name": "0", "kind": "Linear", "parameters": 30, "matrix_parameters": 20}
    return {
        "recipe": recipe,
        "recipe_options": options or {},
        "source_hash": hashlib.sha256(source).hexdigest(),
        "torch": "2.13.0",
        "parameters": {"count": 30, "bytes": {"float32": 100, "float16": 10}},
        "trainable_parameters": 15,
        "matrix_parameters": 20,
        "buffers": {"count": 1, "bytes": {"int64": 8}},
        "optimizer": {"name": "AdamW", "state_bytes": 120, "state_bytes_per_parameter": 8.0},
        "input_bytes_per_sample": 12,
        "sequence_length": None,
        "flops_per_sample": 60,
        "is_chain": True,
        "has_tensor_plan": False,
        "has_context_plan": False,
        "has_loss_parts": False,
        "attention": "",
        "layers": [{**layer, "full": sizes(100), "half": sizes(50)}],
        "loss": {"full": sizes(300), "half": sizes(300)},
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "faces.py").write_bytes(SOURCE)
    beside("faces", tmp_path).write_text(new_file(measured()).text())
    return tmp_path


def test_facts_round_trip_through_their_file(folder: Path) -> None:
    path = beside("faces", folder)
    assert path.name == "faces.facts.json"
    facts = look_up("faces", {}, folder)
    assert (facts.parameter_bytes, facts.buffer_bytes, facts.trainable_share) == (110, 8, 0.5)
    assert facts.gradient_bytes == 15 * 110 / 30
    assert facts.checkpoint_bytes == 110 + 8 + 120
    assert facts.layers[0].kind == "Linear"
    assert read_file(path).text() == path.read_text()


def test_the_same_measurements_give_the_same_bytes() -> None:
    one = new_file(measured()).with_measurement(measured(options={"b": 1})).with_measurement(measured(options={"a": 2}))
    other = (
        new_file(measured(options={"a": 2})).with_measurement(measured(options={"b": 1})).with_measurement(measured())
    )
    assert one.text() == other.text()
    assert one.with_measurement(measured()).text() == one.text()


def test_measurements_of_another_source_are_dropped() -> None:
    file = new_file(measured(options={"a": 1})).with_measurement(measured(source=b"edited"))
    assert [each["recipe_options"] for each in file.measurements] == [{}]


def test_write_speeds_are_kept_by_instance() -> None:
    fast = {**measured(), "write_bytes_per_second": 5e8}
    file = new_file(fast, "ml.g5.xlarge").with_measurement(measured(), "ml.p4d.24xlarge")
    found = file.find({})
    assert found is not None and found.checkpoint_bytes_per_second == {"ml.g5.xlarge": 5e8}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "holds no facts of a recipe"),
        ("[]", "holds no facts of a recipe"),
        ("{}", "holds no facts of a recipe"),
        (json.dumps({"format": 9}), "has format 9; this version reads 2"),
        ({"parameters": {"count": -1, "bytes": {}}}, "parameters.count is -1"),
        ({"layers": [{"name": "0"}]}, "holds no facts of a recipe"),
        ({"trainable_parameters": "many"}, "trainable_parameters is 'many'"),
        ({"optimizer": {"name": "A", "state_bytes_per_parameter": float("nan")}}, "state_bytes_per_parameter is nan"),
        ({"layers": [{**measured()["layers"][0], "parameters": "x"}]}, "layers.0.parameters is 'x'"),
    ],
)
def test_an_invalid_facts_file_is_reported(folder: Path, content: str | dict[str, Any], message: str) -> None:
    text = content if isinstance(content, str) else new_file({**measured(), **content}).text()
    beside("faces", folder).write_text(text)
    with pytest.raises(FactsError, match=message) as caught:
        look_up("faces", {}, folder)
    assert "drivetrain recommend" in str(caught.value)
    assert merged(beside("faces", folder), measured()).text() == new_file(measured()).text()  # and is mended so


def test_stale_and_missing_facts_name_the_command(folder: Path) -> None:
    with pytest.raises(FactsError, match=r"no facts of recipe 'faces' with options .*\(there are: \{\}\)") as caught:
        look_up("faces", {"width": 3}, folder)
    assert str(caught.value).endswith(
        """Measure it: drivetrain recommend --recipe faces --recipe-options '{"width": 3}' --write"""
    )
    (folder / "faces.py").write_bytes(b"class Recipe: pass\n")
    with pytest.raises(FactsError, match=r"are stale: faces.py was changed since. Measure it again: drivetrain"):
        look_up("faces", {}, folder)
    beside("faces", folder).unlink()
    with pytest.raises(FactsError, match=r"there are no facts of recipe 'faces' in .*Measure it: drivetrain"):
        look_up("faces", {}, folder)
    (folder / "digit_cn.py").write_text("import sys\n")  # some other script of the user's
    with pytest.raises(UserError, match=r"no recipe 'digit_cnn'. Did you mean 'digits_cnn'.* faces, ") as refused:
        look_up("digit_cnn", {}, folder)
    assert "digit_cn," not in str(refused.value)


def test_a_file_of_another_recipe_is_refused(folder: Path) -> None:
    beside("faces", folder).write_text(new_file(measured("houses")).text())
    with pytest.raises(FactsError, match="holds the facts of recipe 'houses', not 'faces'"):
        look_up("faces", {}, folder)


def test_shipped_facts_are_found_and_those_beside_the_pipeline_come_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = folder / "shipped"
    shipped.mkdir()
    monkeypatch.setattr(facts_places, "SHIPPED", shipped)
    beside("faces", folder).rename(beside("faces", shipped))
    assert look_up("faces", {}, folder).loss.full.activations == 300
    beside("faces", folder).write_text(
        new_file({**measured(), "loss": {"full": sizes(400), "half": sizes(400)}}).text()
    )
    assert look_up("faces", {}, folder).loss.full.activations == 400


def test_where_a_recipe_lies(folder: Path) -> None:
    package = folder / "my_recipes"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "trees.py").touch()
    assert recipe_file("faces", folder) == folder / "faces.py"
    assert recipe_file("my_recipes.trees", folder) == package / "trees.py"
    assert recipe_file("my_recipes", folder) == package / "__init__.py"
    found = recipe_file("digits_cnn", folder)
    assert found is not None and found.parent.name == "recipes"
    assert recipe_file("not there", folder) is None and recipe_file("a.b", folder) is None
    assert recommend_command("a b", {}) == "drivetrain recommend --recipe 'a b' --write"
