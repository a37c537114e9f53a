"""What one writes without any framework: the limit."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from work import LEARNING_RATE, LOG_EVERY, Watch, Work


def run(work: Work, losses: list[torch.Tensor] | None = None) -> Watch:
    recipe, model = work.recipe, work.model()
    several = work.process.world_size > 1
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=True) if several else model
    optimizer = work.optimizer(model)
    total = torch.zeros((), device=work.process.device)
    watch = work.watch()
    for step, (inputs, targets) in enumerate(watch):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * work.factor(step)
        optimizer.zero_grad()
        loss = recipe.losses(parallel(inputs), targets).mean()
        loss.backward()
        optimizer.step()
        total += loss.detach()
        if losses is not None:
            losses.append(loss.detach() * len(targets))
        if (step + 1) % LOG_EVERY == 0:
            if several:
                dist.all_reduce(total)
            if work.process.is_main:
                print(f"step {step + 1} train_loss={float(total) / LOG_EVERY / work.process.world_size:.6g}")
            total.zero_()
    return watch
