"""Each rule fires on the fault that it is for, planted in a real training, within its window."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training import plugins
from drivetrain.training.health.rule import FAMILY
from tests.fixtures import tiny_data
from tests.fixtures.faulty_recipe import FAULTS, INJECTED, config_of, run


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_data.write("prepared", tmp_path_factory.mktemp("health") / "data", rows=64)


def findings(target: Path) -> dict[str, Any]:
    return {one["rule"]: one for one in json.loads((target / "output/health/health.json").read_text())["findings"]}


def test_every_rule_has_a_fault() -> None:
    assert {*FAULTS, *INJECTED} == set(plugins.names(FAMILY))


@pytest.mark.slow_cases(
    "loss_not_decreasing",
    "vanishing_gradients",
    "poor_initialisation",
    "slow_input",
    "memory_growth",
    "idle_accelerator",
)
@pytest.mark.parametrize("name", FAULTS)
def test_a_rule_fires_on_its_fault(name: str, data: Path, tmp_path: Path) -> None:
    said = run(config_of(name), data, tmp_path)
    found = findings(tmp_path)
    assert name in found, f"only {list(found)} fired"
    assert found[name]["step"] <= FAULTS[name][1]
    assert bool(said) == (name == "nan_or_inf")
    if name == "nan_or_inf":
        assert "in step 21 the outputs of layer 8 are the first that are not finite" in said
    lines = [json.loads(line) for line in (tmp_path / "output/metrics.jsonl").read_text().splitlines()]
    assert name in [line.get("rule") for line in lines]
    for one in found.values():
        assert json.dumps(one)  # all of it is plain


@pytest.mark.parametrize(
    ("rate", "told"), [(1e-9, "learning_rate"), (3.0, "dead_activations"), (300.0, "learning_rate")]
)
def test_a_rate_that_is_far_off_is_told_by_step_16_whatever_the_bound(
    rate: float, told: str, data: Path, tmp_path: Path
) -> None:
    """Where steps take a millisecond, the bound pays for no more records of tensors than the first five."""
    run(config_of("", learning_rate=rate, health_cost=1e-9, max_steps=24), data, tmp_path)
    assert findings(tmp_path)[told]["step"] <= 16


def test_nothing_fires_without_a_fault(data: Path, tmp_path: Path) -> None:
    # Read when needed: on a busy machine steps of a few milliseconds do wait for the thread that reads ahead.
    assert run(config_of("", max_steps=60, epochs=15, validate_every=10, prefetch=0), data, tmp_path) == ""
    assert findings(tmp_path) == {}


def test_health_is_off_where_it_is_turned_off(data: Path, tmp_path: Path) -> None:
    assert run(config_of("dead_activations", health=False, max_steps=4), data, tmp_path) == ""
    assert not (tmp_path / "output/health").exists()
