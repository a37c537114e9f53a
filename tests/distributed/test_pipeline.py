"""Stages: every schedule, cuts by hand and by cost, micro-batches that do not come out even, and what cannot be."""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from drivetrain.base.errors import InputError
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch
from drivetrain.training.strategy import load_strategy
from drivetrain.training_scripts.recipes import decoder_lm
from tests.distributed.strategy_models import Recipe
from tests.distributed.strategy_runs import Run
from tests.distributed.strategy_training import Setting, build, difference, fit, fit_in_halves, identical, worst
from tests.fixtures.told import told

ALONE = Run("single", 1)
# Batches of 16, 16, 16 and 1, in three pieces.
SETTING = Setting(kind="conv", clip_norm=0.5, ema_decay=0.8, accumulation=3, steps=8)


def refused(process: Process, run: Run, setting: Setting) -> str:
    try:
        build(process, run, setting)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.slow_cases("2-options5", "2-options3", "2-options1")
@pytest.mark.parametrize(
    ("world_size", "options"),
    [
        (2, {"schedule": "gpipe"}),
        (2, {"micro_batches": 3, "split": ["6"]}),
        (1, {}),
        (2, {"schedule": "interleaved"}),
        pytest.param(2, {"schedule": "zero_bubble"}, marks=pytest.mark.slow),
        (2, {"schedule": "zero_bubble", "virtual": 1}),
        pytest.param(1, {"schedule": "interleaved"}, marks=pytest.mark.slow),
        (1, {"schedule": "zero_bubble"}),
        pytest.param(3, {"schedule": "zero_bubble", "virtual": 1}, marks=pytest.mark.slow),
        pytest.param(4, {"schedule": "1f1b"}, marks=pytest.mark.slow),
    ],
)
def test_every_schedule_equals_one_process(world_size: int, options: dict[str, Any], pooled: Any) -> None:
    (expected,) = pooled(1, fit, ALONE, SETTING)
    first = pooled(world_size, fit, Run("pp", world_size, options), SETTING)[0]
    assert difference(first, expected) < 1e-10


@pytest.mark.slow
def test_a_language_model_is_cut_by_balanced_cost(pooled: Any) -> None:
    """Blocks cost alike; the embedding and the head are small."""
    assert pooled(2, layers_held, {"stage": 2}) == [
        ["embedding", "block0", "block1"],
        ["block2", "block3", "norm", "head"],
    ]
    assert pooled(2, layers_held, {"schedule": "interleaved"}) == [
        ["embedding", "block0", "block2"],
        ["block1", "block3", "norm", "head"],
    ]


def layers_held(process: Process, options: dict[str, Any]) -> list[str]:
    recipe = decoder_lm.Recipe(layers=4, width=16, heads=2, length=8, vocabulary=32)
    kind, built = load_strategy("pp", options)
    strategy = kind(recipe, recipe.model(), process, told(learning_rate=1e-3), built)
    return [name for name, _ in strategy.model.named_children()]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"schedule": "1f1p"}, "schedule='1f1p'; allowed are gpipe, 1f1b, interleaved, zero_bubble"),
        ({"micro_batches": 1}, "micro_batches=1 for 2 stages; some would always wait"),
        ({"micro_batches": 3, "schedule": "interleaved"}, "allowed are multiples of 2"),
        ({"virtual": 2}, "only 'interleaved' and 'zero_bubble' cut more"),
        ({"virtual": -1}, "virtual=-1"),
        ({"stage": 3}, "stage 3 needs 3 processes, but there are 2 processes"),
        ({"schedule": "zero_bubble", "virtual": 3}, "6 stages, but only 4 of the model's 9 layers have parameters"),
    ],
)
def test_models_unfit_for_pipelines_are_refused(options: dict[str, Any], words: str, pooled: Any) -> None:
    assert all(words in message for message in pooled(2, refused, Run("pp", 2, options), Setting(kind="conv")))


def evaluated(process: Process, run: Run) -> list[float]:
    """How far outputs are from those of the whole model, where the pipeline has them."""
    strategy = build(process, run, Setting(kind="transformer"))
    samples = Recipe(kind="transformer").samples(13)
    torch.manual_seed(0)
    whole = Recipe(kind="transformer").model().double().eval()(samples.inputs)
    strategy.model.eval()
    differences: list[float] = []
    for number in (13, 1, 5, 13):
        outputs = strategy.forward(samples.inputs[:number])
        if outputs is not None:
            assert outputs.shape == whole[:number].shape and not outputs.requires_grad
            differences.append(float((outputs - whole[:number]).abs().max()))
    return differences


@pytest.mark.parametrize("options", [{}, {"schedule": "zero_bubble"}])
def test_evaluation_equals_one_process(options: dict[str, Any], pooled: Any) -> None:
    first, last = pooled(2, evaluated, Run("pp", 2, options))
    assert first == [] and len(last) == 4 and max(last) < 1e-12


