"""What lies behind an input's URI has a version: of a listing of S3, of the bytes where folders stand for S3."""

from __future__ import annotations

import json
import os
from pathlib import Path

import boto3
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.source_version import LOCAL_DATA, OBJECT_STORE, prefix_version, source_version
from tests.fixtures.s3_server import make_bucket, s3_server, variables


def test_an_s3_listing_reports_new_replaced_and_removed_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables(s3_server()).items():
        monkeypatch.setenv(name, value)
    bucket = make_bucket(s3_server())
    client = boto3.client("s3")

    def put(key: str, content: bytes) -> str:
        client.put_object(Bucket=bucket, Key=key, Body=content)
        return prefix_version(f"s3://{bucket}/raw/")

    first = put("raw/a.csv", b"1")
    assert put("elsewhere/b.csv", b"2") == first
    assert put("raw/", b"") == first  # as a console makes a folder
    assert put("raw/a.csv", b"1") == first
    seen = [first, put("raw/a.csv", b"2"), put("raw/b.csv", b"3")]
    client.delete_object(Bucket=bucket, Key="raw/b.csv")
    assert len({*seen}) == 3 and prefix_version(f"s3://{bucket}/raw/") == seen[1]
    assert source_version(f"s3://{bucket}/raw/", of_input=True) == {"version": seen[1]}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(OBJECT_STORE, str(tmp_path / "s3"))
    (folder := tmp_path / "s3" / "lake" / "raw").mkdir(parents=True)
    (folder / "a.csv").write_text("1")
    return folder


def test_local_files_are_compared_by_their_bytes(store: Path) -> None:
    first = prefix_version("s3://lake/raw/")
    os.utime(store / "a.csv", (0, 0))
    assert prefix_version("s3://lake/raw/") == first
    (store / "a.csv").write_text("2")
    os.utime(store / "a.csv", (0, 0))
    assert prefix_version("s3://lake/raw/") != first


def test_a_prefix_matches_every_key_that_starts_with_it(store: Path) -> None:
    folder, prefix = (prefix_version(f"s3://lake/raw{end}") for end in ("/", ""))
    (store.parent / "raw-more").mkdir()
    (store.parent / "raw-more" / "b.csv").write_text("2")
    assert prefix_version("s3://lake/raw/") == folder
    assert prefix_version("s3://lake/raw") != prefix


def test_local_data_replaces_a_uri(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine" / "raw").mkdir(parents=True)
    (tmp_path / "mine" / "raw" / "a.csv").write_text("1")
    first = prefix_version("s3://lake/raw/")
    monkeypatch.setenv(LOCAL_DATA, json.dumps({"lake": str(tmp_path / "mine")}))
    assert prefix_version("s3://lake/raw/") == first
    (tmp_path / "mine" / "raw" / "a.csv").write_text("2")
    assert prefix_version("s3://lake/raw/") != first


@pytest.mark.parametrize("uri", ["s3://lake/nothing/", "s3://lake/../raw/", "raw", "s3://"])
def test_unreadable_locations_are_refused(store: Path, uri: str) -> None:
    with pytest.raises(InputError, match=r"nothing at s3://lake/nothing|cannot be looked at. Allowed: s3://"):
        prefix_version(uri)
