"""Records of a training are the same however it is distributed, and all ranks come to the same verdict at one step."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import nn

from drivetrain.base.errors import InputError
from drivetrain.steps.trainings import EXECUTION
from drivetrain.training.config import Config, Folders
from drivetrain.training.health import monitor
from drivetrain.training.health.clock import Clock
from drivetrain.training.health.monitor import Health
from drivetrain.training.health.record import LAYER_COLUMNS, TENSOR_COLUMNS, Names
from drivetrain.training.health.recording import read
from drivetrain.training.health.rule import load_rules, see
from drivetrain.training.health.vector import joined
from drivetrain.training.input_pipeline.cursor import Order, share
from drivetrain.training.process import Process
from drivetrain.training.torch.parallel.sharded import num_slices
from drivetrain.training_scripts.train import train
from tests.distributed.strategy_models import Memory, Recipe
from tests.distributed.strategy_runs import ALL, Run, parameters
from tests.distributed.strategy_training import GLOBAL_BATCH, NUM_SAMPLES, Setting, build

SINGLE = Run("single", 1)
SETTING = Setting(precision="fp32", clip_norm=0.5, accumulation=2, steps=5)
CONFIG = Config(
    recipe="digits_cnn",
    recipe_options='{"channels": 4, "hidden": 16}',
    global_batch=16,
    epochs=4,
    learning_rate=1e-2,
    checkpoint_every="epoch",
)


def watched(process: Process, run: Run, setting: Setting) -> Any:
    """The sums over all ranks after each step: {column: [steps, rows]} of tensors and of layers, by name."""
    strategy = build(process, run, setting)
    watcher = strategy.framework.watcher(strategy, Clock())
    assert watcher is not None
    own = Names(tensors=watcher.tensors, matrices=watcher.matrices, layers=watcher.layers)
    given = [watcher.tensors, watcher.matrices, watcher.layers]
    parts = [Names(tensors=t, matrices=m, layers=n) for t, m, n in process.group.gather_json(given)]
    names = joined(parts)
    recipe, layout = strategy.recipe, strategy.layout
    assert isinstance(recipe, Recipe)
    data, order = Memory(recipe, recipe.samples(NUM_SAMPLES)), Order(NUM_SAMPLES, GLOBAL_BATCH, seed=3)
    found = []
    for step in range(setting.steps):
        epoch, within = divmod(step, order.steps_per_epoch)
        indices = order.batch(epoch * NUM_SAMPLES + within * GLOBAL_BATCH)
        mine = share(indices, layout.data_rank, layout.data_size)
        batch = data.batch(mine if len(mine) else indices[:1]).to(process.device, strategy.precision.parameters)
        watcher.begin()
        strategy.train_step(batch, num_samples=len(mine), num_global_samples=len(indices))
        sums = [np.zeros((len(names.tensors), len(TENSOR_COLUMNS))), np.zeros((len(names.layers), len(LAYER_COLUMNS)))]
        for total, part, rows, its in zip(
            sums, watcher.end()(), (names.tensors, names.layers), (own.tensors, own.layers), strict=True
        ):
            total[[rows.index(name) for name in its]] = part
        found.append([process.sum(total) for total in sums])
    slices = any(num_slices(parameter) > 1 for parameter in strategy.parameters.values())
    tensors, layers = (np.stack([step[kind] for step in found]) for kind in (0, 1))
    return (
        dict(zip(names.tensors, tensors.swapaxes(0, 1), strict=True)),
        dict(zip(names.layers, layers.swapaxes(0, 1), strict=True)),
        slices,
    )


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    process = Process(0, 1, 0, 1, torch.device("cpu"))
    return {kind: watched(process, SINGLE, replace(SETTING, kind=kind)) for kind in ("conv", "transformer")}


@pytest.mark.parametrize("run", parameters(ALL, quick_ranks=2, quick=["ddp", "fsdp", "tp", "pp"]))
def test_sums_are_those_of_one_process(run: Run, pooled: Any, alone: dict[str, Any]) -> None:
    kind = run.models[0]
    setting = replace(SETTING, kind=kind)
    if run.strategy == "cp":
        setting = replace(setting, accumulation=1)
    expected_tensors, expected_layers, _ = (
        alone[kind] if setting.accumulation == 2 else watched(Process(0, 1, 0, 1, torch.device("cpu")), SINGLE, setting)
    )
    tensors, layers, slices = pooled(run.world_size, watched, run, setting)[0]
    assert tensors.keys() == expected_tensors.keys()
    assert slices == any(name in run.strategy for name in ("fsdp", "hsdp", "tp"))
    gradients = {name: sums[:, TENSOR_COLUMNS.index("grad_sq")].max() for name, sums in expected_tensors.items()}
    for name, sums in tensors.items():
        if gradients[name] < 1e-12:  # 0 by the mathematics of it (a key's bias): what Adam makes of its rounding
            continue
        for place, column in enumerate(TENSOR_COLUMNS):
            expected = expected_tensors[name][:, place]
            if column in ("with_grad", "changed"):  # an element whose gradient is 0 here may be 1e-12 there
                assert np.abs(sums[:, place] - expected).max() <= 0.02 * expected.max() + 2, (name, column)
                continue
            scale = (
                np.abs(expected_tensors[name][:, TENSOR_COLUMNS.index("weight_sq")]) if column == "weight_sum" else 0
            )
            # (Adam divides by the gradient: where that is next to nothing so is what its sign rests on.)
            allowed = 1e-5 if column != "update_sq" else 2e-2
            bound = (allowed * (np.abs(expected) + scale)).max()
            assert np.abs(sums[:, place] - expected).max() <= bound, (name, column)
    if "pp" in run.strategy:
        assert layers == {}
        return
    assert layers.keys() == expected_layers.keys()
    for name, sums in layers.items():
        if gradients.get(f"{name}.bias", 1.0) < 1e-12:
            continue
        expected = expected_layers[name]
        # Other counts have outputs that are cut over the ranks of a tensor dimension; and the embedding of positions,
        # which is the same for all samples, so each replica puts it out once.
        split = sums[0, 0] != expected[0, 0]
        assert not split or "tp" in run.strategy or name.endswith(".position"), (name, sums[0], expected[0])
        for place in (1, 2):
            mean, whole = sums[:, place] / sums[:, 0], expected[:, place] / expected[:, 0]
            assert np.abs(mean - whole).max() <= 1e-5 * np.abs(whole).max() + 1e-7, (name, LAYER_COLUMNS[place])


def fit(process: Process, config: Config, data: Path, target: Path) -> str:
    """Train; what the error says that ended it, if one did."""
    folders = Folders(
        train=data,
        validation=data,
        model=target / "model",
        output=target / "output",
        checkpoints=target / "checkpoints",
    )
    try:
        with patch.dict(os.environ, {EXECUTION: "one"}):  # which may train for longer
            train(config, folders, process)
    except InputError as error:
        return str(error)
    return ""


def fit_slowly(process: Process, config: Config, data: Path, target: Path) -> str:
    """Time passes in forward passes alone, 50 ms in each and on rank 1 30 % more, whatever else this host does."""
    forward, passed = nn.Sequential.forward, [0.0]

    def slowed(self: nn.Sequential, inputs: Any) -> Any:
        passed[0] += 0.065 if process.rank == 1 else 0.05
        return forward(self, inputs)

    with (
        mock.patch.object(nn.Sequential, "forward", slowed),
        mock.patch.object(monitor, "Clock", lambda: Clock(lambda: passed[0])),
        mock.patch.object(Clock, "leave_out_the_queue", lambda *_, **__: None),  # which is in the host's seconds
    ):
        return fit(process, config, data, target)


def fit_as_on_a_device(process: Process, config: Config, data: Path, target: Path) -> str:
    """What is summed up is looked at a step later, as on a GPU, which has it by then."""
    begin = Health.begin

    def begun(self: Health, step: int) -> None:
        self._on_host = False
        begin(self, step)

    with mock.patch.object(Health, "begin", begun):
        return fit(process, config, data, target)


def records_of(target: Path) -> list[Any]:
    return list(read(target / "output/health/records.jsonl")[1])


def test_a_layer_that_makes_nan_is_named_and_all_ranks_stop(forked: Any, digits: Path, tmp_path: Path) -> None:
    recipe = (
        "from dataclasses import dataclass\nimport torch\nfrom torch import nn\n"
        "from drivetrain.training_scripts.recipes import digits_cnn\n"
        "class Faulty(nn.Module):\n"
        "    passes = 0\n"
        "    def forward(self, inputs):\n"
        "        self.passes += self.training\n"
        "        bad = self.training and self.passes >= 5 and torch.distributed.get_rank() == 1\n"
        "        return inputs * float('nan') if bad else inputs\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Recipe(digits_cnn.Recipe):\n"
        "    channels: int = 4\n    hidden: int = 16\n"
        "    def model(self):\n"
        "        *layers, last = super().model()\n        return nn.Sequential(*layers, Faulty(), last)\n"
    )
    (tmp_path / "faulty_health_recipe.py").write_text(recipe)
    config = replace(CONFIG, recipe="faulty_health_recipe", recipe_options="{}", log_every=3, health_cost=1e-6)
    said = forked(2, fit_with_path, config, digits, tmp_path)
    assert said[0] == said[1]
    # (The pass that settles the buckets leaves no trace in modules, so the fifth pass is step 5's.)
    assert "on rank 1 in step 5 the outputs of layer 8 are the first that are not finite" in said[0]
    flights = sorted(path.name for path in (tmp_path / "output/health/flight").iterdir())
    assert flights == ["rank-00000.bin", "rank-00000.json", "rank-00001.bin", "rank-00001.json"]


def fit_with_path(process: Process, config: Config, data: Path, target: Path) -> str:
    import sys

    sys.path.insert(0, str(target))
    return fit(process, config, data, target)


def test_a_stopping_rule_ends_all_ranks_after_one_saved_step(pooled: Any, digits: Path, tmp_path: Path) -> None:
    rules = {"learning_rate": {"action": "stop", "low": 1e9, "records": 2}}
    config = replace(CONFIG, health_rules=json.dumps(rules), health_cost=1.0)
    said = pooled(2, fit, config, digits, tmp_path)
    assert said[0] == said[1]
    step = int(said[0].partition("stopped at step ")[2].partition(",")[0])
    assert f"stopped at step {step}, which is saved, by the health rule learning_rate" in said[0]
    assert step < 15 and list(tmp_path.glob(f"checkpoints/*/step-{step:08}/manifest.json"))
    assert json.loads((tmp_path / "output/health/health.json").read_text())["healthy"] is False
    # Where it goes on without the rule it goes on from there, and is not forgotten: it is judged by the actions of now.
    for action, healthy in (("warn", True), ("fail", False)):
        again = replace(config, health_rules=json.dumps({"learning_rate": {"action": action}}))
        assert pooled(2, fit, again, digits, tmp_path) == ["", ""]
        after = json.loads((tmp_path / "output/health/health.json").read_text())
        found = [(finding["rule"], finding["action"]) for finding in after["findings"]]
        assert found == [("learning_rate", action)] and after["healthy"] is healthy


@pytest.mark.parametrize("ranks", [1, 2])
def test_device_sums_are_recorded_one_step_later(ranks: int, pooled: Any, digits: Path, tmp_path: Path) -> None:
    assert pooled(ranks, fit_as_on_a_device, replace(CONFIG, max_steps=20), digits, tmp_path) == [""] * ranks
    records = [record for record in records_of(tmp_path) if record.validation is None]
    full = [record.step for record in records if record.tensors is not None]
    assert full[0] == 1 and len(full) >= 3, full
    assert sum(record.steps for record in records) == records[-1].step


def test_records_and_verdicts_are_the_same_on_one_rank_and_on_two(pooled: Any, digits: Path, tmp_path: Path) -> None:
    config = replace(CONFIG, health_cost=1.0, checkpoint_every="100steps")
    for ranks in (1, 2):
        assert pooled(ranks, fit, config, digits, tmp_path / str(ranks)) == [""] * ranks
    one, two = (
        {record.step: record for record in records_of(tmp_path / name) if record.tensors} for name in ("1", "2")
    )
    assert len(one) == 16 and len(two) == 16
    for step, record in one.items():
        assert abs(record.loss - two[step].loss) < 1e-5 * record.loss
        assert np.array_equal(record.classes, two[step].classes)
        for column in ("grad_sq", "weight_sq"):
            mine, its = record.tensors[column], two[step].tensors[column]
            assert (np.abs(mine - its) <= 1e-4 * mine + 1e-12).all(), (step, column)
    for options in ("{}", '{"saturated_updates": {"ratio": 0.001}, "vanishing_gradients": {"ratio": 0.5}}'):
        verdicts = [
            {(finding.rule, finding.step) for record in its.values() for finding in see(rules, record)}
            for its in (one, two)
            for rules in [load_rules(options)]
        ]
        assert verdicts[0] == verdicts[1]
        assert bool(verdicts[0]) == (options != "{}")


def test_a_rank_that_is_30_percent_slower_is_named_within_20_steps(pooled: Any, digits: Path, tmp_path: Path) -> None:
    config = replace(CONFIG, epochs=6, max_steps=21)
    assert pooled(2, fit_slowly, config, digits, tmp_path) == ["", ""]
    found = json.loads((tmp_path / "output/health/health.json").read_text())
    (finding,) = [finding for finding in found["findings"] if finding["rule"] == "straggler_rank"]
    assert finding["about"] == "rank 1" and finding["step"] <= 20
    assert found["stragglers"][0]["rank"] == 1
