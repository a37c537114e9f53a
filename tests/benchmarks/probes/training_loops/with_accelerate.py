"""Accelerate: its wrappers around model, optimizer and schedule, the loop by hand."""

from __future__ import annotations

import json

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs
from torch.optim.lr_scheduler import LambdaLR
from work import LOG_EVERY, Watch, Work


def run(work: Work) -> Watch:
    recipe = work.recipe
    accelerator = Accelerator(
        cpu=work.process.device.type == "cpu",
        step_scheduler_with_optimizer=False,
        kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)],
    )
    bare = work.model()
    optimizer = work.optimizer(bare)
    model, optimizer, schedule = accelerator.prepare(bare, optimizer, LambdaLR(optimizer, work.factor))
    total = torch.zeros((), device=work.process.device)
    watch = work.watch()
    work.folder.mkdir(parents=True, exist_ok=True)
    with open(work.folder / f"metrics-{accelerator.process_index}.jsonl", "w", encoding="utf-8") as lines:
        for step, (inputs, targets) in enumerate(watch):
            optimizer.zero_grad()
            loss = recipe.losses(model(inputs), targets).mean()
            accelerator.backward(loss)
            optimizer.step()
            schedule.step()
            total += loss.detach()
            if (step + 1) % LOG_EVERY == 0:
                mean = float(accelerator.reduce(total / LOG_EVERY, reduction="mean"))
                if accelerator.is_main_process:
                    lines.write(json.dumps({"step": step, "train_loss": mean}) + "\n")
                    lines.flush()
                total.zero_()
    accelerator.free_memory()
    return watch
