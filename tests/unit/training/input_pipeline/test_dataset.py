from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.choice import recognised
from drivetrain.training.input_pipeline.cursor import Order, StreamOrder, WeightedOrder
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.process import Process
from drivetrain.training.reader import Columns, matrix
from drivetrain.training.recipe import Batch

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
OWN_READER = '''
"""Squares: rows that no file holds."""
from dataclasses import dataclass
import numpy as np
from drivetrain.training import reader

def recognises(folder):
    return False

@dataclass(frozen=True, kw_only=True)
class Options:
    rows: int = 10
    """How many."""

class Reader(reader.Reader):
    column_names = ("x", "label")
    label = "label"
    content_hash = "0" * 64
    def __len__(self):
        return self.options.rows
    def open(self, names):
        self.check_columns(names)
    def read(self, indices, names):
        rows = np.arange(len(self))[indices]
        return {"x": rows.astype(np.float32) ** 2, "label": rows % 2}
    def locate(self, row):
        return f"row {row}"
'''


@dataclass(frozen=True)
class Sums:
    """What of a recipe the data sees."""

    columns: tuple[str, ...] = ("x",)
    num_classes: int | None = 3

    def batch(self, columns: Columns, label: str) -> Batch:
        targets = columns[label] if label else columns["x"]
        return Batch(torch.from_numpy(matrix(columns, self.columns)), torch.from_numpy(targets))


def dataset(folder: Path, recipe: Any = Sums(), **options: Any) -> Dataset:
    return Dataset(folder, recipe, ALONE, **options)


@pytest.fixture
def folder(prepared_data: ModuleType, tmp_path: Path) -> Path:
    columns = {"x": np.arange(12, dtype=np.float32), "weight": np.arange(12.0), "label": np.arange(12) % 3}
    return prepared_data.write_prepared(tmp_path / "data", columns)


def test_batches_never_share_the_held_memory(folder: Path) -> None:
    data = dataset(folder)
    for rows in (slice(0, 4), np.arange(4)):
        data.batch(rows).inputs.zero_()
        assert data.batch(rows).inputs[:, 0].tolist() == [0, 1, 2, 3]


def test_columns_of_one_type_are_one_matrix_without_a_copy(prepared_data: ModuleType, tmp_path: Path) -> None:
    columns = {name: np.full(5, number, dtype=np.uint8) for number, name in enumerate("abc")} | {"label": np.zeros(5)}
    data = dataset(prepared_data.write_prepared(tmp_path / "d", columns), Sums(("a", "b", "c"), None))
    found = data.reader.read(np.array([3, 1]), ["a", "b", "c", "label"])
    whole = matrix(found, ["a", "b", "c"])
    assert whole.tolist() == [[0, 1, 2]] * 2 and np.shares_memory(whole, found["b"])
    assert matrix(found, ["c", "a"]).tolist() == [[2, 0]] * 2
    with pytest.raises(
        InputError, match=r"column 't' is text, such as 'n/a', where the recipe reads numbers\. Mend it"
    ):
        matrix({"t": np.array(["1.5", "n/a", "x"], dtype=object)}, ["t"])
    assert matrix(dict(found), ["b", "c"]).tolist() == [[1, 2]] * 2


