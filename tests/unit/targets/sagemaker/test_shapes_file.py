"""shapes.json is what `make shapes` makes of the installed botocore, and cheap to read."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from drivetrain.targets.sagemaker.document.service import extract_shapes, service


def test_the_file_is_that_of_the_installed_botocore() -> None:
    assert extract_shapes.from_installed_botocore() == extract_shapes.FILE.read_text(encoding="utf-8"), (
        "run `make shapes` and commit shapes.json"
    )


def test_it_holds_no_shape_that_nothing_reaches_and_misses_none() -> None:
    shapes = service()["shapes"]
    reached = {
        *service()["requests"].values(),
        *(shape for answers in service()["responses"].values() for shape in answers),
    }
    for shape in shapes.values():
        reached |= set(shape.get("members", {}).values())
        reached |= {shape[role] for role in ("member", "key", "value") if role in shape}
    assert reached == set(shapes)


def test_it_is_small_and_holds_no_prose() -> None:
    text = extract_shapes.FILE.read_text(encoding="utf-8")
    assert len(text) < 130_000
    assert '"documentation"' not in text
    assert json.loads(text) == service()


def test_a_model_with_unchecked_constraints_is_refused() -> None:
    call = {"input": {"shape": "A"}, "output": {"shape": "A"}}
    calls = {*extract_shapes.CREATE.values(), *(name for names in extract_shapes.DESCRIBE.values() for name in names)}
    model: dict[str, Any] = {
        "metadata": {"apiVersion": "2017-07-24"},
        "operations": dict.fromkeys(calls, call),
        "shapes": {"A": {"type": "structure", "union": True, "members": {}}},
    }
    with pytest.raises(NotImplementedError, match="union"):
        extract_shapes.extract(model, "1.2.3")
    del model["shapes"]["A"]["union"]
    assert extract_shapes.extract(model, "1.2.3")["shapes"] == {"A": {"type": "structure", "members": {}}}


def test_reading_it_imports_no_botocore() -> None:
    code = (
        "import sys, drivetrain.targets.sagemaker.document.service.shapes as shapes;"
        "shapes.check_arguments('Training', {});"
        "print([name for name in sys.modules if name.startswith(('boto', 'sagemaker', 'torch'))])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
