"""Save and load the same state by each in turn, in the same two processes.

    python main.py SCRATCH MEGABYTES ROUNDS RIVAL [RIVAL ...]

The last line of its output is a JSON object: "rounds" (a list: measure -> rival -> seconds of the slowest rank),
"bytes" (of one rank), "steps" (in a window), "processes", "device". Measures: stall, durable, lost, load; the rival
"limit" has memcpy under stall and a plain write with fsync under durable. Each load is one of new processes.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import ranks
import torch
import torch.distributed as dist
from rivals import RIVALS, Limits, Rival, Saver
from state import Training

from drivetrain.training.process import Process

LIMIT = "limit"
_SHORTEST_WINDOW = 1.0  # seconds; one round only shows that all works


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
    shortest = _SHORTEST_WINDOW if rounds > 1 else 0.0
    steps = max(2, round(max(shortest, 3 * write) / step))
    found = [one_round(turn, training, meter, rivals, limits, steps) for turn in range(rounds)]
    for rival in rivals.values():
        rival.close()
    return {"rounds": found, "bytes": limits.bytes, "steps": steps}


def one_round(
    turn: int, training: Training, meter: Meter, rivals: dict[str, Rival], limits: Limits, steps: int
) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {"stall": {}, "durable": {}, "lost": {}}
    names = list(rivals)
    for name in names[turn % len(names) :] + names[: turn % len(names)]:
        rival = rivals[name]
        found["stall"][name], found["durable"][name] = save(training, meter, rival)
        tidy(training, rival)
        found["lost"][name] = lost(training, meter, rival, steps)
        tidy(training, rival)
    found["stall"][LIMIT] = meter.seconds(limits.save)
    found["durable"][LIMIT] = meter.seconds(limits.write)
    tidy(training, limits)
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


def tidy(training: Training, saver: Saver) -> None:
    """Leave the newest checkpoint alone."""
    training.process.barrier()
    if training.process.is_main:
        saver.tidy()
    training.process.barrier()


def forget(folder: Path) -> None:
    """Leave nothing of its files in memory: a restart finds nothing there."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def _folder(process: Process, scratch: Path, name: str) -> Path:
    folder = _named(scratch, name)
    folder.mkdir(exist_ok=True)
    process.barrier()
    return folder


def _named(scratch: Path, name: str) -> Path:
    return scratch / name.replace(" ", "-")


def saver(number: int, processes: int, answers: Any, arguments: list[str]) -> NoReturn:
    scratch, megabytes, rounds, *names = arguments
    process = ranks.join(number, processes, Path(scratch))
    ranks.leave(process, answers, measure(process, Path(scratch), float(megabytes), int(rounds), names))


def loader(number: int, processes: int, answers: Any, arguments: list[str]) -> NoReturn:
    """As in a restart: a new process, whose memory has not been used before, and a training that has taken no step."""
    scratch, megabytes, name = arguments
    process = ranks.join(number, processes, Path(scratch))
    training = Training(process, float(megabytes), begun=False)
    rival = RIVALS[name](training, _folder(process, Path(scratch), name))
    rival.find()
    ranks.leave(process, answers, {"seconds": Meter(training).seconds(rival.load)})


def main(arguments: list[str]) -> None:
    torch.set_num_threads(1)
    for name in ("torch._dynamo", "drivetrain.training_scripts.strategies.fsdp"):  # once instead of once a rank
        importlib.import_module(name)
    # Where there are GPUs a process that has asked for them must not fork.
    method = "spawn" if torch.cuda.is_available() else "fork"
    scratch, megabytes, _, *names = arguments
    found = ranks.answer(saver, arguments, method)
    for turn, one in enumerate(found["rounds"]):
        one["load"] = {}
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            (Path(scratch) / ranks.STORE).unlink()
            forget(_named(Path(scratch), name))
            one["load"][name] = ranks.answer(loader, [scratch, megabytes, name], method)["seconds"]
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
