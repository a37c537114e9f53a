"""Our loop with everything on: journal with JSON lines and TensorBoard, gradient norms, checkpoints, heartbeats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from work import GLOBAL_BATCH, LEARNING_RATE, LOG_EVERY, SEED, WEIGHT_DECAY, Watch, Work

from drivetrain.training.loop import setup
from drivetrain.training.torch.strategy import Strategy
from drivetrain.training_scripts.train import Config, Folders, train


def run(work: Work, losses: list[torch.Tensor] | None = None) -> Watch:
    folders = Folders(
        train=work.data,
        model=work.folder / "model",
        output=work.folder / "output",
        checkpoints=work.folder / "checkpoints",
    )
    config = Config(
        recipe=work.recipe_name,
        epochs=1,
        global_batch=GLOBAL_BATCH,
        learning_rate=LEARNING_RATE,
        weight_decay=WEIGHT_DECAY,
        warmup_epochs=0,
        seed=SEED,
        log_every=LOG_EVERY,
    )
    watch = work.watch(work.steps)

    @contextmanager
    def in_memory(*_: Any) -> Iterator[Watch]:
        yield watch

    train_step = Strategy.train_step

    def recorded(self: Strategy, *arguments: Any, **named: Any) -> Any:
        taken = train_step(self, *arguments, **named)
        assert losses is not None
        losses.append(torch.as_tensor(taken.loss, dtype=torch.float64))
        return taken

    with mock.patch.object(setup, "open_loader", in_memory):
        if losses is None:
            train(config, folders, work.process)
        else:
            with mock.patch.object(Strategy, "train_step", recorded):
                train(config, folders, work.process)
    return watch
