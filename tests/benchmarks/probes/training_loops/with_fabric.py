"""Lightning Fabric: its own wrappers around model and optimizer, its logger, the loop by hand."""

from __future__ import annotations

import torch
from lightning.fabric import Fabric
from lightning.fabric.loggers import CSVLogger
from lightning.fabric.strategies import DDPStrategy
from work import LEARNING_RATE, LOG_EVERY, Watch, Work


def run(work: Work) -> Watch:
    recipe, world_size = work.recipe, work.process.world_size
    fabric = Fabric(
        accelerator=work.process.device.type,
        devices=world_size,
        strategy=DDPStrategy(gradient_as_bucket_view=True) if world_size > 1 else "auto",
        loggers=CSVLogger(str(work.folder), flush_logs_every_n_steps=LOG_EVERY),
    )
    fabric.launch()
    bare = work.model()
    model, optimizer = fabric.setup(bare, work.optimizer(bare))
    total = torch.zeros((), device=work.process.device)
    watch = work.watch()
    for step, (inputs, targets) in enumerate(watch):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * work.factor(step)
        optimizer.zero_grad()
        loss = recipe.losses(model(inputs), targets).mean()
        fabric.backward(loss)
        optimizer.step()
        total += loss.detach()
        if (step + 1) % LOG_EVERY == 0:
            mean = fabric.all_reduce(total / LOG_EVERY, reduce_op="mean")
            fabric.log_dict({"train_loss": mean, "learning_rate": optimizer.param_groups[0]["lr"]}, step=step)
            total.zero_()
    return watch
