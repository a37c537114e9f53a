"""The ranks that share a model and those that are replicas: the dimensions of a strategy laid over the processes.

    stage       pipeline stages: each holds some of the layers
    replicate   copies that work on different samples and exchange whole gradients
    shard       ranks that work on different samples and hold a slice of every parameter each
    context     ranks that share the samples and split the sequence
    tensor      ranks that share the samples and split every large matrix

The order is that of the ranks, outermost first: neighbours in the innermost dimension, which talks most, are neighbours
on a host (D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", SC 2021, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from drivetrain.base.degrees import DIMENSIONS, World, data_size, fill, stride
from drivetrain.base.errors import InputError, and_more
from drivetrain.training.process import Process

# Ranks of these dimensions wait for each other inside every layer: only a host's own links are fast enough.
INSIDE_A_HOST = ("tensor",)


@dataclass(frozen=True)
class Layout:
    """`degrees` maps each dimension of a strategy to its size; a framework's own `mesh` has the same dimensions, in the
    same order.

    `mesh` is None where the strategy has no dimension, or needs none. `same_stage` is the framework's group of the
    ranks that hold the same layers; None where that is all of them, or this one alone.
    """

    process: Process
    degrees: Mapping[str, int]
    mesh: Any = None
    same_stage: Any = None

    @cached_property
    def coordinates(self) -> dict[str, int]:
        """This rank's index in each dimension."""
        found: dict[str, int] = {}
        rest = self.process.rank
        for name in reversed(list(self.degrees)):
            rest, found[name] = divmod(rest, self.degrees[name])
        return {name: found[name] for name in self.degrees}

    @cached_property
    def data_size(self) -> int:
        """How many parts a global batch is dealt into."""
        return data_size(self.degrees)

    @cached_property
    def data_rank(self) -> int:
        """The part that is this rank's. Ranks of one replica have the same."""
        index = self.coordinates
        return index.get("replicate", 0) * self.degrees.get("shard", 1) + index.get("shard", 0)

    @cached_property
    def counts(self) -> bool:
        """True if this rank speaks for its replica: in the last stage, first in all that share the samples."""
        index = self.coordinates
        last_stage = index.get("stage", 0) == self.degrees.get("stage", 1) - 1
        return last_stage and not any(index.get(name, 0) for name in ("context", "tensor"))

    @cached_property
    def speaker(self) -> int:
        """The first rank that counts."""
        stages = self.degrees.get("stage", 1)
        return (stages - 1) * self.process.world_size // stages

    @cached_property
    def stage_size(self) -> int:
        """How many ranks hold the same layers."""
        return self.process.world_size // self.degrees.get("stage", 1)

    def stage_group(self) -> Any:
        """This rank and all others that hold the same layers; None for all ranks there are. Every rank must call this:
        the group may have to be made."""
        if self.degrees.get("stage", 1) == 1:
            return None
        assert self.same_stage is not None
        return self.same_stage

    def describe(self) -> list[str]:
        """Lines for people: which ranks share a model, which are replicas."""
        if not self.degrees:
            return ["1 process"] if self.process.world_size == 1 else []
        shape = " x ".join(f"{name} {size}" for name, size in self.degrees.items())
        ranks = f"{self.process.world_size} rank{'s' * (self.process.world_size > 1)}"
        lines = [f"{ranks}: {shape}"]
        if self.process.world_size == 1:
            return lines
        for name in reversed(list(self.degrees)):
            if self.degrees[name] > 1:
                lines.append(f"  {_MEANING[name]}: {_shorten(self.groups(name))}")
        return lines

    def groups(self, name: str) -> list[list[int]]:
        """The ranks that differ in one dimension only."""
        apart = stride(self.degrees, name)
        span = apart * self.degrees[name]
        starts = (block + i for block in range(0, self.process.world_size, span) for i in range(apart))
        return [list(range(start, start + span, apart)) for start in starts]


_MEANING = {
    "stage": "stages of one pipeline",
    "replicate": "replicas (same parameters, different samples)",
    "shard": "shards (slices of the same parameters, different samples)",
    "context": "share samples, split the sequence",
    "tensor": "share samples, split the matrices",
}


def laid_out(process: Process, strategy: str, dimensions: Sequence[str], wanted: Mapping[str, int]) -> Layout:
    """Lay `dimensions` over all processes.

    Args:
        process: this one.
        strategy: its name, for messages.
        dimensions: in the order of `DIMENSIONS`.
        wanted: the degree of each dimension; 0, for one of them at most, is what the others leave over.

    Raises:
        InputError: degrees that do not multiply to the number of processes, or that would leave a host.
    """
    assert [name for name in DIMENSIONS if name in dimensions] == list(dimensions)
    hosts = math.ceil(process.world_size / process.local_world_size)
    world = World(hosts, process.local_world_size, started=process.world_size)
    degrees = fill(strategy, dimensions, {name: wanted[name] for name in dimensions}, world)
    for name in INSIDE_A_HOST:
        if process.local_world_size % degrees.get(name, 1):
            raise InputError(
                f"strategy {strategy!r}: {name} {degrees[name]} would leave the host, which has "
                f"{_processes(process.local_world_size)}; those ranks wait for each other inside every layer. "
                f"Choose a {name} degree that divides {process.local_world_size}."
            )
    return Layout(process, degrees)


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _shorten(groups: list[list[int]], shown: int = 4) -> str:
    """Groups of ranks as text, the first few of them: `[0 1] [2 3]`."""
    texts = ["[" + " ".join(map(str, group[:8])) + (" ..." if len(group) > 8 else "") + "]" for group in groups]
    return and_more(texts, shown, " ")
