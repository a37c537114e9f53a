"""What a tar of samples may hold, and what is said of one that does not."""

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
from tests.contract.readers.huggingface import png
from tests.contract.readers.webdataset import tar

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
PICTURE = png(np.full((4, 4, 3), 9, np.uint8))


def read(folder: Path, **options: Any) -> Reader:
    found = load_reader("webdataset", folder, {"size": 4, **options}, ALONE)
    found.open(found.column_names)
    return found


def test_samples_come_in_the_order_of_files_and_members(tmp_path: Path) -> None:
    pictures = [png(np.full((4, 4, 3), value, np.uint8)) for value in range(3)]
    tar(tmp_path / "b.tar", [("x/0", {"cls": b"2", "seg.png.txt": b"no picture", "PNG": pictures[2]})])
    tar(tmp_path / "a.tar", [("y/9", {"png": pictures[0], "cls": b" 0\n"}), ("x/9", {"png": pictures[1], "cls": b"1"})])
    found = read(tmp_path)
    assert found.read(slice(0, 3), ("image", "label"))["label"].tolist() == [0, 1, 2]
    assert found.read(slice(0, 3), ("image",))["image"][:, 0, 0, 0].tolist() == [0, 1, 2]
    assert found.locate(2).endswith("b.tar, x/0.PNG")
    unlabelled = read(tmp_path, unlabelled=True, held_mib=0)
    assert unlabelled.column_names == ("image",) and unlabelled.label is None
    assert unlabelled.read(np.array([2, 0]), ("image",))["image"][:, 0, 0, 0].tolist() == [2, 0]


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"cls": b"1"}, r"a\.tar, 0\.cls: the sample has no pictures"),
        ({"png": PICTURE, "jpg": PICTURE, "cls": b"1"}, r"a\.tar, 0\.png: the sample has 2 pictures"),
        ({"png": PICTURE}, r"a\.tar, 0\.png: the sample has no \.cls, its class"),
        ({"png": PICTURE, "cls": b"cat"}, r"a\.tar, 0\.cls is 'cat'. Allowed: a class as a whole number"),
        ({"png": PICTURE, "cls": b"-1"}, r"a\.tar, 0\.cls is '-1'"),
        ({"png": PICTURE, "cls": b"1" * 500}, r"a\.tar, 0\.cls is '\.\.\.'"),
        ({"png": PICTURE[:40], "cls": b"1"}, r"a\.tar, 0\.png cannot be read as a picture"),
        ({"png": PICTURE, "PNG": PICTURE, "cls": b"1"}, r"a\.tar, 0\.PNG is there twice"),
    ],
)
def test_a_sample_that_is_none_is_named(tmp_path: Path, sample: dict[str, bytes], message: str) -> None:
    tar(tmp_path / "a.tar", [("0", sample)])
    with pytest.raises(InputError, match=message):
        read(tmp_path)


@pytest.mark.parametrize("kept", [0, 100, 700, 1536, 2048])
def test_a_torn_tar_is_refused(tmp_path: Path, kept: int) -> None:
    """The samples end at byte 2048: what follows says that no more were to come."""
    tar(tmp_path / "whole.tar", [("0", {"png": PICTURE, "cls": b"1"})])
    data = (tmp_path / "whole.tar").read_bytes()
    assert len(read(tmp_path)) == 1 and data[2048:] == bytes(len(data) - 2048)
    (tmp_path / "whole.tar").write_bytes(data[:kept])
    with pytest.raises(InputError, match=r"whole\.tar is torn or no tar file \(.+\)\. Copy it again"):
        read(tmp_path)
