"""What every reader keeps: run for each file of training_scripts/readers, on data that the file of the same name in
tests/contract/readers writes in the real format.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training import plugins
from drivetrain.training.input_pipeline import decoded
from drivetrain.training.input_pipeline.choice import load_reader, recognised
from drivetrain.training.input_pipeline.cursor import Order
from drivetrain.training.process import Process
from drivetrain.training.reader import Reader

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
ROWS = 24


@pytest.fixture(params=plugins.names("readers"))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def place(name: str) -> Any:
    file = Path(__file__).parent / "readers" / f"{name}.py"
    assert file.is_file(), f"add {file}: OPTIONS, and write(folder, rows, random) -> the columns it wrote"
    return importlib.import_module(f"tests.contract.readers.{name}")


@pytest.fixture
def written(place: Any, tmp_path: Path) -> dict[str, np.ndarray]:
    return place.write(tmp_path / "data", ROWS, np.random.default_rng(1))


@pytest.fixture
def opened(name: str, place: Any, written: dict[str, np.ndarray], tmp_path: Path) -> Reader:
    reader = load_reader(name, tmp_path / "data", place.OPTIONS, ALONE)
    reader.open(tuple(written))
    return reader


def test_the_folder_is_recognised(name: str, written: dict[str, np.ndarray], tmp_path: Path) -> None:
    assert recognised(tmp_path / "data") == name


def test_columns_are_read_as_written(opened: Reader, written: dict[str, np.ndarray]) -> None:
    assert len(opened) == ROWS
    assert sum(opened.shards) == ROWS
    assert set(written) <= set(opened.column_names)
    found = opened.read(slice(0, ROWS), tuple(written))
    assert list(found) == list(written)
    for column, values in written.items():
        np.testing.assert_array_equal(found[column], values)
        assert found[column].dtype == values.dtype


def test_decoded_data_equal_the_source(
    name: str,
    place: Any,
    opened: Reader,
    written: dict[str, np.ndarray],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The start that writes it, the one that reads it, and the one that has no cache."""
    monkeypatch.setattr(decoded, "LEAST_SECONDS", 0.0)
    monkeypatch.setenv(decoded.FOLDER, str(tmp_path / "cache"))
    for _ in range(2):
        again = load_reader(name, tmp_path / "data", place.OPTIONS, ALONE)
        again.open(tuple(written))
        assert (again.content_hash, again.fitted) == (opened.content_hash, opened.fitted)
        found, expected = (reader.read(slice(0, ROWS), tuple(written)) for reader in (again, opened))
        for column in written:
            np.testing.assert_array_equal(found[column], expected[column])
            assert found[column].dtype == expected[column].dtype
    kept = list((tmp_path / "cache").glob("*.safetensors"))
    assert len(kept) == (
        name
        in (
            "huggingface",
            "image_folder",
            "imdb",
            "npz",
            "prepared",
            "tokenized",
            "webdataset",
        )
    )


def test_rows_in_any_order(opened: Reader, written: dict[str, np.ndarray]) -> None:
    for rows in (Order(ROWS, ROWS, seed=3).batch(0), np.array([5, 5, 0, ROWS - 1, 5]), np.zeros(0, dtype=np.int64)):
        found = opened.read(rows, tuple(written))
        for column, values in written.items():
            np.testing.assert_array_equal(found[column], values[rows])
    some = tuple(written)[-1:]
    assert list(opened.read(np.array([1]), some)) == list(some)
    np.testing.assert_array_equal(opened.read(slice(3, 9), some)[some[0]], written[some[0]][3:9])


def test_returned_arrays_may_be_modified(opened: Reader, written: dict[str, np.ndarray]) -> None:
    """Recipes make tensors of it without a copy, and change them."""
    rows = np.array([2, 0, 1])
    for column, values in written.items():
        found = opened.read(rows, [column])[column]
        if found.dtype != object:
            with warnings.catch_warnings(action="error"):
                torch.from_numpy(found).zero_()
        np.testing.assert_array_equal(opened.read(rows, [column])[column], values[rows])


def test_a_missing_row_is_an_error(opened: Reader, written: dict[str, np.ndarray]) -> None:
    with pytest.raises(IndexError):
        opened.read(np.array([ROWS]), tuple(written))


def test_its_label_is_a_column_and_its_rows_can_be_found(opened: Reader, tmp_path: Path) -> None:
    if opened.label is None:
        assert opened.num_classes is None
    else:
        assert opened.label in opened.column_names
        labels = opened.read(slice(0, ROWS), [opened.label])[opened.label]
        assert labels.shape == (ROWS,)
        assert opened.num_classes is None or labels.max() < opened.num_classes
    places = [opened.locate(row) for row in range(ROWS)]
    assert len(set(places)) == ROWS or all("row" not in place for place in places)
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    for row in (0, ROWS - 1):
        assert any(str(file) in places[row] for file in files), places[row]


def test_the_hash_is_that_of_the_content(
    name: str, place: Any, opened: Reader, written: dict[str, np.ndarray], tmp_path: Path
) -> None:
    def hash_of(seed: int) -> str:
        folder = tmp_path / f"again-{seed}" / "data"
        folder.parent.mkdir(exist_ok=True)
        if not folder.exists():
            place.write(folder, ROWS - seed, np.random.default_rng(1 + seed))
        reader = load_reader(name, folder, place.OPTIONS, ALONE)
        reader.open(tuple(written))
        return reader.content_hash

    assert len(opened.content_hash) == 64 and int(opened.content_hash, 16) > 0
    assert hash_of(0) == opened.content_hash  # wherever it lies
    assert hash_of(1) != opened.content_hash


def test_missing_names_are_errors(name: str, place: Any, written: dict[str, np.ndarray], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"reader '{name}' has no option 'lable'"):
        load_reader(name, tmp_path / "data", {"lable": "x"}, ALONE)
    column = next(iter(written))
    with pytest.raises(InputError, match=f"no column '{column}x'. Did you mean '{column}'"):
        load_reader(name, tmp_path / "data", place.OPTIONS, ALONE).open([column + "x"])


def test_an_empty_folder_is_an_error_that_names_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InputError, match="nothing"):
        load_reader(name, tmp_path / "nothing", {}, ALONE)
    with pytest.raises(InputError, match=r"Run prepare_data first, or say what it is with reader: .*mnist"):
        recognised(tmp_path / "nothing")


def test_its_options_are_plain_values_and_explained(name: str) -> None:
    module = plugins.load("readers", name, kind="reader")
    assert module.__doc__ and module.Reader.__mro__[1] is Reader
    source = "".join(inspect.getsource(kind) for kind in module.Options.__mro__[:-1])
    for field in dataclasses.fields(module.Options):
        assert field.default is not dataclasses.MISSING
        after = source.split(f"    {field.name}: ")[1].splitlines()[1]
        assert after.lstrip().startswith('"""'), f"{name}: {field.name}"
