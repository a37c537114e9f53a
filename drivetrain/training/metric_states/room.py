"""Choose the counts of each group of samples so that they fit into a rank's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from drivetrain.base.errors import InputError
from drivetrain.training.metric import HasCurves, HasExact, Metric, Tally
from drivetrain.training.metric_states.tally_set import TallySet
from drivetrain.training.task import Task

MEMORY = 256 << 20
"""Bytes of what a rank counts, unless another limit is given; an all_reduce takes about as much again."""
# Cells of a curve's tally, at most, of a slice, a replicate, and a replicate of a slice. What bins leave open widens
# intervals: of 100,000 samples of 10 classes, 1 << 14 cells made theirs twice as wide. More would travel for little.
_SLICED, _DRAWN, _DRAWN_SLICED = 1 << 17, 1 << 17, 1 << 14


@dataclass(frozen=True, kw_only=True)
class Room:
    """`num_values` has the number of slices of each column; `replicates` is 0 where nothing is drawn."""

    every: TallySet
    """With all metrics, as fine as they are asked for."""
    whole: TallySet
    sliced: TallySet
    drawn: TallySet
    drawn_sliced: TallySet
    num_values: tuple[int, ...] = ()
    replicates: int = 0
    cells: tuple[int, int, int] = field(default=(_SLICED, _DRAWN, _DRAWN_SLICED))

    @property
    def parts(self) -> list[tuple[int, TallySet]]:
        """How many groups have which tallies."""
        slices = sum(self.num_values)
        return [
            (1, self.whole),
            (slices, self.sliced),
            (self.replicates, self.drawn),
            (self.replicates * slices, self.drawn_sliced),
        ]

    @cached_property
    def size(self) -> int:
        """Cells in all."""
        return sum(groups * tallies.size for groups, tallies in self.parts)

    @cached_property
    def num_summed(self) -> int:
        """Cells of all samples and slices, and one for each column of the replicates."""
        slices = sum(self.num_values)
        columns = self.drawn.size + slices * self.drawn_sliced.size if self.replicates else 0
        return self.whole.size + slices * self.sliced.size + columns

    @cached_property
    def tallies(self) -> tuple[Tally, ...]:
        """All that is to be counted of a sample."""
        return tuple(dict.fromkeys(tally for groups, part in self.parts if groups for tally in part.tallies))

    @cached_property
    def drawn_tallies(self) -> tuple[Tally, ...]:
        """All that is to be counted in replicates."""
        return tuple(dict.fromkeys(tally for groups, part in self.parts[2:] if groups for tally in part.tallies))

    def coarser(self, part: int) -> Room:
        """With half the cells for each curve of the slices (0), the replicates (1), or the replicates of slices (2)."""
        cells = [size // 2 if number == part else size for number, size in enumerate(self.cells)]
        sets = [self.sliced, self.drawn, self.drawn_sliced]
        sets[part] = self.every.coarser(cells[part])
        sliced, drawn, drawn_sliced = sets
        return replace(
            self, sliced=sliced, drawn=drawn, drawn_sliced=drawn_sliced, cells=(cells[0], cells[1], cells[2])
        )


def make_room(
    task: Task,
    metrics: Mapping[str, Metric],
    *,
    num_values: Sequence[int] = (),
    replicates: int = 0,
    exact: bool = False,
    memory: int = MEMORY,
) -> Room:
    """Choose the counts; curves of slices and replicates are as coarse as the memory demands.

    Args:
        exact: whether metrics that have an exact mode need no counts of all samples.
        memory: bytes.

    Raises:
        InputError: it does not fit, however coarse.
    """
    every = TallySet(task, metrics)
    counted = {name: metric for name, metric in metrics.items() if not (exact and _is_ranked_only(metric))}
    none = TallySet(task, {})  # (Not to look for what is coarser is a tenth of a short evaluation.)
    room = Room(
        every=every,
        whole=TallySet(task, counted),
        sliced=every.coarser(_SLICED) if num_values else none,
        drawn=every.coarser(_DRAWN) if replicates else none,
        drawn_sliced=every.coarser(_DRAWN_SLICED) if num_values and replicates else none,
        num_values=tuple(num_values),
        replicates=replicates,
    )
    while 8 * room.size > memory:
        finer = [(room.parts[1 + part][0] * room.parts[1 + part][1].size, part) for part in range(3)]
        for _, part in sorted(finer, reverse=True):
            smaller = _smaller(room, part)
            if smaller is not None:
                room = smaller
                break
        else:
            raise _too_much(room, memory)
    return room


def _is_ranked_only(metric: Metric) -> bool:
    return isinstance(metric, HasExact) and not isinstance(metric, HasCurves)


def _smaller(room: Room, part: int) -> Room | None:
    """The room with the next coarser curves of a part; None where they are as coarse as they can be."""
    smaller = room
    while smaller.cells[part] > 1:
        smaller = smaller.coarser(part)
        if smaller.size < room.size:
            return smaller
    return None


def _too_much(room: Room, memory: int) -> InputError:
    words = ("all samples", "slices", "bootstrap replicates", "replicates of slices")
    terms = [
        f"{groups:,} x {tallies.size:,} ({word})"
        for (groups, tallies), word in zip(room.parts, words, strict=True)
        if groups
    ]
    _, part = max(room.parts, key=lambda part: part[0] * part[1].size)
    sizes = {name: TallySet(part.task, {name: metric}).size for name, metric in part.metrics.items()}
    largest = max(sizes, key=sizes.__getitem__)
    advice = []
    slices = sum(room.num_values)
    if room.replicates:
        each = room.drawn.size + slices * room.drawn_sliced.size
        fit = (memory // 8 - room.size) // each + room.replicates
        told = f"at most {fit} bootstrap replicates" if fit > 1 else "no bootstrap replicates"
        advice.append(f"{told} instead of {room.replicates}")
    if slices:
        each = room.sliced.size + room.replicates * room.drawn_sliced.size
        fit = (memory // 8 - room.size) // each + slices
        told = f"of at most {fit} values in all" if fit > 0 else "of fewer values"
        advice.append(f"columns {told} to slice by instead of {' and '.join(map(str, room.num_values))}")
    advice.append(f"fewer metrics (the largest is {largest}, with {sizes[largest]:,} of {part.size:,})")
    return InputError(
        f"the metrics need {-(-8 * room.size >> 20):,} MiB on each rank, and the limit is {memory >> 20:,} MiB: "
        f"{' + '.join(terms)} = {room.size:,} numbers of 8 bytes. Give {', or '.join(advice)}."
    )
