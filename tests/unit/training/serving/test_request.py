"""Bodies of requests: what they may look like, and one clear line for each that is wrong."""

from __future__ import annotations

import io
import json
import random
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.serving.inputs import Input, Inputs
from drivetrain.training.serving.raw import imdb, prepared, text
from drivetrain.training.serving.request import columns_of

TWO = Inputs((Input("a", np.dtype("uint8"), ()), Input("b", np.dtype("float32"), ())))
TOKENS = Inputs((Input("tokens", np.dtype("int64"), (3,)),))
IMAGES = Inputs((Input("image", np.dtype("uint8"), (1, 2, 1)),))
FLAGS = Inputs((Input("on", np.dtype("bool"), ()),))
UNKNOWN = Inputs((Input("a"), Input("b")))
JSON, LINES, CSV, NPY = "application/json", "application/jsonlines", "text/csv", "application/x-npy"


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(array))
    return stream.getvalue()


def npz(array: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, array=array)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (JSON, '[{"a": 1, "b": 0.5}, {"b": 2, "a": 3}]'),
        (JSON, '{"instances": [{"a": 1, "b": 0.5, "id": "x"}, {"b": 2, "a": 3, "id": null}]}'),
        ("application/json; charset=utf-8", b"\xef\xbb\xbf[[1, 0.5], [3, 2]]"),
        (LINES, '{"a": 1.0, "b": 0.5}\n\n{"a": 3, "b": 2}\n'),
        ("application/x-ndjson", "[1, 0.5]\r\n[3, 2]"),
        (CSV, "b, a,id\n0.5,1,x\n2,3,y\n"),
        (CSV, b"1,0.5\r\n3,2.0"),
        (NPY, npy([[1, 0.5], [3, 2]])),
    ],
)
def test_one_meaning_in_many_forms(kind: str, body: str | bytes) -> None:
    columns = columns_of(body, kind, TWO)
    assert list(columns) == ["a", "b"]
    assert (columns["a"].dtype, columns["b"].dtype) == (np.uint8, np.float32)
    assert (columns["a"].tolist(), columns["b"].tolist()) == ([1, 3], [0.5, 2.0])


@pytest.mark.parametrize(
    ("inputs", "kind", "body", "expected"),
    [
        (TOKENS, JSON, "[[1, 2, 3], [4, 5, 6]]", [[1, 2, 3], [4, 5, 6]]),
        (TOKENS, JSON, '{"tokens": [1, 2, 3]}', [[1, 2, 3]]),
        (TOKENS, CSV, "1,2,3\n4,5,6\n", [[1, 2, 3], [4, 5, 6]]),
        (TOKENS, NPY, npy([[1, 2, 3]]), [[1, 2, 3]]),
        (IMAGES, CSV, "1,2\n", [[[[1], [2]]]]),
        (IMAGES, JSON, "[[[[1], [2]]]]", [[[[1], [2]]]]),
        (FLAGS, JSON, '[{"on": true}, {"on": 0}]', [True, False]),
        (FLAGS, CSV, "on\nTrue\nfalse\n1\n", [True, False, True]),
    ],
)
def test_one_column_of_any_shape(inputs: Inputs, kind: str, body: str, expected: list[Any]) -> None:
    (column,) = columns_of(body, kind, inputs).values()
    assert column.tolist() == expected
    assert column.dtype == inputs.columns[0].dtype


def test_a_model_that_does_not_say_its_types_takes_numbers_as_they_come() -> None:
    columns = columns_of("[[1, 0.5]]", JSON, UNKNOWN)
    assert (columns["a"].dtype.kind, columns["b"].dtype.kind) == ("i", "f")


