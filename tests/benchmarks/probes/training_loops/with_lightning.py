"""Lightning Trainer: everything is its own; logging and a checkpoint callback on."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import DDPStrategy
from torch.optim.lr_scheduler import LambdaLR
from work import LOG_EVERY, Watch, Work


class Module(LightningModule):
    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work, self.made = work, work.recipe
        self.model = work.model()

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        inputs, targets = batch
        loss = self.made.losses(self.model(inputs), targets).mean()
        self.log("train_loss", loss, batch_size=len(targets))
        return loss

    def configure_optimizers(self) -> Any:
        optimizer = self.work.optimizer(self.model)
        schedule = {"scheduler": LambdaLR(optimizer, self.work.factor), "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": schedule}


def run(work: Work) -> Watch:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    folder, world_size = work.folder, work.process.world_size
    trainer = Trainer(
        accelerator=work.process.device.type,
        devices=world_size,
        strategy=DDPStrategy(gradient_as_bucket_view=True) if world_size > 1 else "auto",
        max_epochs=1,
        logger=CSVLogger(str(folder), flush_logs_every_n_steps=LOG_EVERY),
        callbacks=[ModelCheckpoint(dirpath=folder / "checkpoints"), LearningRateMonitor("step")],
        log_every_n_steps=LOG_EVERY,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    watch = work.watch()
    trainer.fit(Module(work), train_dataloaders=watch)
    return watch
