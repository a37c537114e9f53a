"""Scripts of TensorFlow's users, unchanged, through train_script."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.distributed.prepared_data import digit_columns
from tests.tensorflow.trainings import PYTHON, ROOT, started

pytestmark = pytest.mark.tensorflow

SCRIPTS = ROOT / "tests" / "fixtures" / "tensorflow_scripts"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    columns = digit_columns(300)
    pixels = np.stack([columns[f"p{number}"] for number in range(64)], axis=1)
    images = pixels.reshape(-1, 8, 8, 1).astype(np.float32) / 16
    np.savez(folder / "digits.npz", images=images, labels=columns["label"])
    return folder


def run(folder: Path, data: Path, script: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    folders = {"train": data, "source": SCRIPTS, **{name: folder / name for name in ("model", "output", "checkpoints")}}
    given = [f"--{name}={path}" for name, path in folders.items()]
    return started(
        [str(PYTHON), "-m", "drivetrain.components.train_script", *given, f"--script={script}", *words], **environment
    )


def test_fit_under_mirrored_resumes_from_its_own_backup(tmp_path: Path, data: Path) -> None:
    words = ["--launcher=python", '--channels={"train": "training"}', '--hyperparameters={"replicas": 2}']
    first = run(tmp_path, data, "mirrored_fit.py", *words, FAIL_IN_EPOCH="2")
    assert first.returncode == 1, first.stderr
    assert "rank 0 of 1 on 127.0.0.1 failed: RuntimeError: out of luck" in first.stderr
    again = run(tmp_path, data, "mirrored_fit.py", *words)
    assert again.returncode == 0, again.stderr
    assert "Number of devices: 2" in again.stdout
    assert re.findall(r"begins epoch (\d)", first.stdout) == ["0", "1", "2"]
    assert re.findall(r"begins epoch (\d)", again.stdout) == ["2", "3"]
    assert float(re.findall(r"accuracy: ([0-9.]+)", again.stdout)[0]) > 0.9
    assert (tmp_path / "model/1/saved_model.pb").is_file() and list(tmp_path.glob("checkpoints/*/best.keras"))


def test_a_users_loop_under_multi_worker_mirrored(tmp_path: Path, data: Path) -> None:
    done = run(tmp_path, data, "multi_worker_loop.py", "--launcher=tf_config", "--processes=2")
    assert done.returncode == 0, done.stderr
    losses = [float(loss) for loss in re.findall(r"loss=([0-9.]+)", done.stdout)]
    assert len(losses) == 3 and losses[-1] < losses[0] / 2
    assert done.stdout.count("of 2 replicas") == 2
    assert len(set(re.findall(r"ends with weights of ([0-9.]+)", done.stdout))) == 1
    assert (tmp_path / "model/model.keras").is_file()


def test_parameter_servers_end_with_their_chief(tmp_path: Path, data: Path) -> None:
    done = run(tmp_path, data, "parameter_server.py", "--launcher=tf_config", "--roles=chief=1,worker=2,ps=1")
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"(\w+ \d) serves", done.stdout)) == ["ps 0", "worker 0", "worker 1"]
    assert float(re.findall(r"accuracy: ([0-9.]+)", done.stdout)[0]) > 0.9
    assert (tmp_path / "model/model.keras").is_file()