@pytest.mark.parametrize(
    ("inputs", "kind", "body", "message"),
    [
        (TWO, "text/html", "", r"content type 'text/html' is not taken. Allowed: application/json, "),
        (TWO, "", "[]", "content type '' is not taken"),
        (TWO, JSON, "[]", "the request has no rows"),
        (TWO, JSON, '{"instances": []}', "the request has no rows"),
        (TWO, CSV, "a,b\n", "the request has no rows"),
        (TWO, CSV, "", "the request has no rows"),
        (TWO, LINES, "\n", "the request has no rows"),
        (TWO, NPY, npy(np.zeros((0, 2))), "the request has no rows"),
        (TWO, JSON, "{", "the body is no JSON: Expecting"),
        (TWO, JSON, "[" * 100_000, "the body is no JSON: maximum recursion"),
        (TWO, JSON, "3", "the body is a JSON int; allowed are a list of rows, and an object"),
        (TWO, JSON, b"\xff", r"the body is no JSON: it is not UTF-8 \(byte 1\)"),
        (TWO, LINES, '{"a": 1, "b": 2}\n{"a": ', "line 2 is no JSON"),
        (TWO, JSON, '[{"a": 1}]', "the rows lack b. The model takes a, b; the rows have a."),
        (TWO, JSON, '[{"a": 1, "b": 1}, {"a": 1}]', "row 2 lacks b"),
        (TWO, JSON, '[{"a": 1, "b": 1}, [1, 2]]', "row 2 is no object"),
        (TWO, JSON, "[[1, 2], [3]]", "row 2 has 1 values; the model takes 2: a, b"),
        (TWO, JSON, "[1, 2]", "row 1 is 1; allowed are objects, and lists of values"),
        (TWO, JSON, '[{"a": 1, "b": 1}, {"a": null, "b": 2}]', "row 2: a is missing"),
        (TWO, JSON, '[{"a": "x", "b": 1}]', "row 1: a is 'x', which is no number"),
        (TWO, JSON, '[{"a": [1], "b": 1}]', r"a has shape \[1\] a row; the model takes \[\]"),
        (TWO, JSON, '[{"a": {}, "b": 1}]', r"row 1: a is \{\}, which is no number"),
        (TWO, JSON, '[{"a": 1, "b": NaN}]', "row 1: b is not finite"),
        (TWO, JSON, '[{"a": 1, "b": 1}, {"a": 1, "b": 1e300}]', "row 2: b is too large for float32"),
        (TWO, JSON, '[{"a": 256, "b": 1}]', "row 1: a is 256; allowed are whole numbers from 0 to 255"),
        (TWO, JSON, '[{"a": 0.5, "b": 1}]', "row 1: a is 0.5; allowed are whole numbers from 0 to 255"),
        (TWO, JSON, '[{"a": 1267650600228229401496703205376, "b": 1}]', "row 1: a is"),
        (TWO, JSON, '[{"a": 1, "b": 1}, {"a": 1, "b": true}]', "row 2: b is True, which is no number"),
        (FLAGS, JSON, '[{"on": 2}]', "row 1: on is 2; allowed are whole numbers from 0 to 1"),
        (TWO, CSV, "a,a,b\n1,2,3\n", "the header has a name twice"),
        (TWO, CSV, "a,b\n1,2\n3\n", "row 2 has 1 values; the header has 2 names"),
        (TWO, CSV, "a,b\n1,x\n", "row 1: b is 'x', which is no number"),
        (TWO, CSV, "a,b\n1,\n", "row 1: b is missing"),
        (TWO, CSV, "x,y,z\n", "the first row has 3 values and no name of a column; the model takes 2 columns: a, b"),
        (TWO, CSV, '"a', "the body is no CSV"),
        (TWO, CSV, "a\n1\n", "the rows lack b"),
        (TWO, NPY, b"\x93NUMPY", "the body is no array of numpy.save"),
        (TWO, NPY, b"damaged", r"^the body is no array of numpy.save: [^.]*\.$"),
        (TWO, NPY, b"PK\x03\x04", "the body is no array of numpy.save: File is not a zip file"),
        (TWO, NPY, npy(np.ones((2, 2))).replace(b"}  ", b"} ("), "the body is no array of numpy.save"),
        (TWO, NPY, npy(np.ones((2, 2))).replace(b"<f8", b"<,8"), "the body is no array of numpy.save"),
        (TWO, NPY, npy(np.ones((2, 2), "V3")), "the array holds .*V3; allowed are whole numbers, floats and bool"),
        (TWO, NPY, npy([["a", "b"]]).replace(b"a\0\0\0", b"a\0\0\xff"), "the body is no array of numpy.save"),
        (IMAGES, CSV, "1,x\n", "image is .*, which is no number"),
        (TWO, NPY, "text", "the body is text"),
        (TWO, JSON, None, "the body is a Python NoneType; allowed are text and bytes"),
        (TWO, CSV, {"a": 1}, "the body is a Python dict; allowed are text and bytes"),
        (TWO, NPY, npy(3), "a single value or an archive"),
        (TWO, NPY, npy([[1, 2, 3]]), r"the array has shape \[1, 3\]; the model takes \[rows, 2\]: a, b"),
        (TWO, NPY, npy([["1", "2"]]), "row 1: a is .*'1'.*, which is no number"),
        (TOKENS, JSON, "[[1, 2], [3]]", "tokens has values of different shapes"),
        (IMAGES, CSV, "1,2,3\n", r"row 1 has 3 values; image is \[1, 2, 1\] a row"),
        (Inputs((Input("text", np.dtype("int64"), (2,)),)), JSON, '[{"texts": "x"}]', "the rows lack text"),
    ],
)
def test_errors_are_one_line(inputs: Inputs, kind: str, body: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        columns_of(body, kind, inputs)
    assert isinstance(caught.value, InputError)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("inputs", [TWO, IMAGES], ids=["columns", "an image"])
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (JSON, b'{"instances": [{"a": 1, "b": 0.5}, {"b": 2, "a": 3}]}'),
        (LINES, b'{"a": 1, "b": 0.5}\n[1, 2]\n'),
        (CSV, b'a,b\n1,2\n3,"4"\n'),
        (NPY, npy(np.ones((2, 2)))),
        (NPY, npy([["1", "2"]])),
        (NPY, npz(np.ones((2, 2)))),
    ],
    ids=["json", "lines", "csv", "npy", "npy of texts", "npz"],
)
def test_a_damaged_body_is_a_client_error(kind: str, body: bytes, inputs: Inputs) -> None:
    """Cut at each byte, and with bytes changed: it is read, or refused; nothing else is raised."""
    draw = random.Random(1)
    damaged = [body[:end] for end in range(len(body))]
    for _ in range(200):
        changed = bytearray(body)
        changed[draw.randrange(min(len(body), 130))] = draw.choice(b"\0\xff01(){}[]\"',:\n")
        damaged.append(bytes(changed))
    refused = 0
    for each in damaged:
        try:
            columns_of(each, kind, inputs)
        except InputError as error:
            assert len(str(error).splitlines()) == 1
            refused += 1
    assert refused > len(body) // 2


