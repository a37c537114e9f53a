"""DeepSpeed's optimizers where nothing is compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from drivetrain.training.launch.processes.parent import announce_parent
from drivetrain.training.torch.deepspeed_kernels import kernels

STEPS, LR, DECAY = 5, 0.01, 0.1
Update = Callable[[int, torch.Tensor, torch.Tensor, list[torch.Tensor]], None]


def _adam(decoupled: bool) -> Update:
    made: Any = kernels("cpu_adam")
    made.create_adam(0, LR, 0.9, 0.999, 1e-8, DECAY, decoupled, False)
    return lambda step, parameter, gradient, state: made.adam_update(
        0, step, LR, 0.9, 0.999, 1e-8, DECAY, True, parameter, gradient, *state
    )


def _fused(mode: int) -> Update:
    made: Any = kernels("fused_adam")
    return lambda step, parameter, gradient, state: made.multi_tensor_adam(
        2048,
        torch.zeros(1),
        [[gradient], [parameter], *([one] for one in state)],
        LR,
        0.9,
        0.999,
        1e-8,
        step,
        mode,
        1,
        DECAY,
    )


def _adagrad() -> Update:
    made: Any = kernels("cpu_adagrad")
    return lambda step, parameter, gradient, state: made.adagrad_update(
        0, step, LR, 1e-10, DECAY, parameter, gradient, state[0]
    )


@pytest.mark.parametrize(
    ("update", "torchs"),
    [
        (_adam(True), torch.optim.AdamW),
        (_adam(False), torch.optim.Adam),
        (_fused(1), torch.optim.AdamW),
        (_fused(0), torch.optim.Adam),
        (_adagrad(), torch.optim.Adagrad),
    ],
    ids=["adamw", "adam", "fused adamw", "fused adam", "adagrad"],
)
def test_a_step_is_torchs(update: Update, torchs: Callable[..., torch.optim.Optimizer]) -> None:
    generator = torch.Generator().manual_seed(0)
    parameter = torch.nn.Parameter(torch.randn(20, generator=generator))
    ours, state = parameter.detach().clone(), [torch.zeros(20), torch.zeros(20)]
    optimizer = torchs([parameter], lr=LR, weight_decay=DECAY)
    for step in range(1, STEPS + 1):
        parameter.grad = torch.randn(20, generator=generator)
        optimizer.step()
        update(step, ours, parameter.grad.clone(), state)
    torch.testing.assert_close(ours, parameter.detach())


def test_without_bias_correction_the_first_step_is_small() -> None:
    made: Any = kernels("cpu_adam")
    made.create_adam(0, LR, 0.9, 0.999, 0.0, 0.0, True, False)
    parameter, state = torch.zeros(2), [torch.zeros(2), torch.zeros(2)]
    made.adam_update(0, 1, LR, 0.9, 0.999, 0.0, 0.0, False, parameter, torch.tensor([1.0, -1.0]), *state)
    torch.testing.assert_close(parameter, torch.tensor([-LR, LR]) * 0.1 / 0.001**0.5)


def test_lion_takes_the_sign_in_any_precision() -> None:
    made: Any = kernels("cpu_lion")
    parameter, momentum = torch.ones(2, dtype=torch.bfloat16), torch.tensor([1.0, -1.0])
    made.lion_update(0, 1, 0.25, 0.9, 0.5, 1.0, parameter, torch.tensor([-1.0, 1.0], dtype=torch.bfloat16), momentum)
    assert parameter.tolist() == [0.75 - 0.25, 0.75 + 0.25]
    assert momentum.tolist() == [0, 0]


ALL = """
import sys, types
sys.modules["cpuinfo"] = types.SimpleNamespace(get_cpu_info=dict)  # takes seconds for each optimizer
from drivetrain.base.errors import InputError
from drivetrain.training.launch.deepspeed import compile_nothing
compile_nothing()
import torch
from deepspeed.ops.adagrad import DeepSpeedCPUAdagrad
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
from deepspeed.ops.aio import AsyncIOBuilder
from deepspeed.ops.lamb import FusedLamb
from deepspeed.ops.lion import DeepSpeedCPULion, FusedLion
for make in (FusedAdam, DeepSpeedCPUAdam, DeepSpeedCPUAdagrad, DeepSpeedCPULion):
    parameter = torch.nn.Parameter(torch.ones(4))
    parameter.grad = torch.ones(4)
    optimizer = make([parameter], lr=0.5)
    optimizer.step()
    assert (parameter < 0.9).all(), make
    print(make.__name__)
for refused in (FusedLamb, FusedLion, lambda parameters: AsyncIOBuilder().load()):
    try:
        refused([parameter])
    except InputError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_scripts_own_optimizers_of_deepspeed_compile_nothing(tmp_path: Path) -> None:
    variables = {"CUDA_VISIBLE_DEVICES": "", "DS_ACCELERATOR": "cpu", "CXX": str(tmp_path / "no compiler")}
    variables |= {"TORCH_EXTENSIONS_DIR": str(tmp_path / "extensions")}
    command = [sys.executable, "-c", ALL]
    ended = subprocess.run(command, env=announce_parent({**os.environ, **variables}), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    shown = [line for line in ended.stdout.splitlines() if not line.startswith("[")]
    assert shown[:4] == ["FusedAdam", "DeepSpeedCPUAdam", "DeepSpeedCPUAdagrad", "DeepSpeedCPULion"]
    lamb, lion, nvme = shown[4:]
    assert lamb == lion and "for GPUs only" in lamb
    assert "would compile pin_memory" in nvme
    assert not (tmp_path / "extensions").exists()
