"""Folders that behave like S3."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store import objects
from drivetrain.run_store.durable import parse
from drivetrain.run_store.home import Home
from drivetrain.run_store.objects import ObjectStore, artifact, digest_of, fetch, sha256_of
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.run.jobs.job_data import Channel, place, processing_channels, training_channels


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    store = ObjectStore(tmp_path / "s3")
    for key in ("data/train/a.csv", "data/train/deep/b.csv", "data/train_labels.csv", "data/training/c.csv"):
        store.put(f"s3://bucket/{key}", key.encode())
    return store


def names(store: ObjectStore, uri: str) -> list[str]:
    return [item.name for item in store.find(uri)]


def test_a_prefix_matches_every_key_that_starts_with_it(store: ObjectStore) -> None:
    assert names(store, "s3://bucket/data/train/") == ["a.csv", "deep/b.csv"]
    assert names(store, "s3://bucket/data/train") == ["a.csv", "deep/b.csv", "train_labels.csv", "training/c.csv"]
    assert names(store, "s3://bucket/data/train/a.csv") == ["a.csv"]
    assert names(store, "s3://bucket/data/train_labels.csv") == ["train_labels.csv"]
    assert names(store, "s3://bucket/data/train_labels.csv/") == []
    assert names(store, "s3://bucket/data/tr") == [
        "train/a.csv",
        "train/deep/b.csv",
        "train_labels.csv",
        "training/c.csv",
    ]
    assert len(names(store, "s3://bucket")) == 4
    assert names(store, "s3://other/data") == []
    assert [item.uri for item in store.find("s3://bucket/data/train/")] == [
        "s3://bucket/data/train/a.csv",
        "s3://bucket/data/train/deep/b.csv",
    ]


def test_exists_answers_without_listing(store: ObjectStore) -> None:
    for uri in ("s3://bucket/data/train", "s3://bucket/data/tr", "s3://bucket/data/train/a.csv", "s3://bucket/"):
        assert store.exists(uri)
    (store.root / "bucket" / "empty").mkdir()
    for uri in ("s3://bucket/data/x", "s3://bucket/empty/", "s3://bucket/data/train/a.csv/", "s3://none/x"):
        assert not store.exists(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/../../etc/passwd",
        "s3://bucket/a/./b",
        "s3://../x",
        "s3://.incoming/x",
        "s3:///x",
        "s3://bucket/a\0b",
        "s3://bucket/" + "a/" * 600,
        "s3://bucket/" + "a" * 256,
        "https://bucket.s3.amazonaws.com/x",
        "file:///etc/passwd",
        "/etc/passwd",
    ],
)
def test_invalid_uris_and_those_that_leave_the_store_are_refused(store: ObjectStore, uri: str) -> None:
    with pytest.raises(UserError):
        store.path(uri)
    with pytest.raises(UserError):
        store.put(uri, b"x")


def test_doubled_slashes_are_one(store: ObjectStore) -> None:
    assert parse("s3://bucket//data///train") == ("bucket", ["data", "train"])


def test_an_object_appears_whole_without_leftovers(store: ObjectStore, tmp_path: Path) -> None:
    assert store.put("s3://bucket/new/x", b"1")
    assert not store.put("s3://bucket/new/x", b"2", unless=lambda: True)
    assert store.path("s3://bucket/new/x").read_bytes() == b"1"
    (tmp_path / "given").write_bytes(b"3")
    store.put("s3://bucket/new/x", tmp_path / "given")
    assert store.path("s3://bucket/new/x").read_bytes() == b"3"
    with pytest.raises(FileNotFoundError):
        store.put("s3://bucket/new/y", tmp_path / "nothing")
    assert list((store.root / ".incoming").iterdir()) == []


def test_adopting_a_folder_merges_and_can_be_repeated(store: ObjectStore, tmp_path: Path) -> None:
    def stage() -> Path:
        staged = store.root / ".staged"
        (staged / "deep").mkdir(parents=True)
        (staged / "a.csv").write_text("new")
        (staged / "deep" / "z.csv").write_text("z")
        return staged

    store.adopt(stage(), "s3://bucket/data/train")
    assert names(store, "s3://bucket/data/train/") == ["a.csv", "deep/b.csv", "deep/z.csv"]
    assert store.path("s3://bucket/data/train/a.csv").read_text() == "new"
    (store.root / ".staged" / "a.csv").exists()
    store.adopt(store.root / ".staged", "s3://bucket/data/train")
    assert names(store, "s3://bucket/data/train/") == ["a.csv", "deep/b.csv", "deep/z.csv"]


def test_a_key_cannot_be_a_file_and_a_folder(store: ObjectStore, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a file here and a folder there"):
        store.put("s3://bucket/data/train/a.csv/below", b"x")
    with pytest.raises(UserError, match="a file here and a folder there"):
        store.put("s3://bucket/data/train", b"x")


def test_local_data_stands_in_for_a_uri(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "x.csv").write_text("x")
    (tmp_path / "mine-too").write_text("not this")
    (folder / "again").symlink_to(folder)
    store = ObjectStore(tmp_path / "s3", {"s3://far/data": str(folder), "s3://far/one.csv": str(folder / "x.csv")})
    assert names(store, "s3://far/data") == ["x.csv"]
    assert names(store, "s3://far/data/x.csv") == ["x.csv"]
    [one] = store.find("s3://far/one.csv")
    assert (one.name, one.path) == ("one.csv", folder / "x.csv")
    with pytest.raises(UserError, match="does not exist"):
        ObjectStore(tmp_path / "s3", {"s3://far/data": str(tmp_path / "nothing")})


def test_own_writes_hide_local_data_and_those_of_other_runs_are_invisible(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "a.csv").write_text("theirs")
    ObjectStore(tmp_path / "s3").put("s3://far/in/old.csv", b"of an earlier run")
    store = ObjectStore(tmp_path / "s3", {"s3://far": str(folder)})
    assert names(store, "s3://far/in/") == ["a.csv"]
    assert store.exists("s3://far/in/") and not store.exists("s3://far/in/old.csv")
    (tmp_path / "staged").mkdir()
    (tmp_path / "staged" / "a.csv").write_text("ours")
    (tmp_path / "staged" / "b.csv").write_text("new")
    assert store.covered(tmp_path / "staged", "s3://far/in/") == 1
    store.adopt(tmp_path / "staged", "s3://far/in/deep")
    store.put("s3://far/in/a.csv", b"ours")
    assert names(store, "s3://far/in/") == ["a.csv", "deep/a.csv", "deep/b.csv"]
    assert [item.path.read_text() for item in store.find("s3://far/in/a.csv")] == ["ours"]
    assert store.path("s3://far/in/a.csv").read_text() == "ours"
    assert names(store, "s3://far/in/de") == ["deep/a.csv", "deep/b.csv"]
    store.hold("s3://far/in/old.csv")
    assert "old.csv" in names(store, "s3://far/in/")
    store.remove("s3://far/in/a.csv", below="s3://far/in")
    assert store.path("s3://far/in/a.csv").read_text() == "theirs"
    assert sorted(path.name for path in folder.rglob("*")) == ["a.csv", "in"]


def test_fetching_hashes_once_and_fills_every_host(store: ObjectStore, tmp_path: Path) -> None:
    found = store.find("s3://bucket/data/train/")
    hosts = [tmp_path / "one", tmp_path / "two"]
    hashed = fetch(found, hosts, known=lambda item: None)
    for host in hosts:
        assert (host / "deep" / "b.csv").read_text() == "data/train/deep/b.csv"
    assert hashed == {item.name: sha256_of(item.path) for item in found}
    read = artifact("input", "train", "s3://bucket/data/train/", found, hashed)
    assert (read.files, read.bytes) == (2, sum(item.bytes for item in found))
    assert read.digest == digest_of(iter(hashed.items()))
    assert fetch(found, [tmp_path / "three"], known=lambda item: "known") == dict.fromkeys(hashed, "known")


def test_gzipped_input_arrives_decompressed(store: ObjectStore, tmp_path: Path) -> None:
    ledger = Ledger(Home(tmp_path / "home"))
    store.put("s3://bucket/zipped/x.csv.gz", gzip.compress(b"1,2"))
    channel = Channel("data", "s3://bucket/zipped/", "/opt/ml/processing/input/data", gzipped=True)
    place([channel], store, lambda _: [tmp_path / "in"], ledger)
    assert (tmp_path / "in" / "x.csv").read_bytes() == b"1,2"
    store.put("s3://bucket/zipped/y.csv.gz", b"not zipped")
    with pytest.raises(UserError, match=r"y\.csv\.gz"):
        place([channel], store, lambda _: [tmp_path / "in"], ledger)


def test_digests_use_names_and_content_and_stamps_use_size_and_time(store: ObjectStore) -> None:
    def contents() -> tuple[str, str]:
        found = store.find("s3://bucket/data/train/")
        hashed = {item.name: sha256_of(item.path) for item in found}
        read = artifact("input", "train", "s3://bucket/data/train/", found, hashed)
        return read.digest, read.stamp

    digest, stamp = contents()
    path = store.path("s3://bucket/data/train/a.csv")
    os.utime(path, ns=(0, 12345))
    assert contents()[0] == digest
    assert contents()[1] != stamp
    path.write_bytes(b"other")
    assert contents()[0] != digest


def test_an_unchanged_object_is_hashed_once(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []

    def copy_and_hash(source: Path, target: Path) -> str:
        hashed.append(source.name)
        return real(source, target)

    real = objects.copy_and_hash
    monkeypatch.setattr(objects, "copy_and_hash", copy_and_hash)
    ledger = Ledger(Home(tmp_path / "home"))
    channel = Channel("data", "s3://bucket/data/training/", "/opt/ml/processing/x")
    [first] = place([channel], store, lambda _: [tmp_path / "in"], ledger)
    [again] = place([channel], store, lambda _: [tmp_path / "in"], ledger)
    assert again == first
    assert hashed == ["c.csv"]
    store.put("s3://bucket/data/training/c.csv", b"other, and longer")
    [changed] = place([channel], store, lambda _: [tmp_path / "in"], ledger)
    assert changed.digest != first.digest
    assert hashed == ["c.csv", "c.csv"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"S3Uri": "s3://b/k", "LocalPath": "/opt/ml/processing/x", "S3DataType": "Converse"}, "Converse"),
        ({"S3Uri": "s3://b/k", "LocalPath": "/opt/ml/processing/x", "S3InputMode": "Pipe"}, "Pipe"),
        ({"S3Uri": "s3://b/k", "LocalPath": "/etc"}, "below /opt/ml/processing/"),
        ({"S3Uri": "s3://b/k", "LocalPath": "/opt/ml/processing/../../etc"}, "below /opt/ml/processing/"),
        ({"S3Uri": "s3://b/k", "LocalPath": "/opt/ml/processing/x", "S3CompressionType": "Zip"}, "Gzip"),
        ({"LocalPath": "/opt/ml/processing/x"}, "S3Uri is None"),
    ],
)
def test_inputs_that_a_folder_cannot_represent_are_refused(source: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        processing_channels({"ProcessingInputs": [{"InputName": "data", "S3Input": source}]})


def test_training_channels_refuse_other_file_systems_and_pipes() -> None:
    with pytest.raises(UserError, match=r"FileSystemDataSource .*--data S3URI=PATH.*--stub STEP"):
        training_channels({"InputDataConfig": [{"ChannelName": "c", "DataSource": {"FileSystemDataSource": {}}}]})
    source = {"S3DataSource": {"S3Uri": "s3://b/k", "S3DataType": "S3Prefix"}}
    channel = {"ChannelName": "c", "DataSource": source}
    with pytest.raises(UserError, match="Pipe"):
        training_channels({"AlgorithmSpecification": {"TrainingInputMode": "Pipe"}, "InputDataConfig": [channel]})
    [read] = training_channels({"InputDataConfig": [{**channel, "InputMode": "FastFile"}]})
    assert read == Channel("c", "s3://b/k", "/opt/ml/input/data/c")
