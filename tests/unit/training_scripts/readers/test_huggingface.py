"""What a saved data set of `datasets` may have beside the plain case, and what is refused
(tests/contract/test_readers.py has what every reader keeps)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.training.input_pipeline.choice import load_reader, recognised
from drivetrain.training.input_pipeline.text_columns import TextColumns
from drivetrain.training.process import Process
from drivetrain.training.reader import Reader
from tests.contract.readers.huggingface import IMAGE, png, save

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
LABEL = {"label": {"names": ["ant", "bee"], "_type": "ClassLabel"}}
NUMBER = {"dtype": "float32", "_type": "Value"}


def opened(folder: Path, *names: str, **options: Any) -> Reader:
    reader = load_reader("huggingface", folder, {"size": 8} | options, ALONE)
    reader.open(names)
    return reader


def value(reader: Reader, name: str) -> Any:
    return reader.read(slice(0, len(reader)), [name])[name]


def grey(level: int) -> bytes:
    return png(np.full((8, 8, 3), level, dtype=np.uint8))


def labelled(folder: Path, *labels: int, **more: Any) -> Path:
    """`more`: column -> (feature, array)."""
    arrays = {"label": pa.array(labels, pa.int64())} | {name: array for name, (_, array) in more.items()}
    return save(folder, pa.table(arrays), LABEL | {name: feature for name, (feature, _) in more.items()}, files=1)


def test_a_dict_has_a_folder_a_split(tmp_path: Path) -> None:
    for split, labels in (("train", (0, 1)), ("validation", (1, 1, 0)), ("test", (1,))):
        labelled(tmp_path / split, *labels)
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "validation", "test"]}))
    assert recognised(tmp_path) == "huggingface" == recognised(tmp_path / "test")
    found = [opened(tmp_path, "label"), opened(tmp_path, "label", split="test"), opened(tmp_path / "test", "label")]
    assert [value(each, "label").tolist() for each in found] == [[0, 1], [1, 1, 0], [1]]
    assert found[0].statistics == {"label": {"classes": ["ant", "bee"]}} and found[0].num_classes == 2
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": ["train"]}))
    with pytest.raises(InputError, match=r"has train and no validation or valid or val or test. Name the folder"):
        opened(tmp_path, "label", split="test")


def test_pictures_that_lie_beside_the_table(tmp_path: Path) -> None:
    listed = [{"bytes": grey(10), "path": "elsewhere.png"}, {"bytes": None, "path": "pictures/1.png"}]
    labelled(tmp_path / "data", 0, 1, image=({"_type": "Image"}, pa.array(listed, IMAGE)))
    with pytest.raises(InputError, match=r"00001.arrow, row 2: image .* at 'pictures/1.png', which is no"):
        opened(tmp_path / "data", "image")
    (tmp_path / "data/pictures").mkdir()
    (tmp_path / "data/pictures/1.png").write_bytes(grey(20))
    reader = opened(tmp_path / "data", "image")
    assert value(reader, "image")[:, 0, 0, 0].tolist() == [10, 20]
    (tmp_path / "data/pictures/1.png").write_bytes(grey(30))
    assert opened(tmp_path / "data", "image").content_hash != reader.content_hash
    assert value(opened(tmp_path / "data", "image", held_mib=0), "image")[:, 0, 0, 0].tolist() == [10, 30]


def test_a_picture_outside_does_not_travel(tmp_path: Path) -> None:
    (tmp_path / "out.png").write_bytes(grey(1))
    path = pa.array([{"bytes": None, "path": str(tmp_path / "out.png")}], IMAGE)
    labelled(tmp_path / "data", 0, image=({"_type": "Image"}, path))
    with pytest.raises(InputError, match=r"Save it again with datasets 2.4 or newer, which puts pictures inside"):
        opened(tmp_path / "data", "image")


@pytest.mark.parametrize(
    ("feature", "array", "said"),
    [
        (NUMBER, pa.array([1.0, None], pa.float32()), "row 2: x is missing"),
        (
            {"feature": NUMBER, "_type": "List"},
            pa.array([[1.0], [1.0, 2.0]], pa.list_(pa.float32())),
            "row 2: x has 2 values; rows before have 1",
        ),
        (
            {"feature": NUMBER, "length": 2, "_type": "List"},
            pa.array([[1.0, 2.0], [1.0, None]], pa.list_(pa.float32(), 2)),
            "row 2: x is missing",
        ),
        ({"_type": "Audio"}, pa.array([b"", b""]), "column 'x' is of Audio. What is read: numbers"),
        (
            {"_type": "Image"},
            pa.array([{"bytes": b"no", "path": None}] * 2, IMAGE),
            "row . cannot be read as a picture",
        ),
    ],
)
def test_columns_that_are_no_numbers(feature: Any, array: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        opened(labelled(tmp_path, 0, 1, x=(feature, array)), "x")


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("state.json", "{", "state.json cannot be read"),
        ("state.json", "[]", "state.json is no JSON object"),
        ("state.json", "{}", "is no saved data set"),
        ("state.json", '{"_data_files": [{"filename": "a.arrow"}]}', "a.arrow is torn or no Arrow stream"),
        ("state.json", '{"_data_files": [{}], "_indices_data_files": [{}]}', "flatten_indices"),
        ("dataset_info.json", '{"features": {"y": {"dtype": "int8", "_type": "Value"}}}', "lacks the columns y"),
        ("data-00000-of-00001.arrow", "torn", "is torn or no Arrow stream"),
    ],
)
def test_a_folder_that_is_damaged(file: str, text: str, said: str, tmp_path: Path) -> None:
    (labelled(tmp_path, 0, 1) / file).write_text(text)
    with pytest.raises(InputError, match=said):
        opened(tmp_path, "label", label="label" if "features" not in text else "y")


def test_which_column_is_to_be_predicted(tmp_path: Path) -> None:
    two = {"a": LABEL["label"], "b": LABEL["label"]}
    save(tmp_path, pa.table({"a": [0, 1], "b": [1, 0]}), two)
    with pytest.raises(InputError, match=r"It has 2 of ClassLabel, and none called .* Give the option label: a, b"):
        opened(tmp_path)
    assert opened(tmp_path, label="b").label == "b" and opened(tmp_path, unlabelled=True).label is None


def test_texts_of_a_saved_data_set_are_tokenized_like_others(tmp_path: Path) -> None:
    save(tmp_path, pa.table({"text": ["one", "two"]}), {"text": {"dtype": "string", "_type": "Value"}})
    texts = TextColumns(tmp_path, "train")
    assert texts.texts("text", [1, 0]) == ["two", "one"]
    assert texts.locate(1).endswith("data-00001-of-00002.arrow, row 1")


def test_texts_of_prepared_data_are_tokenized_like_others(tmp_path: Path) -> None:
    (raw := tmp_path / "raw").mkdir()
    (raw / "reviews.csv").write_text("id,text,label\n1,one,good\n2,two,bad\n3,three,good\n")
    sides = [tmp_path / side for side in ("train", "validation", "test")]
    prepare_data(raw, *sides, key="id", label="label", validation_percent=0, test_percent=0)
    texts = TextColumns(sides[0], "train")
    assert texts.texts("text", [2, 0]) == ["three", "one"] and texts.names == ("id", "text", "label")
    assert texts.locate(1).endswith("part-00000.parquet, row 2")
