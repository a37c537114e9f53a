"""A program of collectives in which one rank does something else: started by the launcher, without our training.

python -m drivetrain.training_scripts.launch --processes=2 tests.faults.harness.collective_calls JSON
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from tests.faults.hangs_named import Plan


def main(plan: Plan) -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=plan.timeout))
    for step in range(plan.steps):
        take_step(plan, step)
    dist.barrier()
    dist.destroy_process_group()


def take_step(plan: Plan, step: int) -> None:
    for place, (operation, elements) in enumerate(plan.calls):
        if (dist.get_rank(), step, place) != (plan.victim, plan.step, plan.call):
            call(operation, elements)
            continue
        (Path(plan.folder) / "injected").write_text(str(time.time()))
        misbehave(plan, operation)


def misbehave(plan: Plan, operation: str) -> None:
    if plan.kind == "shape":
        call(operation, plan.elements)
    if plan.kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if plan.kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)


def call(operation: str, elements: int) -> None:
    tensor = torch.ones(elements)
    if operation == "all_reduce":
        dist.all_reduce(tensor)
    elif operation == "broadcast":
        dist.broadcast(tensor, 0)
    elif operation == "all_gather":
        dist.all_gather([torch.zeros(elements) for _ in range(dist.get_world_size())], tensor)
    else:
        dist.barrier()


if __name__ == "__main__":
    main(Plan(**json.loads(sys.argv[1])))
