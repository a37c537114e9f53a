import json
import re

import pytest

from drivetrain.base import json_text
from drivetrain.base.errors import UserError
from drivetrain.base.json_text import compact, deeper_than, parse, text_of


def refusal(text: str | bytes) -> str:
    with pytest.raises(UserError) as caught:
        parse(text, "file.json")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1,\n "b" 2}', r"^file.json, line 2, column 6: not JSON: .*found '2\}'"),
        ("", r"line 1, column 1: not JSON.*found the end of the file"),
        ('{"a": [1, 2', r"found the end of the file"),
        ("{} {}", r"line 1, column 4: .*Extra data"),
        ('{"a": "b\n"}', r"line 1, column 9: .*control character"),
        ('{\n "a": 1,\n "b": {"c": 1, "d": 2, "c": 3}}', r"line 3, column 24: key 'c' is given twice in one object"),
        ('{"a": 1, "\\u0061": 2}', r"column 10: key 'a' is given twice"),
        ('{"a": "NaN",\n "b": NaN}', r"line 2, column 7: NaN is not JSON"),
        ("[-Infinity]", r"column 2: -Infinity is not JSON"),
        ("[1.5, 1e999]", r"column 7: 1e999 is outside the range of a double"),
        ('["' + "1" * 5000 + '", ' + "1" * 5000 + "]", r"column 5006: a number of more than 4,300 digits"),
    ],
)
def test_refuses_with_the_place(text: str, said: str) -> None:
    assert re.search(said, refusal(text), re.DOTALL), refusal(text)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 201 + "]" * 201, "[" * 900 + "]" * 900])
def test_refuses_deep_nesting(text: str) -> None:
    assert refusal(text) == "file.json: objects and lists are nested more than 200 levels deep."


def test_takes_the_deepest_that_is_allowed() -> None:
    text = "[" * 200 + "]" * 200
    assert text_of(parse(text, "file")).split() == [*text[:199], "[]", *text[201:]]


@pytest.mark.parametrize(("value", "depth"), [(1, 0), ([], 1), ({}, 1), ([[1], {"a": [2]}], 3)])
def test_depth_is_counted_exactly(value: json_text.Json, depth: int) -> None:
    assert not deeper_than(value, depth)
    assert depth == 0 or deeper_than(value, depth - 1)


def test_too_large_texts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "MAX_BYTES", 100)
    assert refusal(b" " * 101) == "file.json: 101 bytes are too much; at most 100."


@pytest.mark.parametrize(
    ("data", "byte"), [(b'{"a": "\xe9"}', "byte 7 (0xe9)"), ("{}".encode("utf-16"), "byte 0 (0xff)")]
)
def test_refuses_bytes_that_are_not_utf_8(data: bytes, byte: str) -> None:
    assert refusal(data) == f"file.json: {byte} is not UTF-8. Save the file as UTF-8."


def test_takes_a_byte_order_mark() -> None:
    assert parse(b'\xef\xbb\xbf{"a": 1}', "file") == parse('\ufeff{"a": 1}', "file") == {"a": 1}


@pytest.mark.parametrize("literal", ["1E5", "0.10", "-0.0", "1e-400", "0.1000000000000000055511151231257827", "5e-324"])
def test_floats_are_written_back_as_they_were(literal: str) -> None:
    value = parse(f"[{literal}]", "file")
    assert value == [float(literal)]
    assert text_of(value, indent=0).split() == ["[", literal, "]"]


def test_large_integers_are_exact() -> None:
    assert text_of(parse(str(10**300 + 1), "file")).strip() == str(10**300 + 1)


def test_half_a_surrogate_pair_survives_as_an_escape() -> None:
    value = parse('{"\\ud83d": "\\ud83d\\ude00 \\udc00"}', "file")
    written = text_of(value)
    assert written.encode() and parse(written.encode(), "again") == value == {"\ud83d": "\U0001f600 \udc00"}


def test_text_is_what_the_standard_library_writes() -> None:
    value = {"b": [1, 2.5, None, True, {}, [], 'é\n"\\'], "a": {"c": {"d": False}}}
    assert text_of(value) == json.dumps(value, indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", ("a",)])
def test_values_that_json_cannot_hold_are_not_written(value: object) -> None:
    with pytest.raises(UserError, match="this cannot be written as JSON"):
        text_of([value])  # type: ignore[list-item]


def test_integers_that_cannot_be_read_back_are_not_written() -> None:
    with pytest.raises(UserError, match="this cannot be written as JSON"):
        text_of(10**5000)


def test_compact_text_is_that_of_the_standard_library_but_for_spelled_floats() -> None:
    plain = {"a": [1.5, -0.0, 1e300, 2**70, True, False, None, [], {}], "\u00e9\n": {"b": "\ud83d\ude00 \ud800 \x7f"}}
    assert compact(plain) == json.dumps(plain, separators=(",", ":"))
    text = '{"a":1E5,"b":[0.10,{"c":-1.50e-3}],"d":"\\u00e9\\ud800"}'
    assert compact(parse(text, "test")) == text
    with pytest.raises(UserError, match="no finite number"):
        compact([float("nan")])
