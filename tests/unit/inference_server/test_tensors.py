"""The V2 protocol: arrays in JSON and in bytes, both ways, and requests that are none."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from drivetrain.inference_server import tensors
from drivetrain.inference_server.tensors import Asked, read, write


def request(*inputs: dict[str, Any], raw: bytes = b"", **more: Any) -> tuple[bytes, str | None]:
    text = json.dumps({"inputs": list(inputs), **more}).encode()
    return text + raw, str(len(text)) if raw else None


def given(name: Any = "x", shape: Any = (2,), datatype: Any = "FP32", data: Any = None, **more: Any) -> dict[str, Any]:
    return (
        {"name": name, "shape": shape if isinstance(shape, str) else list(shape), "datatype": datatype}
        | ({"data": data} if data is not None else {})
        | more
    )


@pytest.mark.parametrize("nested", [[1, 2, 3, 4], [[1, 2], [3, 4]]])
def test_json_gives_arrays_of_their_types(nested: Any) -> None:
    asked = read(*request(given("a", (2, 2), "INT16", nested), given("b", (1,), "BYTES", ["é"]), id="7"))
    assert asked.tensors["a"].dtype == np.int16 and asked.tensors["a"].tolist() == [[1, 2], [3, 4]]
    assert asked.tensors["b"].tolist() == ["é"] and asked.id == "7"
    assert read(*request(given("c", (2,), "BOOL", [True, False]))).tensors["c"].dtype == np.bool_
    assert read(*request(given("d", (0, 3), "FP64", []))).tensors["d"].shape == (0, 3)


@pytest.mark.parametrize("name", [name for name in tensors._TYPES if name not in ("BYTES", "BOOL")])
def test_bytes_go_there_and_back(name: str) -> None:
    values = np.array([[0, 1], [5, 100]], dtype=tensors._TYPES[name])
    sent, kind, length = write({"y": values}, Asked({}, {"y": True}, "1", False), "m")
    assert kind == "application/octet-stream" and length is not None
    said = json.loads(sent[:length])
    assert said["outputs"][0]["datatype"] == name and said["id"] == "1" and said["model_name"] == "m"
    again = read(*request(*said["outputs"], raw=sent[length:]))
    assert again.tensors["y"].dtype == values.dtype and np.array_equal(again.tensors["y"], values)


def test_texts_in_bytes() -> None:
    texts = np.array(["cat", "", "é"], dtype=object)
    sent, _, length = write({"y": texts}, Asked({}, {}, None, True), "m")
    assert length is not None and sent[length:] == b"\x03\0\0\0cat\0\0\0\0\x02\0\0\0\xc3\xa9"
    back = request(
        {"name": "y", "shape": [3], "datatype": "BYTES", "parameters": {"binary_data_size": 17}}, raw=sent[length:]
    )
    assert read(*back).tensors["y"].tolist() == ["cat", "", "é"]


def test_only_the_wanted_outputs_are_written() -> None:
    asked = read(*request(given(data=[1, 2]), outputs=[{"name": "b"}]))
    answers = {"a": np.zeros(1), "b": np.ones(1, np.float32)}
    body, kind, _ = write(answers, asked, "m")
    assert kind == "application/json"
    assert json.loads(body)["outputs"] == [{"name": "b", "shape": [1], "datatype": "FP32", "data": [1.0]}]
    with pytest.raises(ValueError, match="there is no output 'c'"):
        write(answers, asked._replace(outputs={"c": False}), "m")
    with pytest.raises(ValueError, match="not finite"):
        write({"a": np.array([np.nan])}, asked._replace(outputs={}), "m")


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ((b"{", None), "the body is no JSON"),
        ((b"[]", None), "the body has no inputs"),
        ((b'{"inputs": 3}', None), "inputs is no list of objects"),
        (request(given(name=3, data=[1, 2])), "an input has name 3"),
        (request(given(datatype="FP8", data=[1, 2])), "'x' has datatype 'FP8'. Allowed: BOOL"),
        (request(given(shape="x", data=[1])), "has shape 'x'"),
        (request(given(shape=(-1,), data=[1])), r"has shape \[-1\]"),
        (request(given(shape=(3,), data=[1, 2])), r"has 2 values, and its shape \[3\] 3"),
        (request(given(data=[1, "2"])), "values that are no FP32"),
        (request(given(data=[[1], [2, 3]])), "lists of different lengths"),
        (request(given(datatype="INT8", data=[1, 300])), "values beyond INT8"),
        (request(given(datatype="INT8", data=[1, 2.5])), "values that are no INT8"),
        (request(given(datatype="INT64", data=[True, False])), "values that are no INT64"),
        (request(given()), "values that are no FP32"),
        (request(given(data=[1, 2]), given(data=[1, 2])), "'x' is given twice"),
        (request(given(data=[1, 2]), raw=b"123"), "3 bytes stand after the last input"),
        (request(given(parameters={"binary_data_size": 9}), raw=b"12345678"), "binary_data_size 9, and 8 bytes"),
        (request(given(parameters={"binary_data_size": 7}), raw=b"1234567"), "7 bytes, no multiple of 4"),
        ((b"{}", "9"), "Inference-Header-Content-Length is '9'. Allowed: 0 to 2"),
    ],
)
def test_what_is_no_request_is_refused_in_one_line(sent: tuple[bytes, str | None], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        read(*sent)
    assert "\n" not in str(raised.value)
