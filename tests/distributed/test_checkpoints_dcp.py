"""torch's own dcp.save and dcp.load over several ranks, with the store as their storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp

from drivetrain.training.checkpointing.checkpointer import Checkpointer
from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.process import Process
from drivetrain.training.torch import gathering as state
from drivetrain.training.torch.checkpoints.dcp_storage import StoreReader, StoreWriter
from tests.distributed.strategy_runs import Run
from tests.distributed.strategy_training import Arrays, Setting, build, go_on

SETTING = Setting(kind="transformer", steps=1)


def model_of(strategy: Any) -> Arrays:
    return {name: tensor.numpy() for name, tensor in state.gather_model(strategy).items()}


def save(process: Process, run: Run, folder: Path) -> Arrays:
    strategy = build(process, run, SETTING)
    go_on(strategy, SETTING)
    dcp.save(
        {"model": strategy.model.state_dict(), "epoch": 3}, storage_writer=StoreWriter(FolderPlace(folder), step=7)
    )
    return model_of(strategy)


def load(process: Process, run: Run, folder: Path) -> Arrays:
    strategy = build(process, run, SETTING)
    found: dict[str, Any] = {"model": strategy.model.state_dict(), "epoch": 0}
    dcp.load(found, storage_reader=StoreReader(FolderPlace(folder)))
    assert found["epoch"] == 3
    return model_of(strategy)


def assert_equal(one: Arrays, other: Arrays) -> None:
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.slow
def test_slices_are_put_together_and_cut_again(pooled: Any, tmp_path: Path) -> None:
    saved = pooled(2, save, Run("fsdp", 2), tmp_path)[0]
    files = [path.name for path in sorted((tmp_path / "step-00000007").glob("rank-*"))]
    assert files == ["rank-00000-of-00002.safetensors", "rank-00001-of-00002.safetensors"]
    assert_equal(pooled(2, load, Run("tp", 2, {"tensor": 2}), tmp_path)[0], saved)
    assert_equal(pooled(3, load, Run("fsdp", 3), tmp_path)[0], saved)


def keep(process: Process, run: Run, folder: Path) -> Arrays:
    strategy = build(process, run, SETTING)
    go_on(strategy, SETTING)
    with Checkpointer(FolderPlace(folder), process) as checkpoints:
        checkpoints.save(1, {}, strategy)
    return model_of(strategy)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_torch_reads_saved_checkpoints(pooled: Any, tmp_path: Path) -> None:
    kept = pooled(2, keep, Run("fsdp", 2), tmp_path)[0]
    wanted = {f"model/{name}": torch.zeros(values.shape, dtype=torch.float64) for name, values in kept.items()}
    dcp.load(wanted, storage_reader=StoreReader(FolderPlace(tmp_path)), no_dist=True)
    assert_equal({name.removeprefix("model/"): tensor.numpy() for name, tensor in wanted.items()}, kept)
