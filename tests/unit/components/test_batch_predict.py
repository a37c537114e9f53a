"""The component: a model's folder or archive, real launchers, one line for what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.batch_predict import batch_predict
from drivetrain.data.manifest import Manifest
from tests.distributed import prepared_data

OPTIONS = {"channels": 2, "hidden": 4}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(40))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    import torch

    from drivetrain.training.recipe import load_recipe
    from drivetrain.training.torch.framework import Framework

    torch.manual_seed(0)
    description = {"recipe": "digits_cnn", "recipe_options": OPTIONS, "precision": "fp32"}
    Framework.save_model(tmp_path / "model", load_recipe("digits_cnn", OPTIONS).model().state_dict(), description)
    return tmp_path / "model"


def command(model: Path, data: Path, output: Path, *more: str) -> subprocess.CompletedProcess[str]:
    folders = [f"--model={model}", f"--data={data}", f"--output={output}", f"--metrics={output}-metrics"]
    small = ["--batch-size=4", "--rows-per-shard=8"]
    return subprocess.run(
        [sys.executable, "-m", "drivetrain.components.batch_predict", *folders, *small, *more],
        env={name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"},
        capture_output=True,
        text=True,
    )


def test_its_declaration() -> None:
    assert (batch_predict.name, batch_predict.job) == ("batch-predict", "processing")
    assert {name: folder.optional for name, folder in batch_predict.inputs.items()} == {
        **{"model": False, "data": False},
        "previous": True,
    }
    assert list(batch_predict.outputs) == ["output"]


def test_a_folder_without_a_model(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no model: neither model\.json nor model\.tar\.gz"):
        batch_predict(tmp_path, data, None, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_one_process_and_two_a_folder_and_an_archive(model: Path, data: Path, tmp_path: Path) -> None:
    done = command(model, data, tmp_path / "one", "--keep=id,label", "--processes=1")
    assert (done.returncode, done.stderr) == (0, "")
    numbers = json.loads((tmp_path / "one-metrics" / "metrics.json").read_text())
    assert numbers == {"rows": 40, "shards": 5, "shards_there": 0, "shards_copied": 0, "shards_predicted": 5}
    assert "40 rows in 5 shards of 8: 0 of 5 shards were there\n" in done.stdout
    assert "shard 5 of 5: 8 rows, " in done.stdout
    manifest = Manifest.read(tmp_path / "one")
    assert [column.name for column in manifest.schema][:5] == ["row", "key", "id", "label", "predicted"]

    channel = tmp_path / "channel"
    channel.mkdir()
    with tarfile.open(channel / "model.tar.gz", "w:gz") as archive:
        archive.add(model, ".")
    done = command(channel, data, tmp_path / "two", "--keep=id,label", "--processes=2")
    assert (done.returncode, done.stderr) == (0, "")
    for path in (tmp_path / "one").glob("part-*.parquet"):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    assert (tmp_path / "one" / "manifest.json").read_bytes() == (tmp_path / "two" / "manifest.json").read_bytes()

    (tmp_path / "one" / "part-00002.parquet").unlink()
    previous = f"--previous={tmp_path / 'one'}"
    done = command(model, data, tmp_path / "three", "--keep=id,label", "--processes=1", previous)
    assert "0 of 5 shards were there, 4 are copied" in done.stdout
    assert (tmp_path / "three" / "manifest.json").read_bytes() == (tmp_path / "two" / "manifest.json").read_bytes()


@pytest.mark.slow
def test_errors_are_one_line_and_nothing_is_written(model: Path, data: Path, tmp_path: Path) -> None:
    done = command(model, data, tmp_path / "out", "--keep=lable", "--processes=1")
    assert done.returncode == 2
    assert done.stderr.startswith("error: no column 'lable'. Did you mean 'label'?")
    assert len(done.stderr.splitlines()) == 1
    assert not list((tmp_path / "out").rglob("part-*"))
    assert not (tmp_path / "out-metrics" / "metrics.json").exists()
