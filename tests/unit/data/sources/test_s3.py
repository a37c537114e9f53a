"""Files in S3: listed once, fetched on a condition, and gone on with after a kill."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest

from drivetrain.aws.s3 import Client
from drivetrain.base.errors import InputError
from drivetrain.components.read_source import read_source
from drivetrain.data.manifest import Manifest
from drivetrain.data.reading import TableOptions
from drivetrain.data.sources import Options, open_source, s3
from tests.fixtures.s3_server import make_bucket, s3_server, variables


class Bucket:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        endpoint = s3_server()
        for name, value in variables(endpoint).items():
            monkeypatch.setenv(name, value)
        self.name = make_bucket(endpoint)
        self.client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        ask = Client._ask

        def recorded(client: Client, operation: str, doing: str, given: Mapping[str, Any]) -> Any:
            self.asked.append((operation, given))
            return ask(client, operation, doing, given)

        monkeypatch.setattr(Client, "_ask", recorded)

    def put(self, key: str, text: str | bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=text)

    def ranges(self) -> list[str]:
        return [given["Range"] for operation, given in self.asked if operation == "get_object"]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    return Bucket(monkeypatch)


def options(scratch: Path) -> Options:
    return Options(table=TableOptions(key=None, label=None), scratch=scratch)


def test_objects_are_listed_once_and_fetched_once(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "_RANGE", 16)
    for name in ("b.csv", "a.csv", "day=1.csv"):
        bucket.put(f"raw/{name}", "id,x\n" + "".join(f"{ord(name[0])}{row},{row}\n" for row in range(9)))
    bucket.put("raw/README.md", "no rows")
    bucket.put("raw/_SUCCESS", "")
    bucket.put("raw-other/c.csv", "id,x\n1,2\n")
    read_source(tmp_path / "out", source=f"s3://{bucket.name}/raw")
    assert Manifest.read(tmp_path / "out").rows == 27
    assert [operation for operation, _ in bucket.asked].count("list_objects_v2") == 1
    assert {given["Key"] for operation, given in bucket.asked if operation == "get_object"} == {
        "raw/a.csv",
        "raw/b.csv",
        "raw/day=1.csv",
    }
    assert len(bucket.ranges()) > 6  # in ranges
    starts = [(given["Key"], given["Range"]) for operation, given in bucket.asked if operation == "get_object"]
    assert len(set(starts)) == len(starts)
    assert not list((tmp_path / "out").glob(".*"))


def test_a_killed_run_is_resumed(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "_RANGE", 10)
    text = "id,x\n" + "".join(f"{row},{row}\n" for row in range(20))
    bucket.put("rows.csv", text)
    fetch = Client.fetch

    def interrupted(client: Client, key: str, into: Any = None, **given: str) -> Any:
        if given["Range"].startswith("bytes=30-"):
            raise KeyboardInterrupt
        return fetch(client, key, into, **given)

    monkeypatch.setattr(Client, "fetch", interrupted)
    opened = open_source(f"s3://{bucket.name}", options(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        list(opened.batches())
    assert bucket.ranges() == ["bytes=0-9", "bytes=10-19", "bytes=20-29"]
    monkeypatch.setattr(Client, "fetch", fetch)
    bucket.asked.clear()
    again = open_source(f"s3://{bucket.name}", options(tmp_path))
    assert pa.Table.from_batches(list(again.batches())).column("id").to_pylist() == list(range(20))
    assert bucket.ranges()[0] == "bytes=30-39"
    assert again.identity == opened.identity


def test_an_object_replaced_during_the_read_is_one_error(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("raw/a.csv", "id,x\n1,2\n")
    opened = open_source(f"s3://{bucket.name}/raw", options(tmp_path))
    bucket.put("raw/a.csv", "id,x\n1,3\n")
    with pytest.raises(InputError, match=r"raw/a.csv was replaced or removed while the data was read"):
        list(opened.batches())


def test_column_types_fit_later_rows_too(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("raw/a.csv", "id,x\n" + "".join(f"{row},{row}\n" for row in range(600_000)) + "600000,later\n")
    read_source(tmp_path / "out", source=f"s3://{bucket.name}/raw")
    assert {column.name: column.type for column in Manifest.read(tmp_path / "out").schema}["x"] == "string"


def test_a_column_gets_its_type_with_its_first_value(
    bucket: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, cell in enumerate(("NA", "", "2.5")):
        bucket.put(f"raw/{number}.csv", f"id,x\n{number},{cell}\n")
        read_source(tmp_path / "out", tmp_path / "out" if number else None, source=f"s3://{bucket.name}/raw")
        types = {column.name: column.type for column in Manifest.read(tmp_path / "out").schema}
        assert types["x"] == ("string" if number < 2 else "double")
        assert ("warning: all is read anew: 2.csv, row 2, column 'x'" in capsys.readouterr().out) == (number == 2)


def test_partitions_one_object_and_bad_names(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("t/year=2026/rows.csv", "id\n1\n")
    read_source(tmp_path / "folder", source=f"s3://{bucket.name}/t/")
    assert [column.name for column in Manifest.read(tmp_path / "folder").schema] == ["id", "year"]
    read_source(tmp_path / "one", source=f"s3://{bucket.name}/t/year=2026/rows.csv")
    assert Manifest.read(tmp_path / "one").rows == 1
    bucket.put("bad//rows.csv", "id\n1\n")
    with pytest.raises(InputError, match="has a name that no file can have"):
        read_source(tmp_path / "bad", source=f"s3://{bucket.name}/bad")
    bucket.put("open/rows.csv", 'id,x\n1,"open\n')
    with pytest.raises(InputError, match=r"rows.csv"):
        read_source(tmp_path / "open", source=f"s3://{bucket.name}/open")
    with pytest.raises(InputError, match="s3://no-such-bucket-here"):
        read_source(tmp_path / "none", source="s3://no-such-bucket-here/x")
