"""A damaged model.json is refused in one line, whoever reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.model_folder import read_description
from drivetrain.training.serving.inputs import inputs_of

WHOLE: dict[str, Any] = {"format": 1, "recipe": "digits_cnn", "inputs": {"columns": []}, "task": {"kind": "binary"}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "KeyError('format')"),
        ("[]", "TypeError"),
        (json.dumps(WHOLE)[:30], "JSONDecodeError"),
        (json.dumps(WHOLE | {"recipe": 7}), "recipe is 7"),
        (json.dumps(WHOLE | {"inputs": None}), "inputs is None"),
        (json.dumps(WHOLE | {"inputs": {"columns": 7}}), "inputs.columns is 7"),
        (json.dumps(WHOLE | {"task": {"kind": None}}), "task.kind is None"),
        (json.dumps(WHOLE | {"inputs": {"columns": [7]}}), "TypeError"),
        (json.dumps(WHOLE | {"inputs": {"columns": [{"name": "a"}]}}), "KeyError('dtype')"),
    ],
)
def test_a_damaged_description_is_refused_in_one_line(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(InputError) as refused:
        inputs_of(tmp_path)
    said = str(refused.value)
    assert said.startswith(f"{tmp_path}/model.json does not describe a model (") and reason in said and "\n" not in said


def test_a_whole_description_is_read(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps(WHOLE))
    assert read_description(tmp_path) == WHOLE and inputs_of(tmp_path).names == ()
