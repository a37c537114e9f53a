"""Records as a healthy training makes them, and faults that are planted in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from drivetrain.training.health.record import LAYER_COLUMNS, RANK_COLUMNS, TENSOR_COLUMNS, Columns, Names, Record, Table

TENSORS = ("0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias")
LAYERS = ("0", "1", "2", "3", "4")
CLASSES, RANKS, BATCH = 10, 4, 64
NAMES = Names(
    tensors=TENSORS,
    matrices=tuple(name.endswith("weight") for name in TENSORS),
    layers=LAYERS,
    num_classes=CLASSES,
    num_ranks=RANKS,
)
_SIZES = np.array([1000.0, 20.0, 4000.0, 20.0, 200.0, 10.0])
_SAMPLED = np.minimum(_SIZES, 1024)
# Seconds of a step.
_PHASES = {"data": 0.001, "communication": 0.004, "forward": 0.03, "backward": 0.05, "optimizer": 0.01, "other": 0.002}
VALIDATION_EVERY = 20


def healthy(seed: int, steps: int = 400) -> Iterator[Record]:
    """Every step is recorded with its tensors; every 20th is validated as well."""
    random = np.random.default_rng(seed)
    for step in range(1, steps + 1):
        yield of_step(random, step)
        if step % VALIDATION_EVERY == 0:
            yield of_validation(random, step)


def with_model(seed: int) -> Iterator[Record]:
    """The same, and at the end a model of a table."""
    last = 0
    for record in healthy(seed):
        yield record
        last = record.step
    yield Record(step=last, columns=Columns(moves={"age": 0.4, "plan": 0.3}, loss=0.3, guess=0.6))


def of_step(random: Any, step: int) -> Record:
    loss = 0.4 + 1.9 * np.exp(-step / 60)
    noise = random.normal(1.0, 0.1, size=len(TENSORS)).clip(0.5, 1.5)
    gradient = 0.02 * (0.1 + loss) * noise * np.array([0.3, 1, 0.5, 1, 1, 2])
    weight, update = 0.05 * np.ones(len(TENSORS)), 5e-5 * noise
    moved = np.floor(0.9 * _SAMPLED)
    tensors = {
        "size": _SIZES,
        "grad_sq": gradient**2 * _SIZES,
        "sampled": _SAMPLED,
        "weight_sum": random.normal(0, 0.1, size=len(TENSORS)) * np.sqrt(_SAMPLED) * 0.05,
        "weight_sq": weight**2 * _SAMPLED,
        "update_sq": update**2 * _SAMPLED,
        "with_grad": moved,
        "changed": moved,
    }
    size = 32.0 * BATCH * np.ones(len(LAYERS))
    zeros = np.array([0, 0.55, 0, 0.6, 0]) * size * random.normal(1, 0.05, size=len(LAYERS)).clip(0.8, 1.2)
    layers = {"size": size, "sq": size * random.uniform(0.5, 1.5, size=len(LAYERS)), "zeros": np.floor(zeros)}
    ranks = {name: np.zeros(RANKS) for name in RANK_COLUMNS}
    for phase, seconds in _PHASES.items():
        # A rank is late now and then.
        late = np.where(random.random(RANKS) < 0.05, random.uniform(1, 3, size=RANKS), 1.0)
        ranks[phase] = seconds * random.normal(1, 0.03, size=RANKS).clip(0.9, 1.1) * late
    ranks["own"] = ranks["data"] + ranks["forward"]
    ranks["steps"] = np.ones(RANKS)
    ranks["memory"] = 1e9 * np.ones(RANKS) + 1e6 * random.random(RANKS)
    ranks["accelerator"] = random.uniform(0.6, 0.95, size=RANKS)
    if step % 100 == 0:
        ranks["saves"], ranks["save"] = np.ones(RANKS), 0.05 * np.ones(RANKS)
    return Record(
        step=step,
        steps=1,
        time=1.7e9 + 0.1 * step,
        loss=float(loss * random.normal(1, 0.05)),
        factor=min(1.0, step / 20),
        ranks=Table([f"rank {rank}" for rank in range(RANKS)], ranks),
        tensors=Table(TENSORS, {name: tensors[name] for name in TENSOR_COLUMNS}),
        layers=Table(LAYERS, {name: layers[name] for name in LAYER_COLUMNS}),
        matrices=NAMES.matrices,
        classes=random.multinomial(BATCH, np.ones(CLASSES) / CLASSES).astype(np.float64),
    )


def of_validation(random: Any, step: int) -> Record:
    loss = 0.45 + 1.8 * np.exp(-step / 80)
    metrics = {"train_loss": float(loss - 0.05), "validation_loss": float(loss * random.normal(1, 0.003))}
    return Record(step=step, validation=metrics)


def changed(record: Record, table: str, column: str, rows: Any, value: Any) -> Record:
    """The record with another value in some rows of a table: a number, or a function of what was there."""
    its: Table | None = getattr(record, table)
    assert its is not None
    values = its[column].copy()
    values[rows] = value(values[rows]) if callable(value) else value
    columns: Mapping[str, Any] = {**its.columns, column: values}
    return replace(record, **{table: Table(its.names, columns)})
