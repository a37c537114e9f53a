"""DistributedDataParallel arranges its buckets anew after its first backward pass, and with them the order in which the
ranks' gradients are added. So every start, fresh or resumed, lets it do so before its first step; with three ranks or
more a resumed training would otherwise end with other bits."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from drivetrain.steps.trainings import EXECUTION
from drivetrain.training.process import Process
from drivetrain.training_scripts.strategies import ddp
from drivetrain.training_scripts.train import Config, Folders, train

CONFIG = Config(
    recipe="digits_cnn",
    recipe_options='{"channels": 8, "hidden": 32}',
    global_batch=24,
    max_steps=6,
    schedule="constant",
    learning_rate=1e-2,
)


def fit(process: Process, settles: bool, config: Config, data: Path, target: Path, checkpoints: Path) -> None:
    if not settles:  # in the forked ranks only
        ddp.Strategy._settle_buckets = lambda self, first: None
    with patch.dict(os.environ, {EXECUTION: "one"}):  # which may train for longer
        train(config, Folders(train=data, model=target, checkpoints=checkpoints), process)


@pytest.mark.parametrize("settles", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("world_size", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_a_restart_is_equal_to_the_bit_because_buckets_are_settled(
    world_size: int, settles: bool, pooled: Any, forked: Any, digits: Path, tmp_path: Path
) -> None:
    run = pooled if settles else forked
    run(world_size, fit, settles, CONFIG, digits, tmp_path / "whole", tmp_path / "one")
    for steps in (4, 6):  # a fresh start, and one that resumes with a full batch: every rank has something to add
        run(world_size, fit, settles, replace(CONFIG, max_steps=steps), digits, tmp_path / "cut", tmp_path / "two")
    whole, cut = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut"))
    assert (whole == cut) == settles
