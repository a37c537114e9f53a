from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.dataset import check_labels
from drivetrain.training.input_pipeline.prepared import PreparedData


@pytest.fixture
def folder(prepared_data: ModuleType, tmp_path: Path) -> Path:
    columns = {"id": list("abcde"), "x": np.arange(5, dtype=np.float32), "label": [0, 1, 2, 1, 0]}
    return prepared_data.write_prepared(tmp_path / "data", columns, num_shards=2)


def change_manifest(folder: Path, **changes: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_columns_come_in_the_order_of_the_shards(folder: Path) -> None:
    data = PreparedData(folder)
    data.verify()
    columns = data.read(["label", "x"])
    assert list(columns) == ["label", "x"]
    assert columns["x"].tolist() == [0, 1, 2, 3, 4]
    assert columns["label"].tolist() == [0, 1, 2, 1, 0]
    assert data.rows == 5
    assert data.label == "label"


def test_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is not prepared data: no manifest\.json\. Run prepare_data first"):
        PreparedData(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not readable as JSON"),
        ("[" * 100_000, "not readable as JSON"),
        ("[]", "no manifest of prepared data"),
        ("{}", "no manifest of prepared data"),
        ('{"format": 9}', "has format 9; this program reads formats 1 and 2"),
    ],
)
def test_a_manifest_that_cannot_be_read(folder: Path, text: str, message: str) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=message):
        PreparedData(folder)


def test_no_rows(folder: Path) -> None:
    change_manifest(folder, rows=0)
    with pytest.raises(InputError, match="holds no rows"):
        PreparedData(folder)


@pytest.mark.parametrize(
    "change",
    [{"content_hash": "../elsewhere"}, {"shards": [{"file": "../x.parquet", "rows": 5, "bytes": 1, "sha256": "0"}]}],
)
def test_names_that_lead_elsewhere(folder: Path, change: dict[str, Any]) -> None:
    change_manifest(folder, **change)
    with pytest.raises(InputError, match=r"allowed are plain names"):
        PreparedData(folder)


def test_a_missing_shard_is_named(folder: Path) -> None:
    (folder / "part-00001.parquet").unlink()
    with pytest.raises(InputError, match=r"shard .*part-00001\.parquet is missing"):
        PreparedData(folder).verify()


def test_one_flipped_bit_is_found_and_its_shard_named(folder: Path) -> None:
    path = folder / "part-00000.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"shard .*part-00000\.parquet was altered: its SHA-256 is "):
        PreparedData(folder).verify()


def test_a_shard_with_other_rows(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["shards"][1]["rows"] = 7
    change_manifest(folder, shards=manifest["shards"])
    with pytest.raises(InputError, match=r"part-00001\.parquet has 2 rows; manifest\.json says 7"):
        PreparedData(folder).read(["x"])


def test_a_missing_column(folder: Path) -> None:
    with pytest.raises(InputError, match=r"no column 'lable'\. Did you mean 'label'\? Allowed: id, label, x"):
        PreparedData(folder).read(["lable"])


def test_empty_values(prepared_data: ModuleType, tmp_path: Path) -> None:
    folder = prepared_data.write_prepared(tmp_path / "data", {"x": [1.0, None, 3.0, None], "label": [0, 0, 0, 0]})
    with pytest.raises(
        InputError, match=r"column 'x' of shard .*part-00000\.parquet has 1 empty values, the first in row 2\."
    ):
        PreparedData(folder).read(["x"])


def test_a_label_outside_the_classes_is_located(folder: Path) -> None:
    data = PreparedData(folder)
    labels = data.read(["label"])["label"]
    check_labels(data, "label", labels, 3)
    with pytest.raises(
        InputError, match=r"part-00000\.parquet, row 3 \(id='c'\): label label=2 is outside the 2 classes"
    ):
        check_labels(data, "label", labels, 2)
    labels[3] = -1
    with pytest.raises(InputError, match=r"part-00001\.parquet, row 1 \(id='d'\): label label=-1"):
        check_labels(data, "label", labels, 3)


def test_a_label_that_is_no_number(folder: Path) -> None:
    with pytest.raises(InputError, match=r"label column 'label' .* allowed are whole numbers from 0 to 2"):
        check_labels(PreparedData(folder), "label", np.array(["a", "b"], dtype=object), 3)
