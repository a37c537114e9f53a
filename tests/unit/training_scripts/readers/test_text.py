from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.choice import load_reader
from drivetrain.training.process import Process
from drivetrain.training.reader import Reader

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))


def opened(folder: Path, **options: Any) -> Reader:
    reader = load_reader("text", folder, options, ALONE)
    reader.open(["tokens"])
    return reader


def test_windows_share_one_byte_and_stay_in_their_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"abcdefghij")
    (tmp_path / "b.txt").write_bytes(b"xy")
    (tmp_path / "c.txt").write_bytes(b"01234567")
    reader = opened(tmp_path, length=3)
    found = reader.read(slice(0, len(reader)), ["tokens"])["tokens"]
    assert [bytes(row.tolist()) for row in found] == [b"abcd", b"defg", b"ghij", b"0123", b"3456"]
    assert reader.shards == [3, 2]
    assert reader.locate(4).endswith("c.txt, bytes 4 to 7")


def test_bytes_are_mapped_and_not_read_before_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"abc" * 1000)
    reader = opened(tmp_path, length=16)
    assert str(tmp_path / "a.txt") in Path("/proc/self/maps").read_text()
    assert reader.read(np.array([0]), ["tokens"])["tokens"].dtype == np.int64


def test_files_below_the_folder_by_pattern(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "code.py").write_text("print(1)")
    assert len(opened(tmp_path, pattern="**/*.py", length=3)) == 2
    with pytest.raises(InputError, match=r"has no file \*\.txt\. Give another folder, or the option pattern"):
        opened(tmp_path)


@pytest.mark.parametrize("pattern", ["", "/etc/*", "../*.txt"])
def test_patterns_that_lead_elsewhere(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(InputError, match="allowed are patterns inside the folder"):
        opened(tmp_path, pattern=pattern)


def test_too_little_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(bytes(128))
    with pytest.raises(InputError, match=r"no file \*\.txt of .* has the 129 bytes of one window"):
        opened(tmp_path)
    (tmp_path / "a.txt").write_bytes(bytes(129))
    assert len(opened(tmp_path)) == 1


def test_what_is_left_over_counts_in_the_hash(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(bytes(130))
    before = opened(tmp_path).content_hash
    (tmp_path / "a.txt").write_bytes(bytes(129) + b"x")
    assert opened(tmp_path).content_hash != before
