"""How long it takes until a loader gives the batch in the middle of an epoch: by going there, and by reading up to it.

    python seek.py drivetrain|torchdata FOLDER ROWS GLOBAL_BATCH

FOLDER has a file of bytes, `rows.txt`. Prints {"seek": [wall, CPU], "replay": [wall, CPU], "equal": whether the batches
agree}, in seconds.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

LENGTH = 16


def drivetrain(folder: Path, rows: int, global_batch: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    from drivetrain.training.input_pipeline.dataset import Dataset
    from drivetrain.training.input_pipeline.loader import Loader
    from drivetrain.training.process import Process
    from drivetrain.training.recipe import Batch

    class Recipe:
        columns, num_classes = ("tokens",), None

        def batch(self, columns: Any, label: str) -> Batch:
            tokens = torch.from_numpy(columns["tokens"])
            return Batch(tokens[:, :-1], tokens[:, 1:])

    recipe: Any = Recipe()
    dataset = Dataset(folder, recipe, Process(0, 1, 0, 1, torch.device("cpu")), reader_options={"length": LENGTH})
    assert len(dataset) == rows
    middle = rows // 2 // global_batch * global_batch

    def seek() -> Any:
        with Loader(dataset, dataset.order(global_batch=global_batch, seed=1), middle) as steps:
            return next(steps).batch.inputs

    def replay() -> Any:
        with Loader(dataset, dataset.order(global_batch=global_batch, seed=1)) as steps:
            for step in steps:
                if step.consumed == middle:
                    return step.batch.inputs

    return seek, replay


def torchdata(folder: Path, rows: int, global_batch: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    from torchdata.stateful_dataloader import StatefulDataLoader

    data = np.memmap(folder / "rows.txt", dtype=np.uint8, mode="r")

    class Windows:
        def __len__(self) -> int:
            return rows

        def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
            picked = np.asarray(indices)[:, None] * LENGTH + np.arange(LENGTH)
            return [torch.from_numpy(data[picked].astype(np.int64))]

    def loader() -> Any:
        windows: Any = Windows()
        shuffled = torch.Generator().manual_seed(1)
        return StatefulDataLoader(
            windows, batch_size=global_batch, shuffle=True, generator=shuffled, collate_fn=lambda batches: batches[0]
        )

    saved: dict[str, Any] = {}

    def replay() -> Any:
        reading = loader()
        steps = iter(reading)
        for _ in range(rows // 2 // global_batch):
            next(steps)
        saved["state"] = reading.state_dict()
        return next(steps)

    def seek() -> Any:
        reading = loader()
        reading.load_state_dict(saved["state"])
        return next(iter(reading))

    return seek, replay


def timed(read: Callable[[], Any]) -> tuple[list[float], Any]:
    """[wall, CPU] seconds, and what was read."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = read()
    return [time.perf_counter() - wall, time.process_time() - cpu], found


def main(kind: str, folder: Path, rows: int, global_batch: int) -> None:
    torch.set_num_threads(1)
    seek, replay = {"drivetrain": drivetrain, "torchdata": torchdata}[kind](folder, rows, global_batch)
    replayed, expected = timed(replay)
    seeks = [timed(seek) for _ in range(9)]
    equal = all(torch.equal(found, expected) for _, found in seeks)
    middle = [statistics.median(clock) for clock in zip(*(taken for taken, _ in seeks), strict=True)]
    print(json.dumps({"seek": middle, "replay": replayed, "equal": equal}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
