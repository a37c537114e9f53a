"""The digits that are shipped are scikit-learn's, and prepare_data takes them."""

import csv
import gzip
import io
from pathlib import Path

import pytest

from drivetrain.components.prepare_data import prepare_data
from drivetrain.data.manifest import Manifest

DATA = Path(__file__).parents[3] / "pipelines" / "data"
DIGITS = DATA / "digits.csv.gz"


def test_the_file_is_scikit_learns_data_set() -> None:
    load_digits = pytest.importorskip("sklearn.datasets").load_digits
    digits = load_digits()
    text = gzip.decompress(DIGITS.read_bytes()).decode("ascii")
    header, *rows = csv.reader(io.StringIO(text))
    assert header == ["id", "label", *(f"p{index}" for index in range(64))]
    assert [[int(cell) for cell in row] for row in rows] == [
        [index, int(label), *map(int, image)]
        for index, (label, image) in enumerate(zip(digits.target, digits.data, strict=True))
    ]
    assert (digits.data == digits.data.astype(int)).all()  # so that int() above lost nothing


def test_the_file_contains_no_time_or_place() -> None:
    head = DIGITS.read_bytes()[:10]
    assert head[:3] == b"\x1f\x8b\x08"
    assert head[3] == 0, "a file name or another field in the gzip header"
    assert head[4:8] == bytes(4), "a time stamp in the gzip header"


def test_the_folder_with_its_readme_is_an_input(tmp_path: Path) -> None:
    (raw := tmp_path / "raw").mkdir()
    for path in (DIGITS, DATA / "README.md"):
        (raw / path.name).write_bytes(path.read_bytes())
    prepare_data(raw, tmp_path / "train", tmp_path / "validation", tmp_path / "test", key="id", label="label")
    manifests = [Manifest.read(tmp_path / side) for side in ("train", "validation", "test")]
    assert [manifest.rows for manifest in manifests] == [1440, 173, 184]
    for manifest in manifests:
        assert [entry["value"] for entry in manifest.statistics["label"]["classes"]] == list(range(10))
