"""Copies of files."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store.durable import copy, copy_and_hash, decompress


@pytest.mark.parametrize("size", [0, 1, (3 << 20) + 7])
def test_copies_are_complete(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    source, target = tmp_path / "from", tmp_path / "to"
    source.write_bytes(content)
    copy(source, target)
    assert target.read_bytes() == content
    assert copy_and_hash(source, target) == hashlib.sha256(content).hexdigest()
    assert target.read_bytes() == content
    (tmp_path / "from.gz").write_bytes(gzip.compress(content))
    decompress(tmp_path / "from.gz", target)
    assert target.read_bytes() == content


def test_changing_a_copy_changes_nothing_else(tmp_path: Path) -> None:
    source, target = tmp_path / "from", tmp_path / "to"
    source.write_text("data")
    copy(source, target)
    with target.open("a") as file:
        file.write(" changed")
    assert source.read_text() == "data"


def test_files_that_are_not_compressed_are_named(tmp_path: Path) -> None:
    (tmp_path / "rows.gz").write_text("1,2")
    with pytest.raises(UserError, match=r"rows\.gz: the input says that it is gzip-compressed, but it is not"):
        decompress(tmp_path / "rows.gz", tmp_path / "rows")
