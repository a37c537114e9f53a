"""Health rules under TensorFlow: those of tensors and layers fire on planted faults, and are silent without one.

(That watching changes no number, and that sums are the same on any number of replicas, is in test_trainings.py, where
such trainings are.)
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training.recipe import load_recipe
from tests.fixtures import shipped_recipes, tiny_data
from tests.tensorflow.trainings import Work, run

COMMON: dict[str, Any] = {
    "recipe": "tests.tensorflow.faulty_recipe",
    "clip_norm": 0.0,
    "epochs": 4,
    "max_steps": 14,
    "log_every": 14,
    "keep_best": False,
    "checkpoint_every": "100steps",
    "health_cost": 1.0,
}
TWINS = {
    "digits_keras": "digits_cnn",
    "mnist_keras": "mnist_cnn",
    "cifar10_keras": "cifar10_resnet",
    "imdb_keras": "imdb_sentiment",
}
SEEDS = 20
# The step after which a rule has spoken at the latest, and what or whom it names.
FAULTS = {
    "nan_or_inf": (12, "in step 11 the outputs of layer 004.after, or its weights, are the first that are not finite"),
    "exploding_gradients": (13, "times that of the beginning"),
    "vanishing_gradients": (3, "gradients of 000.kernel"),
    "unchanging_tensors": (6, "006.weight got no gradient"),
    "dead_activations": (3, "of the outputs of 001.conv2d"),
    "poor_initialisation": (1, "the outputs of 001.conv2d have size"),
    "saturated_updates": (12, "a step changes 006.kernel by"),
    "learning_rate": (6, "learning_rate is too low"),
}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    return Work(tmp_path_factory.mktemp("health"))


@pytest.fixture(scope="module")
def ended(work: Work) -> Any:
    """Trainings in one process: one with each fault, whose rule stops it, and healthy ones. What each ended with."""
    runs = [faulty(fault, work) for fault in FAULTS]
    runs += [shipped("digits_keras", seed, f"healthy-{seed}", work) for seed in range(3)]
    return dict(zip(FAULTS, (noted.get("refused", "") for noted in train(runs, work)), strict=False))


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", FAULTS)
def test_a_rule_fires_on_its_fault(name: str, work: Work, ended: Any) -> None:
    latest, text = FAULTS[name]
    found = {one["rule"]: one for one in health_of(work.folder / name)["findings"]}
    assert name in found, f"only {list(found)} fired"
    assert found[name]["step"] <= latest
    assert text in found[name]["text"]
    assert ended[name].startswith(f"stopped at step {found[name]['step']}") and name in ended[name]


@pytest.mark.tensorflow
def test_no_rule_fires_on_the_shipped_recipe(work: Work, ended: Any) -> None:
    assert_silent([work.folder / f"healthy-{seed}" for seed in range(3)])


@pytest.mark.nightly  # (and not `tensorflow`, whose suite runs by day)
@pytest.mark.parametrize("recipe", TWINS)
def test_no_rule_fires_with_any_of_twenty_seeds(recipe: str, tmp_path: Path) -> None:
    names = [f"{recipe}-{seed}" for seed in range(SEEDS)]
    several = Work(tmp_path)
    train([shipped(recipe, seed, name, several) for seed, name in enumerate(names)], several)
    assert_silent([tmp_path / name for name in names])


def faulty(fault: str, work: Work) -> dict[str, Any]:
    rate = 1e-9 if fault == "learning_rate" else 1e-3
    options, rules = {"fault": fault}, {fault: {"action": "stop"}}
    told = {"learning_rate": rate, "recipe_options": json.dumps(options), "health_rules": json.dumps(rules)}
    return {**work.given((fault, COMMON | told))["runs"][0], "refused": True}


def shipped(recipe: str, seed: int, name: str, work: Work) -> dict[str, Any]:
    """As the config of its twin tells."""
    reader = getattr(load_recipe(recipe, {}), "reader", "prepared")
    data = tiny_data.write(reader, work.folder / f"data-{name}", rows=shipped_recipes.ROWS, seed=seed)
    config = asdict(shipped_recipes.config_of(TWINS[recipe], seed))
    (run_,) = work.given((name, config | {"recipe": recipe, "strategy": "tf_single"}))["runs"]
    return {**run_, "data": str(data)}


def train(runs: list[dict[str, Any]], work: Work) -> Any:
    return run({**work.given(), "runs": runs})["runs"]


def assert_silent(targets: list[Path]) -> None:
    for target in targets:
        found = health_of(target)
        assert found["findings"] == []
        assert found["records"]["tensors"] == shipped_recipes.STEPS


def health_of(target: Path) -> dict[str, Any]:
    return json.loads((target / "output/health/health.json").read_text())
