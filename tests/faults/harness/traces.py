"""What each step of a training worked on, and in which state it found everything that is trained.

trace-<attempt>-<rank>.jsonl    a line a step: [step, keys of this rank's samples, {tensor: checksum} before the step]
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

from drivetrain.training.loop import agreement
from drivetrain.training.torch.checkpoints import state
from drivetrain.training.torch.generators import StepSeeds
from drivetrain.training.torch.parallel.flat_slice import in_boxes
from drivetrain.training.torch.parallel.sharded import local
from drivetrain.training.torch.strategy import Strategy

# Steps take a millisecond here: a training would be over before its ranks ask each other for the first time.
SECONDS_BETWEEN_LOOKS = 0.01


def listen_often() -> None:
    """Let the ranks hear a signal within a few steps."""
    agreement.SECONDS = SECONDS_BETWEEN_LOOKS


def trace_steps(path: Path) -> None:
    """Write down each step's samples and the state in which it finds everything that is trained."""
    trace = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    start, take = StepSeeds.start, Strategy.train_step
    at = 0

    def start_traced(self: StepSeeds, step: int) -> None:
        nonlocal at
        at = step
        start(self, step)

    def take_traced(self: Strategy, batch: Any, *, num_samples: int, **more: Any) -> Any:
        if self.buffers:
            self.buffers.agree()  # as the step itself does first of all
        keys = batch.targets[:num_samples].tolist()
        os.write(trace, json.dumps([at, keys, state_of(self)]).encode() + b"\n")
        return take(self, batch, num_samples=num_samples, **more)

    StepSeeds.start = start_traced
    Strategy.train_step = take_traced


def state_of(strategy: Strategy) -> dict[str, int]:
    """A checksum of this rank's part of every tensor that is trained, by name."""
    found = in_boxes(state.tensors_of(strategy))
    return {name: zlib.crc32(local(value).detach().contiguous().numpy().data) for name, value in sorted(found.items())}
