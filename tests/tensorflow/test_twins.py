"""A recipe and its twin of the other framework measure the same of the same weights; twins learn and are exported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drivetrain.training.config import Config, Folders
from drivetrain.training.process import Process
from drivetrain.training.recipe import load_recipe
from drivetrain.training_scripts import evaluate
from drivetrain.training_scripts.train import train
from tests.fixtures import tiny_data
from tests.tensorflow.trainings import Work, run

pytestmark = pytest.mark.tensorflow

ROWS = 20
ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
# Keras's twin of torch's recipe -> its options.
TWINS: dict[str, tuple[str, dict[str, Any]]] = {
    "digits_keras": ("digits_cnn", {"channels": 4, "hidden": 16}),
    "mnist_keras": ("mnist_cnn", {"channels": 4, "hidden": 16}),
    "cifar10_keras": ("cifar10_resnet", {"depth": 8, "width": 8}),
    "imdb_keras": ("imdb_sentiment", tiny_data.SMALL["imdb_sentiment"]),
}
EMBEDDINGS = ["embedding.words.weight", "embedding.places"]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    return Work(tmp_path_factory.mktemp("twins"))


@pytest.fixture(scope="module")
def data(work: Work) -> dict[str, Path]:
    return {
        name: tiny_data.write(getattr(load_recipe(of, {}), "reader", "prepared"), work.folder / f"data_{of}", rows=ROWS)
        for name, (of, _) in TWINS.items()
    }


@pytest.fixture(scope="module")
def theirs(work: Work, data: dict[str, Path]) -> dict[str, dict[str, float]]:
    """What torch measures of its own, after two steps."""
    found = {}
    for name, (of, options) in TWINS.items():
        folder = work.folder / of
        config = Config(recipe=of, recipe_options=json.dumps(options), strategy="single", global_batch=10, max_steps=2)
        train(config, Folders(train=data[name], model=folder), ALONE)
        found[name] = evaluate.run(folder, data[name], ALONE)
    return found


@pytest.fixture(scope="module")
def ours(work: Work, data: dict[str, Path], theirs: Any) -> Any:
    """The twins with torch's weights, and trainings of their own, in one process."""
    twins = [
        {
            "recipe": name,
            "options": options,
            "torch": str(work.folder / of),
            "target": str(work.folder / name),
            "names": ordered(list(load_recipe(of, options).model().state_dict())),
            "embeddings": EMBEDDINGS,
        }
        for name, (of, options) in TWINS.items()
    ]
    own = {"strategy": "tf_single", "global_batch": 8, "epochs": 4, "learning_rate": 0.01, "keep_best": False}
    runs = [
        (f"{name}_own", own | {"recipe": name, "recipe_options": json.dumps(options)})
        for name, (_, options) in TWINS.items()
    ]
    given = work.given(*runs, twins=twins, evaluate=[one["target"] for one in twins])
    given["data_of"] = {str(work.folder / name): str(path) for name, path in data.items()}
    for name, one in zip(TWINS, given["runs"], strict=True):
        one |= {"data": str(data[name]), "validates": False}
    return run(given)


def ordered(names: Sequence[str]) -> list[str]:
    """As Keras has them: by layer, an embedding's words before their places, an attention's key before its query."""
    swapped = {"query": "key", "key": "query"}
    names = [
        ".".join(swapped.get(part, part) for part in name.split("."))
        for name in names
        if not name.endswith("num_batches_tracked")
    ]
    return sorted(names, key=lambda name: EMBEDDINGS.index(name) if name in EMBEDDINGS else len(EMBEDDINGS))


@pytest.mark.parametrize("name", TWINS)
def test_both_frameworks_measure_equal_weights_equally(name: str, theirs: Any, ours: Any) -> None:
    measured = ours["evaluations"][list(TWINS).index(name)]
    assert measured.keys() == theirs[name].keys()
    assert measured["accuracy"] == theirs[name]["accuracy"]
    for metric, value in theirs[name].items():
        assert measured[metric] == pytest.approx(value, abs=2e-6), metric


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_learns_and_is_exported(name: str, work: Work, ours: Any) -> None:
    losses = [row["train_loss"] for row in work.steps(f"{name}_own")]
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    for folder in (work.folder / name, work.folder / f"{name}_own/model"):
        assert (folder / "saved_model/1/saved_model.pb").is_file() and (folder / "model.keras").is_file()
