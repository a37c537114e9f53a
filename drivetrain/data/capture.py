"""Data capture files of a SageMaker endpoint: JSON Lines, a request and its answer each, as rows of a table.

    {"captureData": {"endpointInput": {"observedContentType": "text/csv", "mode": "INPUT", "data": "1,2\\n3,4",
                                       "encoding": "CSV"},
                     "endpointOutput": {...}},
     "eventMetadata": {"eventId": "...", "inferenceId": "...", "inferenceTime": "2026-11-30T10:00:00Z"},
     "eventVersion": "0"}

https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html
"""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from drivetrain.base.errors import InputError, and_more
from drivetrain.base.json_text import object_in, parsed_object, text_in

EVENT, ROW, TIME, PREDICTED = "event_id", "row", "inference_time", "predicted"
_OURS = (EVENT, ROW, TIME)
_SCORES = {"scores": "score", "margins": "margin"}
Rows = list[dict[str, Any]]


class Captured(NamedTuple):
    """The rows of one record, with the answers to them."""

    rows: Rows
    is_text: bool
    """Cells are text of CSV, whose types nothing says."""


def capture_files(captured: Path) -> list[Path]:
    """The files of a folder in the order of their names, or the file.

    Raises:
        InputError: there is none.
    """
    found = [captured] if captured.is_file() else sorted(captured.rglob("*.jsonl"))
    if not found:
        raise InputError(f"{captured} has no data capture file (*.jsonl). Give the endpoint's DestinationS3Uri.")
    return found


def read_records(file: Path, columns: Sequence[str], answers: Sequence[str]) -> Iterator[Captured]:
    """The records of a file.

    Args:
        columns: names of the values of a request that does not name them.
        answers: those of an answer in CSV; unless given `predicted`, then `score`, or `score_0`, `score_1`, ...

    Raises:
        InputError: a line that is no such record, with the file and the line.
    """
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield _record(line.decode(), columns, answers)
                except (ValueError, RecursionError, csv.Error) as error:
                    raise InputError(f"{file}, line {number}: {' '.join(str(error).split())}") from None


def _record(line: str, columns: Sequence[str], answers: Sequence[str]) -> Captured:
    found = parsed_object(line)
    data, about = object_in(found or {}, "captureData"), object_in(found or {}, "eventMetadata")
    event = text_in(about, "inferenceId") or text_in(about, "eventId")
    if found is None or "endpointInput" not in data or event is None:
        raise InputError("no record of data capture: it has no captureData.endpointInput, or no eventId.")
    rows, is_text = _rows(object_in(data, "endpointInput"), columns)
    if not rows:
        raise InputError("the request has no rows.")
    if taken := sorted({name for row in rows for name in row}.intersection((*_OURS, PREDICTED))):
        raise InputError(f"the request has a column {taken[0]!r}, which is a name of ours. Call it otherwise.")
    said: Rows = [{} for _ in rows]
    if output := object_in(data, "endpointOutput"):
        said = _answers(output, answers)
    if len(said) != len(rows):
        raise InputError(f"the request has {len(rows)} rows, and the answer {len(said)}.")
    time = text_in(about, "inferenceTime")
    return Captured(
        [
            {EVENT: event if len(rows) == 1 else f"{event}/{number}", ROW: number, TIME: time, **row, **answer}
            for number, (row, answer) in enumerate(zip(rows, said, strict=True))
        ],
        is_text,
    )


def _rows(part: Mapping[str, Any], columns: Sequence[str]) -> tuple[Rows, bool]:
    """The rows of a request, and whether they are cells of CSV."""
    body, is_csv = _body(part)
    if not is_csv:
        return [_named(row, columns) for row in _values(body, "instances")], False
    table = _table(body)
    head = table[0] if table and set(table[0]) & set(columns) else None
    return [_named(cells, head or columns) for cells in (table[1:] if head else table)], True


def _answers(part: Mapping[str, Any], names: Sequence[str]) -> Rows:
    body, is_csv = _body(part)
    if not is_csv:
        return [dict(_told(value)) for value in _values(body, "predictions")]
    table = _table(body)
    scores = len(table[0]) - 1 if table else 0
    usual = (PREDICTED, *(["score"] if scores == 1 else [f"score_{number}" for number in range(scores)]))
    return [_named(cells, names or usual) for cells in table]


def _body(part: Mapping[str, Any]) -> tuple[str, bool]:
    """The text of a request or an answer, and whether it is CSV."""
    encoding, text, kind = (text_in(part, name) for name in ("encoding", "data", "observedContentType"))
    if text is None or encoding not in ("CSV", "JSON", "BASE64"):
        raise InputError(f"its encoding is {encoding!r}. Allowed: CSV, JSON, BASE64, each with data.")
    if encoding != "BASE64":
        return text, encoding == "CSV"
    if not any(word in (kind or "") for word in ("csv", "json")):
        raise InputError(f"its content type is {kind!r}, which is no CSV and no JSON.")
    return base64.b64decode(text, validate=True).decode("utf-8-sig"), "csv" in (kind or "")


def _table(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]


def _values(text: str, inside: str) -> list[Any]:
    """The rows of JSON or JSON Lines, which may stand under a name."""
    try:
        found: Any = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    if isinstance(found, dict):
        given = cast("dict[str, Any]", found)
        found = given.get(inside, [given])
    return cast("list[Any]", found) if isinstance(found, list) else [found]


def _named(row: Any, names: Sequence[str]) -> dict[str, Any]:
    if isinstance(row, dict):
        return cast("dict[str, Any]", row)
    values = cast("list[Any]", row) if isinstance(row, list) else [row]
    if not names:
        raise InputError("its values have no names. Give columns, the model's inputs in their order, as a, b, c.")
    if len(values) != len(names):
        raise InputError(f"a row has {len(values)} values, and there are {len(names)} names: {and_more(names, 12)}.")
    return dict(zip(names, values, strict=True))


def _told(value: Any) -> Iterator[tuple[str, Any]]:
    """The columns of one answer: `scores` become score_0, score_1, ..."""
    found = cast("dict[str, Any]", value) if isinstance(value, dict) else {PREDICTED: value}
    for name, each in found.items():
        if isinstance(each, list):
            yield from (
                (f"{_SCORES.get(name, name)}_{number}", one) for number, one in enumerate(cast("list[Any]", each))
            )
        else:
            yield name, each