def test_a_recipe_brings_its_reader_and_its_options(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Text(Sums):
        columns: tuple[str, ...] = ("tokens",)
        num_classes: int | None = None
        reader: str = "text"

        @property
        def reader_options(self) -> dict[str, Any]:
            return {"length": 4, "pattern": "*.log"}

        def batch(self, columns: Columns, label: str) -> Batch:
            assert label == ""
            tokens = torch.from_numpy(columns["tokens"])
            return Batch(tokens[:, :-1], tokens[:, 1:])

    (tmp_path / "a.log").write_bytes(b"abcdefghi")
    (tmp_path / "a.txt").write_bytes(b"other")
    data = dataset(tmp_path, Text())
    assert (len(data), data.label, data.batch(np.array([1])).targets.tolist()) == (2, "", [[*b"fghi"]])
    assert len(dataset(tmp_path, Text(), reader_options='{"length": 8}')) == 1
    assert len(dataset(tmp_path, Text(), reader="text", reader_options={"pattern": "*.txt"})) == 1
    with pytest.raises(InputError, match="has no labels"):
        data.labels()


def test_a_recipe_of_classes_on_data_without_labels(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(bytes(300))
    with pytest.raises(InputError, match="has no labels, and the recipe wants one of 3 classes"):
        dataset(tmp_path, Sums(("tokens",)))


def test_a_reader_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "squares_reader.py").write_text(OWN_READER)
    monkeypatch.syspath_prepend(str(tmp_path))
    data = dataset(tmp_path, reader="squares_reader", reader_options={"rows": 6})
    assert data.batch(data.order(global_batch=6, seed=0).batch(0)).inputs.sum() == 55
    with pytest.raises(InputError, match='rows="6"; allowed is a whole number'):
        dataset(tmp_path, reader="squares_reader", reader_options={"rows": "6"})
    sys.modules.pop("squares_reader")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"reader": "imbd"}, r"no reader 'imbd'\. Did you mean 'imdb'\? Allowed: cifar10"),
        ({"reader_options": '{"labl": "x"}'}, r"reader 'prepared' has no option 'labl'\. Did you mean 'label'"),
        ({"reader_options": "[1]"}, r"reader_options '\[1\]' are not a JSON object"),
        ({"reader": "mnist"}, r"train-images-idx3-ubyte is missing"),
        ({"columns": ["wieght"]}, r"no column 'wieght'\. Did you mean 'weight'"),
        ({"reader_options": '{"shuffle_window": -1}'}, r"shuffle_window=-1; allowed are whole numbers from 0"),
    ],
)
def test_names_that_are_not_there(folder: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dataset(folder, **given)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere is no folder"):
        dataset(tmp_path / "nowhere")


def test_a_readme_is_no_second_format(folder: Path, tmp_path: Path) -> None:
    (folder / "readme.txt").write_text("hello" * 100)
    np.savez(folder / "more.npz", x=np.zeros(3))
    assert recognised(folder) == "prepared"  # a manifest vouches for the folder
    (tmp_path / "cifar").mkdir()
    (tmp_path / "cifar" / "data_batch_1.bin").write_bytes(bytes(3073))
    (tmp_path / "cifar" / "batches.meta.txt").write_text("airplane\n" * 100)
    assert recognised(tmp_path / "cifar") == "cifar10"


def test_a_folder_of_two_formats(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.arange(6), y=np.arange(6) % 2)
    (tmp_path / "test_batch.bin").write_bytes(bytes(3073))
    with pytest.raises(InputError, match=r"can be read as cifar10 or as npz\. Say which with reader"):
        dataset(tmp_path)
    assert len(dataset(tmp_path, reader="npz")) == 6


def test_labels_outside_the_recipes_classes(tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin").write_bytes(bytes(3073) + bytes([7]) + bytes(3072))
    with pytest.raises(InputError, match=r"test_batch\.bin, row 2: label label=7 is outside the 3 classes"):
        dataset(tmp_path, Sums(("image",)))


def test_another_label(folder: Path) -> None:
    recipe = Sums(("x",), None)
    assert dataset(folder, recipe, reader_options={"label": "weight"}).labels().tolist() == list(range(12))
    with pytest.raises(InputError, match=r"no column 'wait'"):
        dataset(folder, recipe, reader_options={"label": "wait"})


def test_orders(folder: Path) -> None:
    data = dataset(folder, columns=["weight"])
    uniform = data.order(global_batch=5, seed=1)
    assert type(uniform) is Order and uniform.batch(0).tolist() == Order(12, 5, 1).batch(0).tolist()
    assert data.order(global_batch=5, seed=1, drop_last=True).num_samples == 10
    weighted = data.order(global_batch=12, seed=1, sampling="weighted", weight_column="weight")
    assert isinstance(weighted, WeightedOrder)
    assert not any((weighted.batch(12 * epoch) == 0).any() for epoch in range(20))  # weight 0
    balanced = data.order(global_batch=12, seed=1, sampling="balanced")
    assert balanced.batch(0).tolist() == WeightedOrder(np.ones(12), 12, 1).batch(0).tolist()
    streamed = dataset(folder, shuffle_window=4).order(global_batch=5, seed=1)
    assert isinstance(streamed, StreamOrder) and streamed.window == 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sampling": "weighted"}, "sampling 'weighted' needs a weight_column, and no other"),
        ({"weight_column": "weight"}, "sampling 'weighted' needs a weight_column, and no other"),
    ],
)
def test_orders_that_are_none(folder: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dataset(folder, columns=["weight"]).order(global_batch=4, seed=0, **given)


def test_windows_do_not_go_with_weights_nor_with_every_format(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rows that come through a window cannot be drawn from all of them"):
        dataset(folder, shuffle_window=4).order(global_batch=4, seed=0, sampling="balanced")
    np.savez(tmp_path / "data.npz", x=np.arange(6), y=np.arange(6))
    with pytest.raises(InputError, match=r"shuffle_window=4: the reader of .* holds all rows at hand"):
        dataset(tmp_path, Sums(("x",), None), reader="npz", shuffle_window=4)
    (tmp_path / "a.txt").write_bytes(bytes(300))
    text = dataset(tmp_path, Sums(("tokens",), None), reader="text", shuffle_window=4)
    assert isinstance(text.order(global_batch=2, seed=0), StreamOrder)


def test_labels_that_come_through_a_window_are_checked_as_they_come(folder: Path) -> None:
    data = dataset(folder, Sums(("x",), 2), shuffle_window=4)
    assert data.batch(np.array([0, 1])).targets.tolist() == [0, 1]
    with pytest.raises(
        InputError, match=r"part-00000\.parquet, row 6: label label=2 is outside the 2 classes .*; 1 such"
    ):
        data.batch(np.array([4, 5, 6]))


def test_statistics_are_those_of_the_columns_in_use(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["statistics"] = {"x": {"mean": 5.5}, "weight": {"mean": 1.0}, "label": {"classes": 3}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    data = dataset(folder)
    assert data.statistics == {"x": {"mean": 5.5}, "label": {"classes": 3}}
    assert data.content_hash == manifest["content_hash"] and data.fitted == {}


@dataclass(frozen=True)
class Numbers(Sums):
    num_classes: int | None = None

    def batch(self, columns: Columns, label: str) -> Batch:
        return Batch(torch.from_numpy(columns["x"].astype(np.float32)), torch.from_numpy(columns[label]))


@pytest.mark.parametrize(
    ("cell", "advice"),
    [("8,9", "8,9 has a decimal comma: write 8.9."), ("n/a", "Correct the data, or turn the text into numbers")],
)
def test_text_that_a_recipe_reads_as_a_number(
    prepared_data: ModuleType, tmp_path: Path, cell: str, advice: str
) -> None:
    columns = {"x": np.array(["1", cell, "3"], dtype=object), "label": np.arange(3)}
    data = dataset(prepared_data.write_prepared(tmp_path / "data", columns), Numbers())
    with pytest.raises(InputError, match=rf"row 2.*: column 'x' holds the text '{cell}', and recipe .*{advice}"):
        data.batch(np.arange(3))


def test_a_mistake_of_the_recipe_stays_its_own(prepared_data: ModuleType, tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Wrong(Numbers):
        def batch(self, columns: Columns, label: str) -> Batch:
            raise ValueError("x must be 5")

    columns = {"x": np.array(["1", "5", "3"], dtype=object), "label": np.arange(3)}
    data = dataset(prepared_data.write_prepared(tmp_path / "data", columns), Wrong())
    with pytest.raises(ValueError, match=r"^x must be 5$"):
        data.batch(np.arange(3))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            np.array(["no", "yes", "no"], dtype=object),
            r"holds 'no', 'yes'; .* 0 to 2, .* prepare_data: 0 for 'no', 1 f",
        ),
        (np.array([1.0, 0.5, 1.0]), r"holds 0\.5, 1\.0; allowed are whole numbers"),
        (np.array([1, 2, 3]), r"label label=3 is outside .* Classes are numbered from 0: write them so\."),
        (np.array([1, 2, 4]), r"label label=4 is outside .* Correct the data or the recipe's num_classes"),
    ],
)
def test_labels_that_are_no_classes(
    prepared_data: ModuleType, tmp_path: Path, labels: np.ndarray[Any, Any], message: str
) -> None:
    columns = {"x": np.arange(3, dtype=np.float32), "label": labels}
    with pytest.raises(InputError, match=message):
        dataset(prepared_data.write_prepared(tmp_path / "data", columns))
