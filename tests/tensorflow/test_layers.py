"""What layers of Keras do beside their outputs counts as in plain Keras, under each strategy of TensorFlow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tensorflow.test_trainings import needs_horovod
from tests.tensorflow.trainings import PYTHON, Work, run, started

pytestmark = pytest.mark.tensorflow

# Each of four equal samples keeps half of its pixels, and what is kept counts twice.
MASKED: dict[str, Any] = {
    "recipe": "tests.tensorflow.adding_recipe",
    "recipe_options": '{"layers": ["masked"]}',
    "global_batch": 4,
    "max_steps": 1,
    "learning_rate": 1.0,
    "clip_norm": 0.0,
    "warmup_epochs": 0.0,
    "keep_best": False,
}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    return Work(tmp_path_factory.mktemp("layers"))


@pytest.fixture(scope="module")
def beside(work: Work) -> Any:
    if not PYTHON.exists():
        pytest.skip("no .venvs/tensorflow: run `make test-in ENV=tensorflow`")
    program = Path(__file__).with_name("adding.py")
    done = started([str(PYTHON), str(program), str(work.data), str(work.folder)])
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("way", ["single", "pieces", "compiled", "mirrored", "central_storage"])
def test_regularizers_and_added_losses_count_as_in_plain_keras(way: str, beside: Any) -> None:
    assert beside["apart"][way] < 1e-12


def test_activation_losses_refuse_a_padded_batch(beside: Any) -> None:
    said = "a batch of 49 samples cannot be dealt into 2 equal parts, and the model has a loss of its activations "
    assert beside["refused"]["adds"].startswith(said + "(add_loss)")
    assert beside["refused"]["activations"].startswith(said + "(activity_regularizer)")
    assert beside["refused"]["weights"] == ""


def kept(work: Work, name: str) -> list[int]:
    """By how many of the four samples each pixel was kept."""
    (weight,) = (value for value in work.weights(name).values() if value.dtype == np.float32)
    counts = (1 - weight.reshape(-1)) * 4 / 2
    assert np.allclose(counts, counts.round(), atol=1e-5)
    return counts.round().astype(int).tolist()


def check_masks(counts: list[int]) -> None:
    """64 pixels of four samples: binomial counts. Equal masks of two replicas would leave no odd ones."""
    assert {1, 2, 3} <= set(counts)
    assert 2 - 4 / 8 < np.mean(counts) < 2 + 4 / 8  # four standard deviations
    assert 0.5 < np.var(counts) < 1.7  # 1; of two and two equal masks 2, of four equal ones 4


def test_replicas_drop_other_samples(work: Work) -> None:
    four = {"strategy": "tf_mirrored", "strategy_options": '{"cpus": 4}'}
    runs = [("four", four), ("one", {"strategy": "tf_single"})]
    run(work.given(*((name, MASKED | change) for name, change in runs)))
    for name, _ in runs:
        check_masks(kept(work, name))
    assert kept(work, "one") != kept(work, "four")


def test_processes_drop_other_samples(work: Work) -> None:
    run(work.given(("two", MASKED | {"strategy": "tf_multi_worker"})), processes=2)
    check_masks(kept(work, "two"))


@needs_horovod
def test_processes_of_horovod_drop_other_samples(work: Work) -> None:
    run(work.given(("horovod", MASKED | {"strategy": "tf_horovod"})), processes=2, launcher="horovodrun")
    check_masks(kept(work, "horovod"))
