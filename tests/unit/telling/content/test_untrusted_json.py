from __future__ import annotations

import os
from pathlib import Path

import pytest

from drivetrain.base.json_text import as_list, as_object
from drivetrain.telling.content.untrusted_json import (
    UnreadableError,
    drawable,
    finite,
    objects,
    read_object,
    text,
    texts,
    whole,
)

HUGE = 10**5000


def test_an_object_is_read_and_a_missing_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": [1, NaN, Infinity]}')
    assert read_object(tmp_path / "a.json") == {"a": [1, None, None]}
    assert read_object(tmp_path / "b.json") is None
    assert read_object(tmp_path) is None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        (b"", "is no JSON"),
        (b"[1]", "is no JSON object"),
        (b'{"a": ' + b"1" * 5000 + b"}", "is no JSON"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "is no JSON"),
        (b'{"a": "' + b"x" * 2_000_000 + b'"}', "is larger than 1 MB"),
    ],
)
def test_unreadable_files_give_a_reason(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(UnreadableError, match=f"^{why}$"):
        read_object(tmp_path / "a.json", most_bytes=1024 * 1024)


def test_a_named_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    assert read_object(tmp_path / "a.json") is None


@pytest.mark.parametrize("value", [None, True, "3", float("nan"), float("inf"), 10**400, [], {}])
def test_only_finite_numbers_are_numbers(value: object) -> None:
    assert finite(value) is None and drawable(value) is None and whole(value) is None


def test_numbers() -> None:
    assert finite(3) == 3.0 and finite(-1e300) == -1e300
    assert drawable(1e100) == 1e100 and drawable(1e101) is None
    assert whole(3.0) == 3 and whole(2.5) is None and whole(-1) is None and whole(10**15) is None


def test_texts_are_cut_and_other_types_are_empty() -> None:
    assert text("x" * 300) == "x" * 199 + "…" and text(3) == "3" and text(None) == text([]) == text(True) == ""
    assert text(HUGE) == ""
    assert texts({"a": "b", "c": None, "d": 3}, 10) == {"a": "b", "d": "3"}
    assert len(texts({str(place): "x" for place in range(100)}, 7)) == 7


def test_other_shapes_are_empty() -> None:
    assert as_object([1]) == {} and as_list({"a": 1}) == []
    assert list(objects([{"a": 1}, 3, {"b": 2}, {"c": 3}], 3)) == [{"a": 1}, {"b": 2}]
