"""One process is enough for every strategy, on the CPU and, where there is one, on a GPU (with nccl)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from drivetrain.training.process import Process
from tests.distributed.strategy_runs import FIRST, Run
from tests.distributed.strategy_training import Setting, Trained, difference, fit, fit_each, worst

ALONE = Run("single", 1)
SETTING = Setting(clip_norm=0.3, ema_decay=0.8, steps=6)


def alone(run: Run) -> Run:
    """The same strategy with every degree 1."""
    return Run(run.strategy, 1, {name: 1 if isinstance(value, int) else value for name, value in run.options.items()})


def has_gpu(_: Process) -> bool:
    return torch.cuda.is_available()  # asked in a fork: the asking process could fork no more


def on_gpu(process: Process, run: Run, settings: list[Setting]) -> list[Trained]:
    torch.cuda.set_device(0)
    torch.backends.cudnn.deterministic = True
    return fit_each(replace(process, device=torch.device("cuda", 0)), run, settings)


@pytest.fixture
def gpu(forked: Any) -> None:
    if not forked(1, has_gpu)[0]:
        pytest.skip("there is no GPU")


@pytest.mark.slow_cases("fsdp_tp", "tp_pp_fsdp", "hsdp", "pp_ddp", "fsdp", "pp")
@pytest.mark.parametrize("run", FIRST, ids=lambda run: run.strategy)
def test_on_the_cpu(run: Run, pooled: Any) -> None:
    setting = replace(SETTING, kind=run.models[-1], accumulation=2)
    (expected,) = pooled(1, fit, ALONE, setting)
    (trained,) = pooled(1, fit, alone(run), setting)
    assert difference(trained, expected) < 1e-10, worst(trained, expected)


@pytest.mark.parametrize("run", [ALONE, *FIRST], ids=lambda run: run.strategy)
def test_on_a_gpu(run: Run, gpu: None, forked: Any) -> None:
    """In float64 as on the CPU; bf16 learns nearly the same."""
    exact = replace(SETTING, kind=run.models[-1], optimizer="momentum")
    settings = [exact] if "bf16" in run.refuses else [exact, replace(exact, precision="bf16", ema_decay=0.0)]
    (expected,) = forked(1, fit, ALONE, exact)
    trained, *half = forked(1, on_gpu, alone(run), settings, timeout=300)[0]
    assert difference(trained, expected) < 1e-10, worst(trained, expected)
    for each in half:
        assert np.mean(each.losses) == pytest.approx(np.mean(expected.losses), rel=0.02)


@pytest.mark.slow
def test_compiled_on_a_gpu(gpu: None, forked: Any) -> None:
    settings = [replace(SETTING, kind="transformer", steps=3, common=common) for common in ({}, {"compile": True})]
    plain, compiled = forked(1, on_gpu, Run("ddp", 1), settings, timeout=600)[0]
    assert difference(plain, compiled) < 1e-10, worst(plain, compiled)
