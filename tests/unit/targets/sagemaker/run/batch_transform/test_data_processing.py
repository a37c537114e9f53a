"""Filters and joins over CSV and JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.targets.sagemaker.run.batch_transform.data_processing import (
    DataProcessing,
    Filter,
    FilterError,
    ProcessingError,
    kind_of,
)

ROW = ["a", "b", "c", "d", "e", "f"]
RECORD = {"id": {"x": 1, "y": 2}, "features": [10, 20, 30], "SageMakerOutput": {"label": 1}}


def processing(kind: str, input_filter: str = "$", output_filter: str = "$", *, join: bool = False) -> DataProcessing:
    assert kind in ("csv", "json")
    return DataProcessing(
        kind=kind,  # type: ignore[arg-type]
        input_filter=Filter.of(input_filter),
        output_filter=Filter.of(output_filter),
        join=join,
    )


def test_kinds_of_data() -> None:
    assert kind_of("text/csv; charset=utf-8") == "csv" and kind_of("application/jsonlines") == "json"
    assert kind_of("image/png") is None and kind_of(None) is None


def test_without_filters_and_join_data_pass_as_they_are() -> None:
    plain = DataProcessing()
    assert plain.payload(b'"1" ,2') == b'"1" ,2'
    assert plain.output([b"1", b"2"], b"any \x00 answer") == [b"any \x00 answer"]


def test_the_documented_examples() -> None:
    csv = processing("csv", "$[1:]", join=True)
    assert csv.payload(b"7,1,2") == b"1,2"
    assert csv.output([b"1,2,3"], b"1") == [b"1,2,3,1"]
    json_lines = processing("json", "$.features", "$['id','SageMakerOutput']", join=True)
    record = b'{"id": 3, "features": [1, 2]}'
    assert json.loads(json_lines.payload(record)) == [1, 2]
    [joined] = json_lines.output([record], b'{"label": 1}')
    assert json.loads(joined) == {"id": 3, "SageMakerOutput": {"label": 1}}
    # What is no object goes into a new one.
    [joined] = processing("json", join=True).output([b"[1, 2]"], b"0.5")
    assert json.loads(joined) == {"SageMakerInput": [1, 2], "SageMakerOutput": 0.5}


def test_cells_with_commas_and_quotes_survive() -> None:
    record = b'"a, ""b""",2'
    assert processing("csv", "$[0]").payload(record) == b'"a, ""b"""'
    assert processing("csv", join=True).output([record], b"x") == [b'"a, ""b""",2,x']


def test_only_the_answer_is_filtered_without_a_join() -> None:
    assert processing("csv", output_filter="$[-1]").output([b"9,9", b"9,9"], b"1,2\n3,4\n") == [b"2", b"4"]


def test_as_many_answers_as_records_or_none_at_all() -> None:
    with pytest.raises(ProcessingError, match="the answer has 1 lines to a request of 2 records"):
        processing("csv", join=True).output([b"1", b"2"], b"0.5\n")


@pytest.mark.parametrize(
    ("kind", "record", "answer", "said"),
    [
        ("json", b"{", b"1", "the record is no JSON"),
        ("json", b"1", b"no", "the answer is no JSON"),
        ("csv", b'"open', b"1", "the record is no CSV"),
        ("csv", b"\xff", b"1", "the record is no CSV"),
    ],
)
def test_data_of_another_kind_are_refused(kind: str, record: bytes, answer: bytes, said: str) -> None:
    with pytest.raises(ProcessingError, match=said):
        processing(kind, join=True).output([record], answer)


def test_a_record_without_what_a_filter_selects_is_refused() -> None:
    with pytest.raises(ProcessingError, match=r"there is no \[2\] among 2 values"):
        processing("csv", "$[2]").payload(b"1,2")


def test_the_answer_to_one_record_may_be_json_of_several_lines() -> None:
    [joined] = processing("json", join=True).output([b'{"id": 3}'], b'{\n  "label": 1\n}\n')
    assert json.loads(joined) == {"id": 3, "SageMakerOutput": {"label": 1}}


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("$", ROW, ROW),
        ("$[0]", ROW, "a"),
        ("$[-1]", ROW, "f"),
        ("$[1,3,5]", ROW, ["b", "d", "f"]),
        ("$[0,-1]", ROW, ["a", "f"]),
        ("$[1:]", ROW, ROW[1:]),
        ("$[1:4]", ROW, ["b", "c", "d", "e"]),  # "the second through fifth columns"
        ("$[:5]", ROW, ROW),  # "from the first column (index 0) through the sixth column"
        ("$[5:]", ROW, ["f"]),  # "from the 6th column through the last column"
        ("$[2:-2]", ROW, ["c", "d", "e"]),
        ("$[0,5:]", ROW, ["a", "f"]),
        ("$[*]", ROW, ROW),
        ("$.id", RECORD, {"x": 1, "y": 2}),
        ("$.id.x", RECORD, 1),
        ("$.id.*", RECORD, [1, 2]),
        ("$['id']", RECORD, {"x": 1, "y": 2}),
        ("$['id','SageMakerOutput']", RECORD, {"id": RECORD["id"], "SageMakerOutput": {"label": 1}}),
        ("$.id.['x','y']", RECORD, {"x": 1, "y": 2}),
        ("$.features[1:]", RECORD, [20, 30]),
        ("$.features[0]", RECORD, 10),
    ],
)
def test_the_documented_operators(text: str, value: Any, expected: Any) -> None:
    assert Filter.of(text).apply(value) == expected


@pytest.mark.parametrize("text", ["", "id", "[0]", "$x", "$.", "$[]", "$[a]", "$['id", "$..id", "$[?(@.x)]", "$[::2]"])
def test_invalid_filters_are_refused_with_the_allowed_ones(text: str) -> None:
    with pytest.raises(FilterError, match=r"Allowed: \$"):
        Filter.of(text)


def test_nothing_follows_what_selects_several_values_and_nothing_is_longer_than_the_service_takes() -> None:
    with pytest.raises(FilterError, match="nothing can follow"):
        Filter.of("$['a','b'].c")
    with pytest.raises(FilterError, match="at most 63 characters"):
        Filter.of("$." + "x" * 62)


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("$[6]", ROW, r"there is no \[6\] among 6 values"),
        ("$[0:6]", ROW, r"there is no \[6\] among 6 values"),
        ("$[-7]", ROW, r"there is no \[-7\] among 6 values"),
        ("$.x", RECORD, r"there is no 'x' \(there: id, features, SageMakerOutput\)"),
        ("$['id','x']", RECORD, "there is no 'x'"),
        ("$.id", ROW, "names members, and there is a list; a CSV line goes by numbers"),
        ("$[0]", RECORD, "counts places, and there is an object"),
        ("$.id.x.*", RECORD, "selects the members of a single value, 1"),
    ],
)
def test_a_record_without_what_is_selected_is_an_error_as_on_the_service(text: str, value: Any, said: str) -> None:
    with pytest.raises(FilterError, match=said):
        Filter.of(text).apply(value)


@given(st.text(alphabet="$.[]'*:,-0123456789ab", max_size=20))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    try:
        chosen = Filter.of(text)
    except FilterError:
        return
    for value in (ROW, RECORD, 3):
        try:
            chosen.apply(value)
        except FilterError as error:
            assert chosen.text in str(error)
