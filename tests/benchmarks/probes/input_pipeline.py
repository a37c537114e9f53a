"""A step of training with batches from the loader, beside the same step with batches that lie ready in memory.

    python input_pipeline.py ROUNDS digits|text ...

Short rounds in the order A B B A, so that what else the machine does meets both alike. Prints for each kind
{"wall": [...], "cpu": [...]}, in seconds a step: [loader, ready] for each round.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.input_pipeline.loader import Loader
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch, load_recipe
from tests.fixtures import tiny_data

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
RECIPES = {
    "digits": ("digits_cnn", {}, "prepared", 1437, 64),
    "text": ("decoder_lm", {"length": 64, "layers": 2, "width": 64, "heads": 4}, "text", 8000, 8),
}
SECONDS = 0.15


def measured(kind: str, rounds: int) -> dict[str, list[list[float]]]:
    name, options, reader, rows, global_batch = RECIPES[kind]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as scratch:
        folder = tiny_data.write(reader, Path(scratch) / "data", rows=rows)
        recipe = load_recipe(name, options)
        dataset = Dataset(folder, recipe, ALONE)
        model = recipe.model()
        optimizer = recipe.optimizer(model, learning_rate=1e-4, weight_decay=0.0)
        order = dataset.order(global_batch=global_batch, seed=1)

        def train(batches: Iterable[Batch], steps: int) -> tuple[float, float]:
            wall, cpu = time.perf_counter(), time.process_time()
            for batch in itertools.islice(batches, steps):
                optimizer.zero_grad()
                recipe.losses(model(batch.inputs), batch.targets).mean().backward()
                optimizer.step()
            return (time.perf_counter() - wall) / steps, (time.process_time() - cpu) / steps

        def loaded(loader: Loader) -> Iterator[Batch]:
            for step in loader:
                yield step.batch

        with Loader(dataset, order) as loader:
            batches = loaded(loader)
            ready = [Batch(b.inputs.clone(), b.targets.clone()) for b in itertools.islice(batches, 64)]
            one_step, _ = train(itertools.cycle(ready), 60)
            steps = max(20, int(SECONDS / one_step))
            found: list[tuple[tuple[float, float], tuple[float, float]]] = []
            for number in range(rounds):
                if number % 2:
                    by_hand = train(itertools.cycle(ready), steps)
                    found.append((train(batches, steps), by_hand))
                else:
                    found.append((train(batches, steps), train(itertools.cycle(ready), steps)))
    walls, cpus = ([[ours[which], by_hand[which]] for ours, by_hand in found] for which in (0, 1))
    return {"wall": walls, "cpu": cpus}


if __name__ == "__main__":
    print(json.dumps({kind: measured(kind, int(sys.argv[1])) for kind in sys.argv[2:]}))