def fails_on_the_last_stage(process: Process) -> str:
    """The first stage waits for gradients that never come."""
    strategy = build(process, Run("pp", 2), Setting(kind="conv"))
    samples = Recipe(kind="conv").samples(8)
    if process.rank == 1:
        strategy.model[-1].register_forward_hook(lambda *_: 1 / 0)
    try:
        strategy.train_step(samples, num_samples=8, num_global_samples=8)
    except (RuntimeError, ZeroDivisionError) as error:
        if process.rank == 1:
            os._exit(1)
        return str(error)
    return "it went on"


def test_a_failure_on_one_stage_ends_the_others(forked: Any) -> None:
    answer, died = forked(2, fails_on_the_last_stage, may_die={1})
    assert died is None
    assert "gloo" in answer


def waits_for_a_hung_stage(process: Process, folder: Path) -> tuple[str, float]:
    """The last stage of both pipelines hangs in its first layer until the first one has given up."""
    strategy = build(process, Run("pp_ddp", 4), Setting(kind="conv"))
    samples = Recipe(kind="conv").samples(8)
    told = folder / f"told-{process.rank % 2}"
    if process.rank >= 2:
        strategy.model[0].register_forward_hook(lambda *_: os._exit(int(told.read_text() != "given up")))
    started = time.monotonic()
    try:
        strategy.train_step(samples, num_samples=8, num_global_samples=16)
    except RuntimeError as error:
        waited = time.monotonic() - started
        told.write_text("given up")
        return str(error), waited
    return "it went on", 0.0


@pytest.mark.slow
def test_a_hung_stage_ends_the_others_by_the_time_out(forked: Any, tmp_path: Path) -> None:
    """The time-out is that of the group of all ranks, though the stages of a pipeline talk in a group of their own."""
    for name in ("told-0", "told-1"):
        os.mkfifo(tmp_path / name)  # who reads it waits until it is written
    *answers, third, fourth = forked(4, waits_for_a_hung_stage, tmp_path, collective_timeout=8, may_die={2, 3})
    assert third is None and fourth is None
    for message, waited in answers:
        assert "imed out" in message
        assert 7 < waited < 30


def time_outs(process: Process) -> set[float]:
    strategy = build(process, Run("tp_pp_fsdp", 4, {"shard": 1}), Setting(kind="transformer"))
    groups = [*strategy.layout.mesh.get_all_groups(), strategy.layout.stage_group()]  # type: ignore[union-attr]
    return {g._get_backend(process.device).options._timeout.total_seconds() for g in groups}  # type: ignore[union-attr]


def test_every_group_of_ranks_has_the_time_out_of_all(forked: Any) -> None:
    assert forked(4, time_outs, collective_timeout=77) == [{77.0}] * 4


def dropped(process: Process) -> list[bool]:
    """Which features the dropout of this rank's stage left out."""
    layers = [nn.Linear(64, 64), nn.Dropout(0.5), nn.Linear(64, 64), nn.Dropout(0.5)]
    kind, options = load_strategy("pp", {"split": ["2"], "micro_batches": 2})
    strategy = kind(Recipe(kind="conv"), nn.Sequential(*layers), process, told(global_batch=2), options)
    masks: list[bool] = []
    layer = strategy.model[1]
    layer.register_forward_hook(lambda _module, _inputs, outputs: masks.extend((outputs == 0).flatten().tolist()))
    torch.manual_seed(5)
    samples = Batch(torch.randn(2, 64), torch.zeros(2, dtype=torch.int64))
    strategy.train_step(samples, num_samples=2, num_global_samples=2)
    return masks


def test_stages_that_are_seeded_alike_drop_other_features(pooled: Any) -> None:
    first, second = pooled(2, dropped)
    assert len(first) == len(second) == 128
    assert 30 < sum(first) < 98 and 30 < sum(second) < 98
    assert 30 < sum(a != b for a, b in zip(first, second, strict=True)) < 98


class Drawing(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * (1.0 + random.random() * torch.rand(()))


def draws(process: Process) -> tuple[float, float]:
    """What the next layer would draw, after the shapes of what travels were found out, which it must not see."""
    kind, options = load_strategy("pp", {"split": ["2"], "micro_batches": 2})
    layers = [nn.Linear(4, 4), Drawing(), nn.Linear(4, 5), Drawing()]
    strategy = kind(Recipe(kind="conv"), nn.Sequential(*layers), process, told(global_batch=4), options)
    random.seed(1)
    torch.manual_seed(1)
    strategy.pipeline._schedule(torch.zeros(4, 4), training=True)
    return random.random(), float(torch.rand(()))


def test_finding_message_shapes_draws_no_random_numbers(pooled: Any) -> None:
    """A training that goes on looks in another step than the one that was interrupted."""
    generator = random.Random(1)
    torch.manual_seed(1)
    assert pooled(2, draws) == [(generator.random(), float(torch.rand(())))] * 2


def test_a_restart_before_a_smaller_batch_is_equal_to_the_bit(pooled: Any) -> None:
    """Into micro-batches of how many samples a batch is cut must not depend on which batches came before."""
    run, setting = Run("pp", 2), Setting(kind="transformer", precision="fp32", steps=3, common={"global_batch": 16})
    half, whole = pooled(2, fit_in_halves, run, setting)[0]
    resumed = pooled(2, fit, run, replace(setting, first=3, start=half, seed=99))[0]
    assert identical(resumed, whole), worst(resumed, whole)
