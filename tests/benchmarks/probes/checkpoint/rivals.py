"""How each of them keeps a training's state, and loads it: ours with the very Checkpointer that training has.

All write files of their own on every rank at the same time, into a folder that is new each time.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from state import Training
from torch import Tensor
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict import get_state_dict

from drivetrain.training.checkpointing.checkpointer import Checkpointer, CheckpointOptions
from drivetrain.training.checkpointing.places import open_place
from drivetrain.training.checkpointing.store.retention import Retention


class Saver(ABC):
    """What writes into a folder of its own, each time anew."""

    def __init__(self, training: Training, folder: Path) -> None:
        self.training, self.folder, self.number = training, folder, 0

    @abstractmethod
    def save(self) -> None:
        """Returns when training may go on."""

    def next(self) -> Path:
        """The file for the next save of this rank; the one before it is removed by `tidy`."""
        self.number += 1
        return self.file()

    def file(self) -> Path:
        return self.folder / f"{self.number}-rank-{self.training.process.rank}"

    def tidy(self) -> None:
        """Remove all but the newest, of all ranks."""
        for path in self.folder.iterdir():
            if not path.name.startswith(f"{self.number}-"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


class Rival(Saver):
    """What keeps a training's state, and loads it."""

    def finish(self) -> None:
        """Return when all that was saved is durable. Nothing, where `save` has done it all."""

    def find(self) -> None:
        """What was saved last, in a process that has not saved anything."""
        self.number = max(int(path.name.partition("-")[0]) for path in self.folder.iterdir())

    @abstractmethod
    def load(self) -> None:
        """Load what was saved last."""

    def close(self) -> None:
        """At the end."""


class Ours(Rival):
    def __init__(self, training: Training, folder: Path) -> None:
        super().__init__(training, folder)
        self.place = open_place(self.folder / "ours")
        options = CheckpointOptions(retention=Retention(last=1))
        self.checkpointer = Checkpointer(self.place, self.training.process, options=options, say=_silent)

    def save(self) -> None:
        self.number += 1
        self.checkpointer.save(self.number, {"consumed": self.number}, self.training.strategy)

    def finish(self) -> None:
        assert self.checkpointer.wait()

    def load(self) -> None:
        values = self.checkpointer.load_newest(self.training.strategy)
        assert values is not None and values["consumed"] == self.number

    def find(self) -> None:
        self.number = self.checkpointer.store.steps()[0]

    def tidy(self) -> None:
        """Retention has."""

    def close(self) -> None:
        self.checkpointer.close()


class TorchSave(Rival):
    def save(self) -> None:
        with open(self.next(), "wb") as stream:
            torch.save(self.training.own(), stream)
            stream.flush()
            os.fsync(stream.fileno())

    def load(self) -> None:
        torch.load(self.file())


class Dcp(Rival):
    def state(self) -> dict[str, Any]:
        """As torch's documentation has it."""
        model, optimizer = get_state_dict(self.training.strategy.model, self.training.strategy.optimizer)
        return {"model": model, "optimizer": optimizer}

    def save(self) -> None:
        self.number += 1
        dcp.save(self.state(), checkpoint_id=self.folder / f"{self.number}-dcp")

    def load(self) -> None:
        dcp.load(self.state(), checkpoint_id=self.folder / f"{self.number}-dcp")


class DcpAsync(Dcp):
    """With a process group of its own (it hangs with that of training), and memory that it uses again."""

    def __init__(self, training: Training, folder: Path) -> None:
        super().__init__(training, folder)
        self.group = dist.new_group(backend="gloo") if dist.is_initialized() else None
        pinned = self.training.process.device.type == "cuda"
        options = StagingOptions(
            use_pinned_memory=pinned, use_shared_memory=False, use_async_staging=False, use_non_blocking_copy=pinned
        )
        self.stager = DefaultStager(options)
        self.future: Any = None

    def save(self) -> None:
        self.number += 1
        self.future = dcp.async_save(
            self.state(),
            checkpoint_id=self.folder / f"{self.number}-dcp",
            process_group=self.group,
            async_stager=self.stager,
        )

    def finish(self) -> None:
        self.future.result()

    def close(self) -> None:
        self.stager.close()


class Lightning(Rival):
    """Its writer (an atomic write of the whole file from memory, without fsync), on each rank."""

    def __init__(self, training: Training, folder: Path) -> None:
        super().__init__(training, folder)
        from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

        self.io = TorchCheckpointIO()

    def save(self) -> None:
        self.io.save_checkpoint(self.training.own(), self.next())

    def finish(self) -> None:
        descriptor = os.open(self.file(), os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    def load(self) -> None:
        self.io.load_checkpoint(self.file())


class Limits(Saver):
    """A copy into memory that is there (pinned, where there is a GPU), and a plain write of it."""

    def __init__(self, training: Training, folder: Path) -> None:
        super().__init__(training, folder)
        pinned = self.training.process.device.type == "cuda"
        self.targets: dict[str, Tensor] = {
            name: torch.zeros(source.shape, dtype=source.dtype, pin_memory=pinned)
            for name, source in self.training.own().items()
        }
        self.bytes = sum(target.nbytes for target in self.targets.values())
        self.memory = memoryview(bytearray(os.urandom(1 << 20) * -(-self.bytes >> 20)))[: self.bytes]

    def save(self) -> None:
        """memcpy."""
        for name, source in self.training.own().items():
            self.targets[name].copy_(source, non_blocking=True)

    def write(self) -> None:
        """Through the page cache, 8 MiB at a time, then fsync: as most programs write."""
        with open(self.next(), "wb", buffering=0) as stream:
            for start in range(0, self.bytes, 8 << 20):
                stream.write(self.memory[start : start + (8 << 20)])
            os.fsync(stream.fileno())


RIVALS: dict[str, Callable[[Training, Path], Rival]] = {
    "drivetrain": Ours,
    "torch.save": TorchSave,
    "dcp": Dcp,
    "dcp async": DcpAsync,
    "lightning": Lightning,
}


def _silent(line: str) -> None:
    """What a training would print."""
