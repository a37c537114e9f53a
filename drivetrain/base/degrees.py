"""Degrees of a strategy's dimensions: what is given, laid over hosts x processes, or the reason why it cannot be.

The compiler asks, and a training again when it starts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from drivetrain.base.errors import InputError

# Ranks in order: the outermost dimension first.
DIMENSIONS = ("stage", "replicate", "shard", "context", "tensor")
DATA_DIMENSIONS = ("replicate", "shard")


@dataclass(frozen=True)
class World:
    """`processes` on each of `hosts`.

    Where hosts are uneven, `processes` is those of this host and `started` the number of all.
    """

    hosts: int
    processes: int
    started: int | None = None

    @property
    def size(self) -> int:
        return self.hosts * self.processes if self.started is None else self.started

    def described(self) -> str:
        """`4 processes`, `8 processes (2 hosts x 4)`."""
        text = f"{self.size} process{'es' if self.size != 1 else ''}"
        even = self.size == self.hosts * self.processes
        return text if self.hosts == 1 or not even else f"{text} ({self.hosts} hosts x {self.processes})"


def fill(strategy: str, dimensions: Sequence[str], wanted: Mapping[str, int], world: World) -> dict[str, int]:
    """The degree of each dimension; 0, of one of them at most, is what the others leave over.

    Where replicas and shards are both 0, shards fill a host and replicas go across (hsdp).

    Raises:
        InputError: degrees that do not multiply to the number of processes.
    """
    degrees = {name: wanted.get(name, 0) for name in dimensions}
    for name, size in degrees.items():
        if size < 0:
            raise InputError(f"strategy {strategy!r}: {name}={size}; allowed are whole numbers from 0.")
    open_ones = [name for name, size in degrees.items() if size == 0]
    if open_ones == ["replicate", "shard"]:
        degrees["shard"] = max(1, world.processes // math.prod(size for size in degrees.values() if size))
        open_ones = ["replicate"]
    if len(open_ones) > 1:
        raise InputError(
            f"strategy {strategy!r}: {' and '.join(open_ones)} are both 0 (what is left over). Give one of them."
        )
    known = math.prod(size for size in degrees.values() if size)
    if world.size % known or (not open_ones and degrees and known != world.size):
        given = " x ".join(f"{name} {size}" for name, size in degrees.items() if size > 1 or known == 1 == size)
        raise InputError(
            f"strategy {strategy!r}: {given} needs {'a multiple of ' if open_ones else ''}{known} processes, but there "
            f"are {world.described()}. Change strategy_options, or the number of hosts or processes."
        )
    for name in open_ones:
        degrees[name] = world.size // known
    return degrees


def data_size(degrees: Mapping[str, int]) -> int:
    """How many parts a global batch is dealt into."""
    return math.prod(degrees.get(name, 1) for name in DATA_DIMENSIONS)


def stride(degrees: Mapping[str, int], dimension: str) -> int:
    """How far apart in rank neighbours in a dimension are: the product of the degrees inside it."""
    names = list(degrees)
    return math.prod(degrees[name] for name in names[names.index(dimension) + 1 :])


def crosses_hosts(degrees: Mapping[str, int], dimension: str, world: World) -> bool:
    """Return True if a group of ranks that differ in this dimension alone has members on several hosts."""
    span = stride(degrees, dimension) * degrees[dimension]
    return world.hosts > 1 and degrees[dimension] > 1 and world.processes % span != 0


def groups_of_a_host(degrees: Mapping[str, int], dimension: str, world: World) -> int:
    """How many groups of this dimension share a host's network: each gets that part of it."""
    apart = stride(degrees, dimension)
    members_here = max(1, min(degrees[dimension], world.processes // apart)) if apart <= world.processes else 1
    return max(1, world.processes // members_here)


def all_degrees(dimensions: Sequence[str], size: int) -> Iterator[dict[str, int]]:
    """Every way to lay dimensions over `size` processes, each dimension at least 2 where there are several."""
    if not dimensions:
        if size == 1:
            yield {}
        return
    first, *rest = dimensions
    if not rest:
        if size > 1:
            yield {first: size}
        return
    for degree in _divisors(size)[1:-1]:
        for others in all_degrees(rest, size // degree):
            yield {first: degree, **others}


def _divisors(number: int) -> list[int]:
    """In ascending order. Only numbers up to the square root are tried, since a user may ask for a million hosts."""
    small = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    return sorted({*small, *(number // each for each in small)})