def test_an_array_with_objects_is_not_unpickled() -> None:
    stream = io.BytesIO()
    np.save(stream, np.array([[{"a": 1}]], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"no array of numpy\.save: .*allow_pickle"):
        columns_of(stream.getvalue(), NPY, TOKENS)


def raw_inputs(raw: ModuleType, **options: Any) -> Inputs:
    fitted = {"vocabulary": ["good", "film"]} if raw is imdb else {}
    return Inputs((Input("tokens", np.dtype("int64"), (4,)),), raw, options, fitted)


def test_a_text_in_place_of_its_tokens() -> None:
    inputs = raw_inputs(imdb, length=4)
    expected = [[2, 3, 1, 0], [1, 0, 0, 0]]
    rows = [{"text": "Good film, awful<br />"}, {"text": "!"}]
    for kind, body in ((JSON, json.dumps(rows)), (CSV, 'text\n"Good film, awful<br />"\n!\n')):
        assert columns_of(body, kind, inputs)["tokens"].tolist() == expected
    assert columns_of("Good film awful", "text/plain", inputs)["tokens"].tolist() == expected[:1]
    assert columns_of('[{"tokens": [5, 6, 7, 8]}]', JSON, inputs)["tokens"].tolist() == [[5, 6, 7, 8]]
    for body, message in (
        ('[{"text": 3}]', "row 1: text is 3, which is no text"),
        (
            '[{"words": "x"}]',
            "the rows lack tokens. The model takes tokens, or text in their place; the rows have words.",
        ),
    ):
        with pytest.raises(InputError, match=message):
            columns_of(body, JSON, inputs)


def test_a_text_in_place_of_its_bytes() -> None:
    inputs = raw_inputs(text, length=4)
    assert columns_of("aé", "text/plain", inputs)["tokens"].tolist() == [[97, 195, 169, 0]]
    with pytest.raises(InputError, match="different shapes"):
        columns_of('[{"text": "a"}, {"text": "ab"}]', JSON, inputs)
    with pytest.raises(InputError, match="row 2: text is ''"):
        columns_of('[{"text": "a"}, {"text": ""}]', JSON, inputs)


TABLE = Inputs(
    (Input("age", np.dtype("float64"), ()), Input("visits", np.dtype("int64"), ()), Input("plan", np.dtype("O"), ())),
    raw=prepared,
    options={"missing": ["age", "plan"]},
)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (JSON, '[{"age": 1.5, "visits": 2, "plan": "7"}, {"visits": 3}]'),
        (JSON, '[[1.5, 2, "7"], [null, 3, null]]'),
        (LINES, '{"visits": 2, "plan": "7", "age": 1.5}\n{"visits": 3, "age": null}'),
        (CSV, "age,visits,plan\n1.5,2,7\n,3,\n"),
        (CSV, "1.5,2,7\n,3,\n"),
    ],
)
def test_a_model_that_reads_missing_values_gets_them(kind: str, body: str) -> None:
    columns = columns_of(body, kind, TABLE)
    np.testing.assert_array_equal(columns["age"], [1.5, np.nan])
    assert columns["visits"].tolist() == [2, 3]
    assert columns["plan"].tolist() == ["7", None], "a text stays one where it looks like a number"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('[{"age": 1.5, "plan": "a"}]', "the rows lack visits"),
        ('[{"age": 1.5, "plan": "a", "visits": null}]', "row 1: visits is missing"),
        ('[{"age": "x", "plan": "a", "visits": 1}]', "row 1: age is 'x', which is no number"),
        ('[{"age": Infinity, "plan": "a", "visits": 1}]', "row 1: age is not finite"),
    ],
)
def test_other_values_must_be_there(body: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        columns_of(body, JSON, TABLE)
