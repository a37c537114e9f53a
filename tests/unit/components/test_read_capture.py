"""Data capture files of SageMaker endpoints become tables that prepare_data reads."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.read_capture import read_capture


def part(data: str, encoding: str, kind: str = "text/csv") -> dict[str, str]:
    if encoding == "BASE64":
        data = base64.b64encode(data.encode()).decode()
    return {"observedContentType": kind, "mode": "INPUT", "data": data, "encoding": encoding}


def record(event: str, request: dict[str, str], answer: dict[str, str] | None = None, **about: str) -> str:
    data = {"endpointInput": request, **({"endpointOutput": answer} if answer else {})}
    metadata = {"eventId": event, "inferenceTime": "2026-11-30T10:00:00Z", **about}
    return json.dumps({"captureData": data, "eventMetadata": metadata, "eventVersion": "0"})


def write(folder: Path, *lines: str) -> Path:
    """As an endpoint lays its files out."""
    file = folder / "captured/endpoint/AllTraffic/2026/11/30/10/00-01.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("\n".join(lines) + "\n")
    return folder / "captured"


def rows(folder: Path) -> list[dict[str, Any]]:
    """The table, as prepare_data reads it."""
    sets: dict[str, Any] = {side: folder / side for side in ("train", "validation", "test")}
    prepare_data(raw=folder / "table", key="event_id", validation_percent=0, test_percent=0, **sets)
    return pq.read_table(next(sets["train"].rglob("*.parquet"))).to_pylist()


def test_csv_with_and_without_names_and_in_base64(tmp_path: Path) -> None:
    captured = write(
        tmp_path,
        record("e1", part("1,basic\n2,\n", "CSV"), part("no,0.25\nyes,0.75\n", "CSV")),
        record("e2", part("plan,age\npro,3\n", "CSV"), part("no,0.5\n", "BASE64"), inferenceId="mine"),
    )
    assert read_capture(captured, tmp_path / "table", columns="age, plan") == {"records": 2, "rows": 3}
    first, second, third = rows(tmp_path)
    assert (first["event_id"], first["row"], first["age"], first["plan"]) == ("e1/0", 0, 1, "basic")
    assert (second["event_id"], second["plan"], second["predicted"], second["score"]) == ("e1/1", None, "yes", 0.75)
    assert (third["event_id"], third["age"], third["plan"], third["score"]) == ("mine", 3, "pro", 0.5)


def test_json_of_our_own_server_and_json_lines(tmp_path: Path) -> None:
    answer = {"predictions": [{"predicted": "a", "scores": [0.5, 0.25, 0.25]}, {"predicted": "b", "scores": [0, 1, 0]}]}
    captured = write(
        tmp_path,
        record(
            "e1",
            part(json.dumps({"instances": [{"x": 1.5, "plan": "007"}, {"x": None, "plan": "8"}]}), "JSON"),
            part(json.dumps(answer), "JSON"),
        ),
        record(
            "e2",
            part('[2.5, "9"]\n', "JSON", "application/jsonlines") | {"data": '[[2.5, "9"]]'},
            part('{"predicted": "a", "scores": [1, 0, 0]}\n', "BASE64", "application/jsonlines"),
        ),
    )
    assert read_capture(captured, tmp_path / "table", columns="x,plan")["rows"] == 3
    first, second, third = rows(tmp_path)
    assert (first["plan"], first["score_1"], second["x"], second["predicted"]) == ("007", 0.25, None, "b")
    assert (third["event_id"], third["x"], third["plan"], third["score_0"]) == ("e2", 2.5, "9", 1.0)


GOOD = part("1,basic", "CSV")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "no record of data capture"),
        ('{"manifest": 1}', "no record of data capture"),
        (record("e", part("1", "CSV")), "a row has 1 values, and there are 2 names: age, plan"),
        (record("e", part("1,a", "CSV"), part("no\nyes", "CSV")), "the request has 1 rows, and the answer 2"),
        (record("e", part("", "CSV")), "the request has no rows"),
        (record("e", part("1,a", "XML")), "its encoding is 'XML'. Allowed: CSV, JSON, BASE64"),
        (record("e", part("1,a", "BASE64", "image/png")), "its content type is 'image/png'"),
        (record("e", {**GOOD, "data": "%%", "encoding": "BASE64"}), "base64|Only"),
        (record("e", part('{"row": 1}', "JSON")), "the request has a column 'row', which is a name of ours"),
        (record("e", part("{]", "JSON")), "Expecting"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(tmp_path: Path, line: str, message: str) -> None:
    captured = write(tmp_path, record("e", GOOD), "", line)
    with pytest.raises(InputError, match=rf"00-01\.jsonl, line 3: .*({message})") as raised:
        read_capture(captured, tmp_path / "table", columns="age, plan")
    assert "\n" not in str(raised.value)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 1: its values have no names\. Give columns"):
        read_capture(write(tmp_path, record("e", GOOD)), tmp_path / "table")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no data capture file"):
        read_capture(tmp_path / "empty", tmp_path / "table")
    changed = write(tmp_path / "more", record("e", GOOD), record("f", GOOD, part("no", "CSV")))
    with pytest.raises(InputError, match=r"the record f has the columns event_id, .*, predicted, and those before it"):
        read_capture(changed, tmp_path / "table", columns="age, plan")
