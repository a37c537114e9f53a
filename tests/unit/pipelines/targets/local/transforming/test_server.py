"""The server of a model's own code: the hooks of the inference toolkit, and what it does where there are none."""

from __future__ import annotations

import io
import types
from typing import Any

import numpy as np
import pytest

from drivetrain.pipelines.targets.local.transforming.server import Handler, UnsupportedError, decoded, encoded


class Tensor:
    """What torch's tensors have that arrays do not."""

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Any:
        return np.array([1.5])


def module(**functions: Any) -> types.ModuleType:
    made = types.ModuleType("inference")
    made.__file__ = "inference.py"
    made.__dict__.update({"model_fn": lambda folder: lambda data: data * 2, **functions})
    return made


def test_json_csv_and_npy_become_arrays_and_arrays_become_these() -> None:
    handler = Handler(module(), "/model")
    assert handler.answer(b"[[1, 2]]", "application/json", "*/*") == (b"[[2, 4]]", "application/json")
    assert handler.answer(b"1,2\n3,4", "text/csv", "text/csv") == (b"2.0,4.0\n6.0,8.0\n", "text/csv")
    stream = io.BytesIO()
    np.save(stream, np.array([1, 2]))
    body, kind = handler.answer(stream.getvalue(), "application/x-npy", "application/x-npy")
    assert kind == "application/x-npy" and np.load(io.BytesIO(body)).tolist() == [2, 4]
    assert encoded(Tensor(), "application/json")[0] == b"[1.5]"
    for call in (lambda: decoded(b"", "image/png"), lambda: encoded([1], "image/png")):
        with pytest.raises(UnsupportedError, match="'image/png'"):
            call()


def test_a_model_with_predict_is_asked_by_it() -> None:
    class Model:
        def predict(self, data: Any) -> Any:
            return data + 1

    assert Handler(module(model_fn=lambda folder: Model()), "/m").answer(b"[1]", "application/json", "")[0] == b"[2]"


def test_hooks_take_the_place_of_what_is_done_by_itself_and_may_take_a_context() -> None:
    handler = Handler(
        module(
            model_fn=lambda folder, context: context["model_dir"],
            input_fn=lambda body, kind: (body, kind),
            predict_fn=lambda data, model: f"{model} {data[1]}: {data[0]}",
            output_fn=lambda prediction, accept: prediction,
        ),
        "/model",
    )
    assert handler.answer("é".encode(), "text/plain", "text/plain") == ("/model text/plain: é".encode(), "text/plain")


def test_one_hook_may_do_all() -> None:
    handler = Handler(module(transform_fn=lambda model, body, kind, accept: (body[::-1], "x/y")), "/m")
    assert handler.answer(b"\x01\x02", "application/octet-stream", "") == (b"\x02\x01", "x/y")


def test_code_that_loads_no_model_ends_the_server() -> None:
    made = module()
    del made.__dict__["model_fn"]
    with pytest.raises(SystemExit, match="has no model_fn"):
        Handler(made, "/m")
