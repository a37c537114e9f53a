from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.choice import load_reader, recognised
from drivetrain.training.process import Process
from drivetrain.training.reader import Reader

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))


def save(path: Path, values: Any, **how: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(values, dtype=np.uint8)).save(path, **how)


def grey(value: int, height: int = 8, width: int = 8) -> np.ndarray:
    return np.full((height, width, 3), value)


def opened(folder: Path, **options: Any) -> Reader:
    reader = load_reader("image_folder", folder, {"size": 8} | options, ALONE)
    reader.open(["image", "label"])
    return reader


def images(reader: Reader) -> np.ndarray:
    return reader.read(slice(0, len(reader)), ["image"])["image"]


def test_classes_are_the_folders_by_name(tmp_path: Path) -> None:
    save(tmp_path / "bees" / "2.png", grey(20))
    save(tmp_path / "bees" / "deeper" / "3.PNG", grey(30))
    save(tmp_path / "ants" / "9.png", grey(10))
    (tmp_path / "ants" / "notes.txt").write_text("not a picture")
    (tmp_path / "bees" / ".hidden.png").write_bytes(b"not a picture")
    (tmp_path / ".cache").mkdir()
    reader = opened(tmp_path)
    assert reader.statistics == {"label": {"classes": ["ants", "bees"]}} and reader.num_classes == 2
    assert images(reader)[:, 0, 0, 0].tolist() == [10, 20, 30]
    assert reader.read(slice(0, 3), ["label"])["label"].tolist() == [0, 1, 1]


@pytest.mark.parametrize("test_folder", ["val", "test", "validation"])
def test_a_folder_with_both_splits(tmp_path: Path, test_folder: str) -> None:
    for split, value in (("train", 50), (test_folder, 60)):
        save(tmp_path / split / "ants" / "1.png", grey(value))
    assert recognised(tmp_path) == "image_folder"
    assert images(opened(tmp_path))[0, 0, 0, 0] == 50
    assert images(opened(tmp_path, split="test"))[0, 0, 0, 0] == 60
    (tmp_path / test_folder).rename(tmp_path / "gone").rename(tmp_path.parent / f"gone-{test_folder}")
    with pytest.raises(InputError, match=r"has train and no val or valid or validation or test"):
        opened(tmp_path, split="test")


def test_the_middle_or_all_of_a_picture(tmp_path: Path) -> None:
    wide = np.concatenate((grey(0, width=8), grey(200, width=8), grey(0, width=8)), axis=1)
    save(tmp_path / "a" / "1.png", wide)
    assert (images(opened(tmp_path)) == 200).all()
    stretched = images(opened(tmp_path, fit="stretch"))[0, :, :, 0]
    assert stretched[:, 0].max() == 0 and stretched[:, 4].min() == 200


def test_grey_and_colour(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.png", np.full((8, 8), 90))
    save(tmp_path / "a" / "2.png", np.dstack([np.full((8, 8), level) for level in (255, 0, 0)]))
    colour, one = images(opened(tmp_path)), images(opened(tmp_path, channels=1))
    assert colour.shape == (2, 8, 8, 3) and colour[0, 0, 0].tolist() == [90, 90, 90]
    assert colour[1, 0, 0].tolist() == [255, 0, 0]
    assert one.shape == (2, 8, 8, 1) and one[1, 0, 0, 0] == 76  # ITU-R 601


def test_pictures_lie_as_their_camera_was_held(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 3  # upside down
    halves = np.concatenate((grey(0, height=4), grey(255, height=4)))
    save(tmp_path / "a" / "1.png", halves, exif=turned)
    upright = images(opened(tmp_path))[0, :, :, 0]
    assert upright[0].min() == 255 and upright[7].max() == 0


def test_pictures_that_are_decoded_each_time_are_the_same(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for number in range(6):
        save(tmp_path / "ab"[number % 2] / f"{number}.jpg", random.integers(0, 256, (40, 50, 3)))
    held, fresh = opened(tmp_path), opened(tmp_path, held_mib=0)
    assert held.content_hash == fresh.content_hash
    rows = np.array([4, 0, 4, 5])
    np.testing.assert_array_equal(
        held.read(rows, ["image", "label"])["image"], fresh.read(rows, ["image", "label"])["image"]
    )


@pytest.mark.parametrize("held_mib", [0, 64])
@pytest.mark.parametrize("damage", [b"", b"not a picture at all", None])
def test_a_picture_that_cannot_be_read_is_named(tmp_path: Path, damage: bytes | None, held_mib: int) -> None:
    save(tmp_path / "a" / "1.jpg", grey(1))
    save(tmp_path / "a" / "2.jpg", np.random.default_rng(0).integers(0, 256, (64, 64, 3)))
    path = tmp_path / "a" / "2.jpg"
    path.write_bytes(path.read_bytes()[:-700] if damage is None else damage)
    with pytest.raises(InputError, match=rf"{path} cannot be read as a picture .*\. Remove it or copy it again"):
        opened(tmp_path, held_mib=held_mib).read(np.array([1]), ["image"])


def test_a_picture_of_billions_of_pixels_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    size = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    picture = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(bytes(1 << 20)))
    save(tmp_path / "a" / "1.png", grey(1))
    (tmp_path / "a" / "2.png").write_bytes(picture + chunk(b"IEND", b""))
    with pytest.raises(InputError, match=r"a/2\.png cannot be read as a picture .*3600000000 pixels.*\. Remove it"):
        opened(tmp_path, held_mib=0).read(np.array([1]), ["image"])


def test_a_class_without_pictures(tmp_path: Path) -> None:
    save(tmp_path / "ants" / "1.png", grey(1))
    (tmp_path / "bees").mkdir()
    with pytest.raises(InputError, match=r"class folder .*bees has no pictures \(\.bmp, .*\)\. Add some, or remove it"):
        opened(tmp_path)


def test_pictures_without_classes(tmp_path: Path) -> None:
    save(tmp_path / "1.png", grey(1))
    with pytest.raises(InputError, match=r"has no folders\. Pictures lie in one folder a class"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size=0; allowed are whole numbers from 1"),
        ({"fit": "pad"}, 'fit="pad"; allowed are "crop", "stretch"'),
        ({"channels": 4}, "channels=4; allowed are 1, 3"),
    ],
)
def test_invalid_options_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        opened(tmp_path, **options)
