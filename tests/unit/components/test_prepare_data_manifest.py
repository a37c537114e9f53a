"""Reading a manifest: what is missing, altered or malformed is found and named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.data.manifest import MANIFEST_FILE, Column, Manifest, Shard

STATISTICS = {"id": {"nulls": 0, "min": 1, "max": 3, "mean": 2.0, "std": 0.8}, "städte": {"nulls": 1}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose shards are not Parquet, which a manifest does not care about."""
    shards: list[Shard] = []
    for name, data in (("part-00000.parquet", b"first"), ("part-00001.parquet", b"second")):
        import hashlib

        (tmp_path / name).write_bytes(data)
        shards.append(Shard(name, 3, len(data), hashlib.sha256(data).hexdigest()))
    schema = (Column("id", "int64"), Column("städte", "string"))
    Manifest(key="id", label=None, schema=schema, shards=tuple(shards), statistics=STATISTICS).write(
        tmp_path / MANIFEST_FILE
    )
    return tmp_path


def change(folder: Path, edit: Any) -> None:
    content = json.loads((folder / MANIFEST_FILE).read_bytes())
    edit(content)
    (folder / MANIFEST_FILE).write_text(json.dumps(content))


def refusal(folder: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        Manifest.read(folder, **options)
    return str(caught.value)


def test_a_manifest_round_trips(folder: Path) -> None:
    manifest = Manifest.read(folder)
    assert (manifest.rows, manifest.bytes, manifest.key, manifest.label) == (6, 11, "id", None)
    assert manifest.schema == (Column("id", "int64"), Column("städte", "string"))
    assert manifest.statistics == STATISTICS
    before = (folder / MANIFEST_FILE).read_bytes()
    manifest.write(folder / MANIFEST_FILE)
    assert (folder / MANIFEST_FILE).read_bytes() == before


def test_the_content_hash_names_the_data_and_nothing_else(folder: Path) -> None:
    manifest = Manifest.read(folder)
    fields = {"key": "id", "label": None, "schema": manifest.schema, "shards": manifest.shards}
    assert Manifest(**fields).content_hash == manifest.content_hash
    for other in (
        {**fields, "key": "städte"},
        {**fields, "label": "id"},
        {**fields, "schema": manifest.schema[::-1]},
        {**fields, "shards": manifest.shards[::-1]},
        {**fields, "shards": manifest.shards[:1]},
    ):
        assert Manifest(**other).content_hash != manifest.content_hash


def test_a_missing_manifest(tmp_path: Path) -> None:
    assert "has no manifest.json: it was not written by prepare_data, or not to its end" in refusal(tmp_path)


def test_a_missing_shard(folder: Path) -> None:
    (folder / "part-00001.parquet").unlink()
    assert "part-00001.parquet is missing, but manifest.json lists it" in refusal(folder)


def test_a_shard_of_another_size(folder: Path) -> None:
    (folder / "part-00000.parquet").write_bytes(b"firs")
    for checksums in (True, False):
        assert "part-00000.parquet has 4 bytes; manifest.json says 5" in refusal(folder, checksums=checksums)


def test_every_flipped_bit_of_a_shard_is_found(folder: Path) -> None:
    for index in range(8 * len(b"second")):
        data = bytearray(b"second")
        data[index // 8] ^= 1 << index % 8
        (folder / "part-00001.parquet").write_bytes(data)
        assert "part-00001.parquet was altered: its SHA-256 is" in refusal(folder)
    assert Manifest.read(folder, checksums=False).rows == 6


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda content: content.update(format=3), "has format 3; this version reads 1 and 2"),
        (lambda content: content.pop("format"), "has format None"),
        (lambda content: content.pop("shards"), "shards is missing; it must be of type list"),
        (lambda content: content.update(shards={}), "shards is {}; it must be of type list"),
        (lambda content: content.update(shards=[7]), "shards[0] is 7; it must be a JSON object"),
        (lambda content: content["shards"][0].update(rows="3"), "rows is '3'; it must be of type int"),
        (lambda content: content["shards"][0].update(rows=True), "rows is True; it must be of type int"),
        (lambda content: content["shards"][0].update(rows=-3), "shards[0] has a negative count"),
        (lambda content: content["shards"][0].update(sha256="x" * 64), "a checksum that is no SHA-256"),
        (
            lambda content: content["shards"][0].update(file="../secret"),
            "shards[0].file is '../secret'. Allowed: a file name",
        ),
        (
            lambda content: content["shards"][0].update(file="/etc/passwd"),
            "Allowed: a file name, in one folder at most",
        ),
        (lambda content: content["shards"][0].update(file=".."), "Allowed: a file name, in one folder at most"),
        (lambda content: content["shards"][0].update(file="a/b/c"), "Allowed: a file name, in one folder at most"),
        (lambda content: content["shards"][0].update(file="a/.."), "Allowed: a file name, in one folder at most"),
        (lambda content: content.pop("lineage"), "lineage is missing; it must be of type dict"),
        (lambda content: content["schema"][0].pop("type"), "type is missing"),
        (lambda content: content.update(key=5), "key is 5; it must be of type str"),
        (lambda content: content.update(label=5), "label is 5; it must be of type str"),
        (lambda content: content.pop("statistics"), "statistics is missing"),
        (lambda content: content.update(rows=7), "was altered: rows is 7, its other entries say 6"),
        (lambda content: content.update(bytes=7), "was altered: bytes is 7, its other entries say 11"),
        (lambda content: content.update(key="städte"), "was altered: content_hash is"),
        (lambda content: content["shards"].reverse(), "was altered: content_hash is"),
    ],
)
def test_an_edited_manifest_is_refused(folder: Path, edit: Any, expected: str) -> None:
    change(folder, edit)
    message = refusal(folder)
    assert expected in message and MANIFEST_FILE in message


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"format": 1}', "\xff"])
def test_a_malformed_manifest_is_refused(folder: Path, text: str) -> None:
    (folder / MANIFEST_FILE).write_bytes(text.encode("latin-1"))
    assert MANIFEST_FILE in refusal(folder)


def test_statistics_may_change_without_changing_the_data(folder: Path) -> None:
    before = Manifest.read(folder).content_hash
    change(folder, lambda content: content["statistics"].update(new={"nulls": 0, "later_entry": [1]}))
    assert Manifest.read(folder).content_hash == before


def test_a_manifest_is_read_without_its_statistics(folder: Path) -> None:
    whole, path = Manifest.read(folder), folder / MANIFEST_FILE
    assert Manifest.read(folder, statistics=False) == replace(whole, statistics={})
    text = path.read_bytes()
    path.write_bytes(text[: text.index(b'"nulls"')])  # no more than its beginning is read
    assert Manifest.read(folder, statistics=False).content_hash == whole.content_hash
    content = json.loads(text)  # as an earlier release wrote it
    hashed = content.pop("content_hash")
    path.write_text(json.dumps({**content, "content_hash": hashed}, indent=1))
    assert Manifest.read(folder, statistics=False) == whole
