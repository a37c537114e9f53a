"""Accuracy, AUROC and precision-recall curve of the same predictions by every tool in turn, in the same processes.

    python main.py SCRATCH SAMPLES ROUNDS TOOL [TOOL ...]

The last line of its output is a JSON object: "tools" (tool -> "wall" and "cpu" seconds of each round, of the slowest
rank; "accuracy", "auroc", "bound", "collectives", "held" in bytes on a rank), "exact" (the AUROC, of all pairs),
"processes", "device".
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import ranks
import torch
import torch.distributed as dist
from predictions import Predictions, exact_area

TOOLS = {
    "drivetrain": ("with_drivetrain", {}),
    "drivetrain exact": ("with_drivetrain", {"exact": True}),
    "torchmetrics exact": ("with_torchmetrics", {"thresholds": None}),
    "torchmetrics binned": ("with_torchmetrics", {"thresholds": 100}),
    "torcheval": ("with_torcheval", {}),
    "by hand": ("by_hand", {}),
}
# What travels: others of torch.distributed are made of these.
COLLECTIVES = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "recv",
    "reduce",
    "scatter",
    "send",
)


def rank(number: int, processes: int, answers: Any, arguments: list[str]) -> NoReturn:
    scratch, samples, rounds, *names = arguments
    process = ranks.join(number, processes, Path(scratch))
    predictions = Predictions.of(process, int(samples))
    tools = {name: _tool(name, process, predictions) for name in names}
    found: dict[str, Any] = {name: {"wall": [], "cpu": []} for name in names}
    for name, tool in tools.items():  # which also warms up
        with _Counted() as counted:
            found[name] |= tool()
        found[name]["collectives"] = counted.calls
    for _ in range(int(rounds)):
        for name, tool in tools.items():
            gc.collect()
            dist.barrier()
            begun = time.perf_counter(), time.process_time()
            tool()
            wall, cpu = time.perf_counter() - begun[0], time.process_time() - begun[1]
            taken = torch.tensor([wall, cpu], dtype=torch.float64)
            dist.all_reduce(taken, op=dist.ReduceOp.MAX)
            for clock, seconds in zip(("wall", "cpu"), taken.tolist(), strict=True):
                found[name][clock].append(seconds)
    exact = exact_area(int(samples)) if process.is_main else None
    ranks.leave(process, answers, {"tools": found, "exact": exact})


def _tool(name: str, process: Any, predictions: Predictions) -> Any:
    module, options = TOOLS[name]
    return lambda: importlib.import_module(module).run(process, predictions, **options)


class _Counted:
    """Counts the calls of collectives."""

    def __enter__(self) -> _Counted:
        self.calls = 0
        self._kept = [
            (room, name, getattr(room, name)) for room in (dist, dist.distributed_c10d) for name in COLLECTIVES
        ]
        for room, name, function in self._kept:
            setattr(room, name, self._counting(function))
        return self

    def __exit__(self, *_: object) -> None:
        for room, name, function in self._kept:
            setattr(room, name, function)

    def _counting(self, function: Any) -> Any:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            return function(*arguments, **options)

        return counted


def main(arguments: list[str]) -> None:
    torch.set_num_threads(1)
    for name in arguments[3:]:  # before the fork: once instead of once a rank
        importlib.import_module(TOOLS[name][0])
    print(json.dumps(ranks.answer(rank, arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])
