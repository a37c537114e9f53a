"""Layers that are frozen, or freed, in the middle of a training: as in one process, or refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from drivetrain.base.errors import InputError
from drivetrain.training.process import Process
from drivetrain.training.torch.freezing import SettledFlags
from tests.distributed import strategy_models
from tests.distributed.own_ranks import run_forked
from tests.distributed.strategy_runs import Run
from tests.distributed.strategy_training import Setting, Trained, difference, fit, worst

ALONE, FSDP = Run("single", 1), Run("fsdp", 2)
FIND_UNUSED = {"find_unused_parameters": True}


class Changing(nn.Linear):
    """Frozen or freed in its own fourth forward pass of training, where a sharded layer shows its whole parameters."""

    passes = 0
    into: bool | None = None

    def forward(self, input: Tensor) -> Tensor:
        self.passes += self.training
        if self.passes == 4 and self.into is not None:
            self.requires_grad_(self.into)
        return super().forward(input)


class Net(nn.Module):
    """`what` is frozen, or freed, from the fourth step on: inside (a layer by itself), layer (by the model before it
    computes), after (by the model when it has computed), own (a parameter of the model's own)."""

    def __init__(self, what: str, to: bool) -> None:
        super().__init__()
        self.what, self.into, self.passes = what, to, 0
        self.first, self.last = Changing(36, 8), nn.Linear(8, strategy_models.CLASSES)
        self.scale = nn.Parameter(torch.ones(8))
        if what == "inside":
            self.first.into = to
        self.change(what, not to)

    def change(self, what: str, to: bool) -> None:
        (self.scale if what == "own" else self.first).requires_grad_(to)

    def forward(self, inputs: Tensor) -> Tensor:
        self.passes += self.training
        if self.passes == 4 and self.what in ("layer", "own"):
            self.change(self.what, self.into)
        hidden = self.first(inputs.flatten(1)) * self.scale
        if self.passes == 4 and self.what == "after":
            self.change(self.what, self.into)
        return self.last(hidden.relu())


CASES = [(what, to) for what in ("inside", "layer", "after", "own") for to in (False, True)]
for _what, _to in CASES:
    strategy_models.MODELS[f"{_what} {_to}"] = partial(Net, _what, _to)


def setting(what: str, to: bool) -> Setting:
    return Setting(kind=f"{what} {to}", optimizer="momentum", learning_rate=0.05)


def fit_each(process: Process, run: Run, settings: list[Setting]) -> list[Trained]:
    """(In this module, so that ranks that have it know its models.)"""
    return [fit(process, run, each) for each in settings]


@pytest.mark.slow_cases("fsdp-stays-whole", "hsdp", "ddp")
@pytest.mark.parametrize(
    ("run", "cases"),
    [
        (FSDP, [("inside", False), ("after", False), ("own", False), ("own", True)]),
        (Run("fsdp", 2, {"reshard_after_forward": False}), CASES),
        (Run("hsdp", 4, {"replicate": 2, "shard": 2}), CASES),
        (Run("ddp", 2, FIND_UNUSED), [case for case in CASES if not case[1]]),
    ],
    ids=["fsdp", "fsdp-stays-whole", "hsdp", "ddp"],
)
def test_freezing_equals_one_process(run: Run, cases: list[tuple[str, bool]], pooled: Any) -> None:
    settings = [setting(*case) for case in cases]
    expected = pooled(1, fit_each, ALONE, settings)[0]
    for trained, exact in zip(pooled(run.world_size, fit_each, run, settings)[0], expected, strict=True):
        assert difference(trained, exact) < 1e-10, worst(trained, exact)
    always = pooled(1, fit_each, ALONE, [replace(each, steps=3) for each in settings])[0]
    for stopped, exact in zip(always, expected, strict=True):  # something is trained before, and something later
        assert difference(stopped, exact) > 1e-3


def refused(tmp_path: Path, run: Run, what: str, to: bool) -> str:
    with pytest.raises(AssertionError) as caught:
        run_forked(tmp_path, 2, fit_each, run, [replace(setting(what, to), precision="fp32")])
    (line,) = {line for line in str(caught.value).splitlines() if "InputError: " in line}
    return line.partition("InputError: ")[2]


def test_ddp_names_the_layers_that_were_frozen(tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as caught:
        run_forked(tmp_path, 2, fit_each, Run("ddp", 2), [setting("layer", False)])
    assert "got no gradient (first.weight, first.bias). Where some steps leave layers out or" in str(caught.value)


def test_ddp_refuses_a_layer_that_is_freed(tmp_path: Path) -> None:
    said = refused(tmp_path, Run("ddp", 2), "layer", True)
    assert said.startswith("parameter 'first.weight' was frozen when the training started, and has a gradient now")


@pytest.mark.slow
def test_deepspeed_refuses_freezing_and_unfreezing(tmp_path: Path) -> None:
    pytest.importorskip("deepspeed")
    said = refused(tmp_path, Run("deepspeed", 2), "layer", False)
    assert said.startswith("parameter 'first.weight' was frozen after the training had started: under strategy")


@pytest.mark.parametrize(("to", "done"), [(True, "freed"), (False, "frozen")])
def test_a_change_of_trained_parameters_is_noticed(to: bool, done: str) -> None:
    layer = nn.Linear(2, 2).requires_grad_(not to)
    flags = SettledFlags(dict(layer.named_parameters()), "deepspeed")
    flags.check()
    layer.bias.requires_grad_(to)
    with pytest.raises(InputError, match=f"parameter 'bias' was {done} after the training had started"):
        flags.check()
