"""Run every loop in turn in the same processes, and say what the steps of each cost.

    python main.py DATA RECIPE SCRATCH ROUNDS LOOP [LOOP ...]

The last line of its output is a JSON object: "segments" (a round each: loop -> seconds of each segment of steps),
"equal" (whether the losses of our loop were those of the loop by hand, bit for bit), "processes", "device".
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import threading
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import own_time  # first: it changes the clocks that the others read
import ranks
import torch
from work import SKIPPED, Turns, Work

LOOPS = {
    "by hand": "by_hand",
    "by hand in batch mode": "by_hand",
    "drivetrain": "with_drivetrain",
    "fabric": "with_fabric",
    "lightning": "with_lightning",
    "accelerate": "with_accelerate",
}


def rank(number: int, processes: int, answers: Any, arguments: list[str]) -> NoReturn:
    data, recipe, scratch, rounds, *loops = arguments
    # As torchrun leaves them: the peers read where they are from here. They find the group made.
    os.environ |= {"LOCAL_RANK": str(number), "LOCAL_WORLD_SIZE": str(processes), "GROUP_RANK": "0"}
    os.environ |= {"TORCHELASTIC_RUN_ID": "benchmark", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    process = ranks.join(number, processes, Path(scratch))
    if number:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    work = Work(process, recipe, Path(data), Path(scratch))
    found = {"equal": equal(work), "segments": [in_turn(work, loops, turn) for turn in range(int(rounds))]}
    ranks.leave(process, answers, found)


def in_turn(work: Work, loops: list[str], turn: int) -> dict[str, list[float]]:
    """The seconds of each segment of each loop, over all ranks, the warm-up left out."""
    turns = Turns(loops, turn)
    taken: dict[str, list[float]] = {}

    def one(name: str) -> None:
        with own_time.standing_still():
            turns.wait(name)
        own = replace(work, name=name, turns=turns, folder=work.folder / f"{turn}-{name}")
        try:
            taken[name] = importlib.import_module(LOOPS[name]).run(own).segments[SKIPPED:]
        except BaseException:
            traceback.print_exc()
            os._exit(1)  # the other loops would wait for their turns for ever
        turns.leave()

    gc.collect()
    threads = [threading.Thread(target=one, args=[name]) for name in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = torch.tensor([taken[name] for name in loops], dtype=torch.float64)
    return dict(zip(loops, work.process.sum(table).tolist(), strict=True))


def equal(work: Work) -> bool:
    """Whether every loss of every rank is the same number in our loop and in the one by hand."""
    kept: dict[str, list[torch.Tensor]] = {"by_hand": [], "with_drivetrain": []}
    for module, losses in kept.items():
        importlib.import_module(module).run(replace(work, folder=work.folder / f"equal-{module}"), losses)
    ours, theirs = (torch.stack([loss.double() for loss in losses]) for losses in kept.values())
    same = torch.tensor(float(torch.equal(ours, theirs)))
    return bool(work.process.sum(same) == work.process.world_size)


def main(arguments: list[str]) -> None:
    torch.set_num_threads(1)
    for name in arguments[4:]:  # before the fork: once instead of once a rank
        importlib.import_module(LOOPS[name])
    importlib.import_module("with_drivetrain")
    print(json.dumps(ranks.answer(rank, arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])
