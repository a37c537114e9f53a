"""Trees of tensors under the names of a SavedModel's signature, and back; asked of TensorFlow Serving."""

from __future__ import annotations

import json
import urllib.request
from io import BytesIO
from typing import Any

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.serving import saved_model
from drivetrain.training.serving.saved_model import named, unnamed

ONE, TWO = np.zeros((2, 3), np.float32), np.arange(2)


@pytest.mark.parametrize(
    ("tree", "names"),
    [
        (ONE, ["outputs"]),
        ((ONE, TWO), ["outputs_0", "outputs_1"]),
        ({"logits": ONE, "answer": TWO}, ["logits", "answer"]),
    ],
)
def test_a_tree_comes_back_by_its_names(tree: Any, names: list[str]) -> None:
    found = named(tree, "outputs")
    assert list(found) == names
    back = unnamed(dict(sorted(found.items())), "outputs")  # a SavedModel has them by their names
    assert type(back) is type(tree)
    again = named(back, "outputs")
    assert again.keys() == found.keys() and all(again[name] is found[name] for name in found)


@pytest.mark.parametrize("tree", [{"a": (ONE,)}, ((ONE,),), {"a b": ONE}, {"outputs": ONE}, {"outputs_0": ONE}])
def test_unsupported_signatures_are_refused(tree: Any) -> None:
    with pytest.raises(InputError, match=r"a signature has one tensor, a tuple .* these outputs are .* \[2, 3\]"):
        named(tree, "outputs")


def test_tensorflow_serving_is_asked_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def answer(request: urllib.request.Request, timeout: float) -> BytesIO:
        assert isinstance(request.data, bytes)
        asked.append(json.loads(request.data)["instances"])
        return BytesIO(b'{"predictions": [{"logits": [0.5, 1.5], "answer": 1}, {"logits": [2, 1], "answer": 0}]}')

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    outputs = saved_model._in_serving("http://serving", "float32")({"tokens": np.array([[1, 2], [3, 4]]), "mask": TWO})
    assert asked == [[{"tokens": [1, 2], "mask": 0}, {"tokens": [3, 4], "mask": 1}]]
    assert outputs["logits"].dtype == np.float32 and outputs["logits"].tolist() == [[0.5, 1.5], [2.0, 1.0]]
    assert outputs["answer"].dtype.kind == "i" and outputs["answer"].tolist() == [1, 0]
