"""A training says once that the agent which uploads its checkpoints has stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drivetrain.training.checkpointing.checkpointer import Checkpointer
from drivetrain.training.checkpointing.places import open_place
from drivetrain.training.checkpointing.store.sync_lag import SyncWatch
from drivetrain.training.process import Process
from tests.distributed.strategy_runs import Run
from tests.distributed.strategy_training import Setting, build

SETTING = Setting(kind="transformer", steps=1)


def save_four(process: Process, folder: Path, uploads: int) -> list[str]:
    """Save four checkpoints, of which an agent uploads the first ones; what the training said."""
    said: list[str] = []
    strategy = build(process, Run("ddp", process.world_size), SETTING)
    with Checkpointer(open_place(folder), process, say=said.append) as checkpoints:
        checkpoints._writer._agent = SyncWatch(limit_s=0.0)
        for step in range(1, 5):
            checkpoints.save(step, {"consumed": step}, strategy)
            assert checkpoints.wait()
            if process.is_main and step <= uploads:
                for path in list((folder / f"step-{step:08d}").iterdir()):
                    path.with_name(f"{path.name}.sagemaker-uploaded").touch()
            process.barrier()
    return said


def test_upload_lag_gives_one_warning(pooled: Any, tmp_path: Path) -> None:
    first, second = pooled(2, save_four, tmp_path / "kept", 1)
    (warning,) = first
    assert "files of the checkpoint of step 2 (step-00000002/" in warning and "Look at the job's permissions" in warning
    assert second == []


def test_without_an_agent_there_is_no_warning(pooled: Any, tmp_path: Path) -> None:
    assert pooled(1, save_four, tmp_path / "kept", 0) == [[]]


def test_an_agent_that_keeps_up_gives_no_warning(pooled: Any, tmp_path: Path) -> None:
    assert pooled(1, save_four, tmp_path / "kept", 4) == [[]]
