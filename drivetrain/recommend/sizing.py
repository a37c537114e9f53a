"""One training as the estimates see it: a recipe's facts, machines, a batch, and how they are used together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from drivetrain.base.degrees import World, data_size
from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.records import dataclass
from drivetrain.catalog.instances import Instance
from drivetrain.recommend.facts import Bytes, Facts, Layer

# Precision -> (bytes of what is stored, bytes of what is computed), both over those of fp32.
PRECISIONS = {"fp32": (1.0, 1.0), "tf32": (1.0, 1.0), "bf16": (1.0, 0.5), "fp16": (1.0, 0.5), "fp64": (2.0, 2.0)}
# Micro-batches for each stage that the training program takes where nobody says a number, and those that are
# recommended: a bubble of a third, and of a fifth.
DEFAULT_MICRO_BATCHES_A_STAGE = 2
MICRO_BATCHES_A_STAGE = 4
MOST_HOSTS = 1_000_000
HEADROOM = 0.15


@dataclass(frozen=True, kw_only=True)
class Sizing:
    """A model to train and the machines to train it on."""

    facts: Facts
    instance: Instance
    hosts: int = 1
    processes: int = 0
    """A host; 0 for one a GPU, else one."""
    global_batch: int
    precision: str = "fp32"
    accumulation: int = 1
    activation_checkpointing: bool = False

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UserError(f"no precision {self.precision!r}. {did_you_mean(self.precision, PRECISIONS)}")
        for name in ("hosts", "global_batch", "accumulation"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}={getattr(self, name)}; allowed are whole numbers from 1.")
        if self.hosts > MOST_HOSTS:
            raise UserError(f"hosts={self.hosts:,}; no more than {MOST_HOSTS:,} are reckoned with.")
        if self.processes < 0:
            raise UserError(f"processes={self.processes}; allowed are whole numbers from 1, or 0 for one a GPU.")
        if self.instance.gpus and self.processes > self.instance.gpus:
            raise UserError(
                f"{self.processes} processes, but {self.instance.name} has {self.instance.gpus} GPUs and each process "
                "needs its own."
            )

    @property
    def world(self) -> World:
        return World(self.hosts, self.processes or self.instance.default_processes)

    @property
    def usable_memory(self) -> int:
        """Bytes that a process may fill: HEADROOM stays free."""
        return round(self.instance.memory_of_a_process(self.world.processes) * (1 - HEADROOM))

    @property
    def stored(self) -> float:
        """Bytes of parameters, gradients and state over those measured."""
        return PRECISIONS[self.precision][0]

    @property
    def computed(self) -> float:
        """Bytes of what matrix products take over those measured."""
        return PRECISIONS[self.precision][1]

    def of_sample(self, layer: Layer) -> Bytes:
        """The bytes that a layer or the loss takes for one sample in the compute dtype."""
        if self.computed < self.stored:
            return layer.half
        return Bytes(**{name: round(value * self.computed) for name, value in vars(layer.full).items()})


@dataclass(frozen=True)
class Candidate:
    """A strategy with its degrees and, for pipelines, its number of micro-batches."""

    strategy: str
    degrees: Mapping[str, int]
    micro_batches: int = 1
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def degree(self, dimension: str) -> int:
        return self.degrees.get(dimension, 1)

    def samples(self, plan: Sizing) -> int:
        """Samples that a rank works on at a time: its part of the global batch, cut by accumulation."""
        return math.ceil(math.ceil(plan.global_batch / data_size(self.degrees)) / plan.accumulation)

    def micro_batch(self, plan: Sizing) -> int:
        """Samples that pass through a stage at a time."""
        return math.ceil(self.samples(plan) / self.micro_batches)
