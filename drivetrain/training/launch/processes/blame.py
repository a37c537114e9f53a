"""Find the rank that others wait for, or that calls another collective, from what each rank has begun.

Nothing is asked here: ranks are compared by the numbers of their collectives in each group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from drivetrain.training.launch.processes.collectives import MOST_KEPT, Begun, Collective

# Every rank must give as much to these; to others (all_to_all) it may give what it likes.
_OF_EQUAL_SIZES = ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "_reduce_scatter_base")
_SHOWN = 8
# Calls before one that tell whether it may follow: steps are told apart by less.
_CONTEXT = 40


@dataclass(frozen=True)
class Verdict:
    """The ranks to blame, and the reason.

    Attributes:
        kind: hang (they do not come), or mismatch (they call another collective than the others do).
        ranks: the ones to look at.
        text: says so, with the collective.
        waiting: who waits for them.
    """

    kind: Literal["hang", "mismatch"]
    ranks: tuple[int, ...]
    text: str
    waiting: tuple[int, ...] = ()

    def after_timeout(self) -> str:
        """The text of a hang that a time-out has told."""
        return f"{self.text} before {named(self.waiting) or 'the others'} timed out"


def find_mismatch(known: Begun) -> Verdict | None:
    """The first collective that two ranks begin under the same number but call differently."""
    for group in dict.fromkeys(one.group for begun in known.values() for one in begun):
        of_ranks = {rank: {one.number: one for one in begun if one.group == group} for rank, begun in known.items()}
        for number in sorted({number for numbers in of_ranks.values() for number in numbers}):
            calls = {rank: numbers[number] for rank, numbers in of_ranks.items() if number in numbers}
            if len({_signature(call) for call in calls.values()}) > 1:
                return _mismatch(calls, known)
    return None


def find_missing(known: Begun, silent: Sequence[int]) -> Verdict | None:
    """Find the ranks that have not reached the collective in which others wait.

    Args:
        silent: ranks that reported nothing: they have not come either.
    """
    behind: dict[int, Collective] = {}
    for group, ranks in {one.group: one.ranks for begun in known.values() for one in begun}.items():
        last = {rank: next((c for c in reversed(known.get(rank, ())) if c.group == group), None) for rank in ranks}
        newest = max((one for one in last.values() if one), key=lambda one: (one.number, one.place))
        for rank, its in last.items():
            # (Of a group that is seldom used nothing may be kept any more.)
            is_behind = len(known.get(rank, ())) < MOST_KEPT if its is None else its.number < newest.number
            if is_behind and (rank in known or rank in silent):
                behind.setdefault(rank, newest)
    missing = [rank for rank in behind if not _waits(rank, known, behind)]
    if not missing:
        return Verdict("hang", tuple(silent), "it did not come to a collective") if silent else None
    awaited = behind[missing[0]]
    waiting = tuple(rank for rank in awaited.ranks if rank in known and rank not in missing)
    return Verdict("hang", tuple(missing), f"it did not come to {awaited}", waiting)


def named(ranks: Sequence[int], where: Callable[[int], str] = lambda rank: "") -> str:
    """`rank 3 on algo-2, rank 4 on algo-3 and 5 more`."""
    shown = [f"rank {rank}{where(rank)}" for rank in ranks[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(ranks) - _SHOWN} more" if len(ranks) > _SHOWN else "")


def _signature(call: Collective) -> tuple[object, ...]:
    sized = call.operation in _OF_EQUAL_SIZES
    return (call.operation, *((call.sizes, call.dtype) if sized else ()))


def _mismatch(calls: dict[int, Collective], known: Begun) -> Verdict:
    counted = Counter(_signature(call) for call in calls.values())
    (usual, most), (_, next_most) = counted.most_common(2)
    if most == next_most:  # as many call one as the other: the one is right that has come after the same ones before
        usual = _signature(max(calls.items(), key=lambda item: _known_before(*item, known))[1])
    wrong = [rank for rank, call in calls.items() if _signature(call) != usual]
    # (Of some a line may not be known.)
    right = max((rank for rank, call in calls.items() if _signature(call) == usual), key=lambda r: bool(calls[r].place))
    text = f"it calls {calls[wrong[0]]}, where rank {right} calls {calls[right]}"
    return Verdict("mismatch", tuple(wrong), text)


def _known_before(rank: int, call: Collective, known: Begun) -> int:
    """How many calls that end with this one have been seen in the same order before, by any rank."""
    own = _history(known[rank], call.group, call.number)
    before = [_history(begun, call.group, call.number - 1) for begun in known.values()]
    longest = 0
    while longest < min(len(own), _CONTEXT) and any(_holds(one, own[-longest - 1 :]) for one in before):
        longest += 1
    return longest


def _history(begun: Sequence[Collective], group: str, until: int) -> list[tuple[object, ...]]:
    return [_signature(one) for one in begun if one.group == group and one.number <= until]


def _holds(calls: list[tuple[object, ...]], part: list[tuple[object, ...]]) -> bool:
    return any(calls[at : at + len(part)] == part for at in range(len(calls) - len(part) + 1))


def _waits(rank: int, known: Begun, behind: dict[int, Collective]) -> bool:
    """Return True if a rank that has not reached one collective waits for others in another one."""
    if not known.get(rank):
        return False
    last = known[rank][-1]
    return any(
        member != rank
        and not any(c.group == last.group and c.number >= last.number for c in known.get(member, ()))
        and (member in known or member in behind)
        for member in last.ranks
    )
