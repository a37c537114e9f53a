"""Uploaded objects are what their names say, whatever happened to the home."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from drivetrain.assets.assets import Asset
from drivetrain.base.errors import UserError
from drivetrain.run_store import objects
from drivetrain.run_store.home import Home
from drivetrain.run_store.objects import ObjectStore, put_assets
from drivetrain.run_store.writer import LedgerWriter

ROWS = b"id,value\n" + b"1,2\n" * 1000


class Uploads:
    """A home, and a file of this machine that a pipeline reads."""

    def __init__(self, folder: Path, ledger: LedgerWriter) -> None:
        self.file, self.ledger = folder / "rows.csv", ledger
        self.file.write_bytes(ROWS)
        digest = hashlib.sha256(ROWS).hexdigest()
        self.asset = Asset(f"s3://bucket/p/data/{digest}/rows.csv", digest, self.file)
        self.store = ObjectStore(folder / "s3")
        self.place = self.store.path(self.asset.uri)

    def put(self) -> bytes:
        put_assets(self.store, [self.asset], self.ledger)
        return self.place.read_bytes()


@pytest.fixture
def given(tmp_path: Path) -> Generator[Uploads]:
    home = Home(tmp_path / "home")
    home.create()
    with LedgerWriter(home) as ledger:
        yield Uploads(tmp_path, ledger)


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: len(ROWS) // 2])


def empty(file: Path) -> None:
    """As a loss of power leaves a file whose size the disk has, and not its bytes."""
    before = file.stat()
    file.write_bytes(bytes(len(ROWS)))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("tear", [halve, empty])
@pytest.mark.parametrize("known", [True, False])
def test_a_torn_object_is_uploaded_again(tear: Callable[[Path], None], known: bool, given: Uploads) -> None:
    assert given.put() == ROWS
    if not known:  # the ledger is of an earlier version, or its last lines are lost
        with given.ledger.transaction() as db:
            db.execute("DELETE FROM objects")
    tear(given.place)
    assert given.put() == ROWS


def test_a_whole_object_is_read_once(given: Uploads, monkeypatch: pytest.MonkeyPatch) -> None:
    given.put()
    read: list[Path] = []
    monkeypatch.setattr(objects, "sha256_of", lambda path: read.append(path) or given.asset.sha256)
    given.put()
    assert read == []
    os.utime(given.place)
    given.put()
    given.put()
    assert read == [given.place]


def test_a_file_that_changes_while_it_is_copied_is_refused(given: Uploads) -> None:
    given.file.write_bytes(ROWS + b"3,4\n")
    with pytest.raises(UserError, match=r"rows.csv has changed while it was copied to s3://.*\. Run it again"):
        given.put()
    assert not given.place.exists()


def test_an_object_is_durable_before_it_is_named(given: Uploads, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    replace, make_durable, names = os.replace, objects.make_durable, objects.make_folders_durable
    monkeypatch.setattr(os, "replace", lambda *paths: (happened.append("named"), replace(*paths))[1])
    monkeypatch.setattr(objects, "make_durable", lambda path: (happened.append("durable"), make_durable(path))[1])
    monkeypatch.setattr(
        objects, "make_folders_durable", lambda *given: (happened.append(f"names {given}"), names(*given))[1]
    )
    given.put()
    folders = given.place.parent, given.store.root
    assert happened == ["durable", "named", f"names {folders}"]  # the bytes, and at the end the folders with the name
