"""Filters and joins over CSV and JSON."""

from __future__ import annotations

import json

import pytest

from drivetrain.targets.sagemaker.run.batch_transform.data_processing import DataProcessing, ProcessingError, kind_of
from drivetrain.targets.sagemaker.run.batch_transform.filters import Filter


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
