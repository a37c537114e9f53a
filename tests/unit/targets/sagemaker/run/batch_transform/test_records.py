"""Records, batches and assembled files."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.targets.sagemaker.run.batch_transform.records import (
    LINE,
    MULTI,
    NONE,
    RECORD_IO,
    SINGLE,
    TF_RECORD,
    RecordError,
    assembled,
    batches,
    split,
)


def tf_record(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + b"cccc" + data + b"CCCC"


def record_io(data: bytes) -> bytes:
    return struct.pack("<II", 0xCED7230A, len(data)) + data + b"\0" * (-len(data) % 4)


def same(body: bytes) -> bytes:
    return body


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nb", [b"a", b"b"]),
        (b"a\n\nb\n", [b"a", b"", b"b"]),
    ],
)
def test_lines(content: bytes, expected: list[bytes]) -> None:
    assert split(content, LINE, bare=True) == split(content, LINE, bare=False) == expected
    assert split(content, NONE, bare=True) == [content]


@pytest.mark.parametrize(("kind", "frame"), [(TF_RECORD, tf_record), (RECORD_IO, record_io)])
def test_frames_are_left_on_or_taken_off(kind: str, frame: object) -> None:
    assert callable(frame)
    data = [b"one", b"", b"three!!"]
    content = b"".join(frame(each) for each in data)
    assert split(content, kind, bare=True) == data
    assert split(content, kind, bare=False) == [frame(each) for each in data]
    for torn in (content[:-1], content[: len(frame(b"one")) + 3]):
        with pytest.raises(RecordError, match="torn"):
            split(torn, kind, bare=True)


def test_invalid_record_io_gives_its_position() -> None:
    with pytest.raises(RecordError, match="no complete RecordIO record begins at byte 12"):
        split(record_io(b"one") + b"x" * 12, RECORD_IO, bare=True)


def test_as_many_records_as_fit_go_into_a_request() -> None:
    records = [b"aa", b"bb", b"cc", b"d"]
    assert [body for _, body in batches(records, MULTI, 5, b"\n", same)] == [b"aa\nbb", b"cc\nd"]
    assert [body for _, body in batches(records, MULTI, 4, b"\n", same)] == [b"aa", b"bb", b"cc\nd"]
    assert [body for _, body in batches(records, MULTI, None, b"", same)] == [b"aabbccd"]
    assert [body for _, body in batches(records, SINGLE, 5, b"\n", same)] == records
    assert list(batches([], MULTI, 5, b"\n", same)) == []


def test_a_record_that_fits_into_no_request_is_refused() -> None:
    with pytest.raises(RecordError, match=r"record 2 has 6 bytes, more than MaxPayloadInMB allows \(5\)"):
        list(batches([b"a", b"b"], MULTI, 5, b"\n", lambda record: record * 6 if record == b"b" else record))


@given(st.lists(st.binary(max_size=6)), st.integers(6, 20), st.sampled_from([b"", b"\n"]))
def test_nothing_is_lost_and_no_request_is_too_large(records: list[bytes], most: int, separator: bytes) -> None:
    found = list(batches(records, MULTI, most, separator, same))
    assert [record for taken, _ in found for record in taken] == records
    assert all(len(body) <= most and body == separator.join(taken) for taken, body in found)


def test_a_file_of_many_answers() -> None:
    assert assembled([b"a", b"b\n", b""], LINE) == b"a\nb\n\n"
    assert assembled([b"a", b"b\n"], NONE) == b"ab\n"
    assert assembled([], LINE) == b""
