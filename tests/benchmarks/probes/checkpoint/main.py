"""Save and load the same state by each in turn, in the same two processes.

    python main.py SCRATCH MEGABYTES ROUNDS RIVAL [RIVAL ...]

The last line of its output is a JSON object: "rounds" (a list: measure -> rival -> seconds of the slowest rank),
"bytes" (of one rank), "steps" (in a window), "processes", "device". Measures: stall, durable, lost, load; the rival
"limit" has memcpy under stall, a plain write with fsync under durable, a plain read under load.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import ranks
import torch
import torch.distributed as dist
from rivals import RIVALS, Limits, Rival
from state import Training

from drivetrain.training_scripts.process import Process

LIMIT = "limit"
_SHORTEST_WINDOW = 1.0  # seconds


class Meter:
    """Measures all ranks together."""

    def __init__(self, training: Training) -> None:
        self.training = training

    def seconds(self, work: Callable[[], object]) -> float:
        """Of the slowest rank; all begin at the same time."""
        gc.collect()
        self.training.process.barrier()
        began = self.training.now()
        work()
        return self.slowest(self.training.now() - began)

    def slowest(self, seconds: float) -> float:
        value = torch.tensor([seconds], dtype=torch.float64)
        if self.training.process.world_size > 1:
            value = value.to(self.training.process.device)
            dist.all_reduce(value, op=dist.ReduceOp.MAX)
        return float(value)


def measure(process: Process, scratch: Path, megabytes: float, rounds: int, names: list[str]) -> dict[str, Any]:
    training = Training(process, megabytes)
    meter = Meter(training)
    rivals: dict[str, Rival] = {}
    for name in names:
        rivals[name] = RIVALS[name](training, _folder(process, scratch, name))
    limits = Limits(training, _folder(process, scratch, LIMIT))
    for rival in rivals.values():  # buffers, plans, the first pages
        rival.save()
        rival.finish()
    meter.seconds(limits.save)
    write = meter.seconds(limits.write)
    step = meter.slowest(min(training.steps(1) for _ in range(3)))
    steps = max(2, round(max(_SHORTEST_WINDOW, 3 * write) / step))
    found = [one_round(turn, training, meter, rivals, limits, steps) for turn in range(rounds)]
    for rival in rivals.values():
        rival.close()
    return {"rounds": found, "bytes": limits.bytes, "steps": steps}


def one_round(
    turn: int, training: Training, meter: Meter, rivals: dict[str, Rival], limits: Limits, steps: int
) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {"stall": {}, "durable": {}, "lost": {}, "load": {}}
    names = list(rivals)
    for name in names[turn % len(names) :] + names[: turn % len(names)]:
        rival = rivals[name]
        found["stall"][name], found["durable"][name] = save(training, meter, rival)
        tidy(training, rival)
        found["lost"][name] = lost(training, meter, rival, steps)
        tidy(training, rival)
        found["load"][name] = meter.seconds(rival.load)
    found["stall"][LIMIT] = meter.seconds(limits.save)
    found["durable"][LIMIT] = meter.seconds(limits.write)
    tidy(training, limits)
    found["load"][LIMIT] = meter.seconds(limits.load)
    return found


def save(training: Training, meter: Meter, rival: Rival) -> tuple[float, float]:
    """Until training may go on, and until all is durable."""
    gc.collect()
    training.process.barrier()
    began = training.now()
    rival.save()
    stall = training.now() - began
    rival.finish()
    return meter.slowest(stall), meter.slowest(training.now() - began)


def lost(training: Training, meter: Meter, rival: Rival, steps: int) -> float:
    """What a save and the same number of steps take longer than these steps alone, before and after."""
    before = meter.seconds(lambda: training.steps(steps))

    def with_save() -> None:
        rival.save()
        training.steps(steps)

    taken = meter.seconds(with_save)
    rival.finish()
    after = meter.seconds(lambda: training.steps(steps))
    return taken - (before + after) / 2


def tidy(training: Training, rival: Rival) -> None:
    """Leave the newest checkpoint alone, and none of it in memory: a restart finds nothing there."""
    training.process.barrier()
    if training.process.is_main:
        rival.tidy()
        forget(rival.folder)
    training.process.barrier()


def forget(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def _folder(process: Process, scratch: Path, name: str) -> Path:
    folder = scratch / name.replace(" ", "-")
    folder.mkdir(exist_ok=True)
    process.barrier()
    return folder


def rank(number: int, processes: int, answers: Any, arguments: list[str]) -> NoReturn:
    scratch, megabytes, rounds, *names = arguments
    process = ranks.join(number, processes, Path(scratch))
    ranks.leave(process, answers, measure(process, Path(scratch), float(megabytes), int(rounds), names))


def main(arguments: list[str]) -> None:
    torch.set_num_threads(1)
    # Where there are GPUs a process that has asked for them must not fork.
    print(json.dumps(ranks.answer(rank, arguments, "spawn" if torch.cuda.is_available() else "fork")))


if __name__ == "__main__":
    main(sys.argv[1:])
