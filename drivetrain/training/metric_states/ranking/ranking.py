"""An exact ranking of all samples of all ranks by score, in bounded memory: a sample sort.

Each rank sorts its own scores; samples with equal scores become one entry (score, positives, negatives). Each rank
shows every k-th of its sorted entries to the others, so that all agree on a range of scores for each rank, with about
the same number of entries. Entries travel to the rank of their range, where equal scores meet, and each rank adds up
what its range comes to. All sums are of whole numbers: they are the same on any number of ranks.

With R ranks, C rankings (classes), and N entries of one ranking on all ranks, a rank holds, in bytes:

    25 a score of its own     what it was given (9), and sorted entries (16)
    2 round_bytes             one round of entries, to the others and from them
    about 100 N / R           its range of one ranking, or of several that fit into one round, while it is merged and
                              added up. A range has at most (1 + R / 32) N / R + 2 R + 64 entries.
    24 R R C                  how many entries go from each rank to each rank
    24,000 C, or 2.4 MB       points of curves, where they are asked for
    520 R C                   the scores themselves, where they are few

(H. Shi and J. Schaeffer, "Parallel Sorting by Regular Sampling", 1992.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Ints, Ranked, Ranking
from drivetrain.training.metric_states.numbers.enclosure import UNIT
from drivetrain.training.metric_states.ranking.score_entries import (
    BYTES,
    LARGEST,
    Entries,
    curve_of,
    entries_of,
    merged,
    points,
    precision_sum,
    twice_wins,
)
from drivetrain.training.process import Process

ROUND_BYTES = 1 << 24
"""The bytes that a rank sends in one collective."""
_SAMPLES = 64
"""A rank and ranking, by which ranges are found. More of them make ranges more alike."""
MOST_POINTS = 1000
"""The most points of a curve with its first one, which no sample reaches; all curves have 100 times as many, and each
20 at least."""
FEW_SCORES = 64
"""A ranking with no more different scores than this tells them all."""
_NOT_FINITE, _TOO_MANY = -1, -2
# Whole numbers of any size travel in limbs that are added up without carrying.
_LIMB, _LIMBS = 31, 8


def rank_exactly(
    process: Process,
    rankings: Mapping[str, Sequence[Ranking]],
    *,
    curves: bool = False,
    round_bytes: int = ROUND_BYTES,
) -> tuple[dict[str, Ranked], int]:
    """Rank the samples of all ranks. Every rank has to call it, with the same names in the same order.

    Args:
        process: this rank.
        rankings: name -> samples of this rank, in batches of any sizes; no batch where it has none.
        curves: find points of curves as well; they travel in a collective that there is anyway.
        round_bytes: what a rank sends in one collective of entries at most, and 16 bytes to each other rank at least.

    Returns:
        The rankings, the same on every rank, and the number of collectives: 4 and one a round; 0 for one process.

    Raises:
        InputError: on every rank, when a rank has a score that is not finite, or 2**31 samples.
    """
    group = _Group(process)
    own, sizes = _entries(group, rankings)
    parts = [
        [entries.part(*ends) for ends in zip([0, *cut], [*cut, len(entries.scores)], strict=True)]
        for entries, cut in zip(own, _cuts(group, own, sizes, round_bytes), strict=True)
    ]
    lines = [[[len(part.scores), part.positives.sum(), part.negatives.sum()] for part in row] for row in parts]
    # Of each rank, for each ranking and rank that it sends to: entries, positives, negatives.
    totals = group.gather(np.array(lines, np.int64)).reshape(process.world_size, len(own), process.world_size, 3)
    marks = (max(20, min(MOST_POINTS, 100 * MOST_POINTS // max(1, len(own)))) - 1) // 2 if curves else 0
    told = process.world_size * (1 + FEW_SCORES)
    vector = np.zeros(len(own) * (2 * _LIMBS + told + 6 * marks), np.int64)
    sums = vector[: len(own) * 2 * _LIMBS].reshape(len(own), 2, _LIMBS)
    few = vector[sums.size : sums.size + len(own) * told].reshape(len(own), process.world_size, 1 + FEW_SCORES)
    drawn = vector[sums.size + few.size :].reshape(len(own), 2, marks, 3)
    entries = totals[..., 0]
    for places in _rounds(entries, round_bytes):
        received = _exchange(group, [parts[place] for place in places], entries[:, places], round_bytes)
        for place in places:
            tallied = merged([of_rank.pop(0) for of_rank in received])
            of_ranges = totals[:, place, :, 1:].sum(axis=0)
            (_, below), above = of_ranges[: process.rank].sum(axis=0), of_ranges[process.rank + 1 :].sum(axis=0)
            sums[place, 0] = _limbs(twice_wins(tallied, int(below)))
            sums[place, 1] = _limbs(precision_sum(tallied, int(above[0]), int(above[1])))
            few[place, process.rank, 0] = len(tallied.scores)
            if len(tallied.scores) <= FEW_SCORES:
                few[place, process.rank, 1 : 1 + len(tallied.scores)] = tallied.scores.view(np.int64)
            if marks:
                of_all = of_ranges.sum(axis=0)
                ends = (int(above[0]), int(above[1])), (int(of_all[0]), int(of_all[1]))
                drawn[place] = points(tallied, *ends, marks)
    group.sum(vector)
    found: dict[str, Ranked] = {}
    for place, name in enumerate(rankings):
        positives, negatives = totals[:, place, :, 1:].sum(axis=(0, 1)).tolist()
        found[name] = Ranked(
            num_positives=positives,
            num_negatives=negatives,
            twice_wins=_number(sums[place, 0]),
            precision_sum=_number(sums[place, 1]) / UNIT,  # Python rounds such a quotient once, and correctly
            curve=curve_of(drawn[place]) if marks else (),
            scores=_few_scores(few[place]),
        )
    return found, group.collectives


def _few_scores(told: Ints) -> tuple[float, ...] | None:
    """Those of all ranges, which rise from rank to rank; None where there are more, on any number of ranks.

    Args:
        told: how many a range has, then their bits; shape [ranks, 1 + FEW_SCORES].
    """
    if told[:, 0].sum() > FEW_SCORES:
        return None
    return tuple(np.concatenate([row[1 : 1 + row[0]] for row in told]).view(np.float64).tolist())


def _entries(group: _Group, rankings: Mapping[str, Sequence[Ranking]]) -> tuple[list[Entries], Ints]:
    """This rank's entries, and how many each rank has: shape [ranks, rankings]."""
    own: list[Entries] = []
    state = 0
    for batches in rankings.values():
        if not all(np.isfinite(batch.scores).all() for batch in batches):
            state = _NOT_FINITE
        if sum(len(batch.scores) for batch in batches) >= LARGEST:
            state = _TOO_MANY
        own.append(entries_of([] if state else batches))
    sizes = group.gather(np.array([state, *(len(entries.scores) for entries in own)]))
    for rank, found in enumerate(sizes[:, 0].tolist()):
        if found == _NOT_FINITE:
            raise InputError(f"a score of rank {rank} is not finite. Scores to be ranked have to be numbers.")
        if found == _TOO_MANY:
            raise InputError(f"rank {rank} has {LARGEST} samples to rank, or more. Evaluate on more ranks.")
    return own, sizes[:, 1:]


def _cuts(group: _Group, own: Sequence[Entries], sizes: Ints, round_bytes: int) -> list[list[int]]:
    """Find where this rank's entries of each ranking are cut: ranks - 1 places each.

    A sample stands for `step` entries of its rank: itself and those below it. Borders are every M / R-th of all M
    samples, M <= R K, and belong to the range below. A border has R - 1 equals at most, and of each rank fewer than
    `step` entries of a range have no sample in it: a range has (K + 2 R) `step` entries at most.
    """
    ranks, rankings = sizes.shape
    if ranks == 1:
        return [[] for _ in own]
    most = max(1, min(_SAMPLES, round_bytes // (8 * ranks * ranks * max(1, rankings))))
    steps = np.maximum(1, -(-sizes.sum(axis=0) // (ranks * most)))
    lengths = sizes // steps
    samples = np.zeros(lengths.sum(axis=1).max(initial=0))
    shown = [entries.scores[step - 1 :: step] for entries, step in zip(own, steps.tolist(), strict=True)]
    samples[: int(lengths[group.process.rank].sum())] = np.concatenate(shown) if shown else []
    everyone = group.gather(samples)
    ends = np.cumsum(lengths, axis=1)
    cuts: list[list[int]] = []
    for place, entries in enumerate(own):
        pieces = [everyone[r, ends[r, place] - lengths[r, place] : ends[r, place]] for r in range(ranks)]
        pool = np.sort(np.concatenate(pieces))
        borders = pool[-(-np.arange(1, ranks) * len(pool) // ranks) - 1] if len(pool) else np.zeros(ranks - 1)
        cuts.append(np.searchsorted(entries.scores, borders, side="right").tolist())
    return cuts


def _rounds(entries: Ints, round_bytes: int) -> Iterator[list[int]]:
    """Rankings that are exchanged together: as many as fit into one round, or one that takes any number of them.

    Args:
        entries: how many go, of shape [from rank, rankings, to rank].
    """
    most = _most(len(entries), round_bytes)
    places: list[int] = []
    load = np.zeros((len(entries), len(entries)), np.int64)
    for place in range(entries.shape[1]):
        load += entries[:, place]
        if places and (load.max() > most or len(entries) == 1):
            yield places
            places, load = [], entries[:, place].copy()
        places.append(place)
    if places:
        yield places


def _exchange(group: _Group, parts: list[list[Entries]], entries: Ints, round_bytes: int) -> list[list[Entries]]:
    """Send the parts of some rankings to the ranks that they belong to.

    Args:
        parts: of each ranking, what each rank is to have.
        entries: how many go, of shape [from rank, rankings, to rank].

    Returns:
        Of each rank, its entries of each ranking.
    """
    rank, ranks = group.process.rank, group.process.world_size
    if ranks == 1:
        return [[row[0] for row in parts]]
    # (One ranking may be long, and is not copied; several fit into one round.)
    single = len(parts) == 1
    outgoing = [parts[0][to] if single else _joined([row[to] for row in parts]) for to in range(ranks)]
    pairs = entries.sum(axis=1)
    mine = [Entries(np.empty(length), np.empty(length, np.int64)) for length in pairs[:, rank].tolist()]
    most = _most(ranks, round_bytes)
    for first in range(0, int(pairs.max()), most):
        pieces = [entries.part(first, first + most) for entries in outgoing]
        sent = np.empty((sum(len(piece.scores) for piece in pieces), 2), np.int64)
        sent[:, 0] = np.concatenate([piece.scores for piece in pieces]).view(np.int64)
        sent[:, 1] = np.concatenate([piece.counts for piece in pieces])
        lengths = np.clip(pairs[:, rank] - first, 0, most).tolist()
        came = group.deal(sent, [len(piece.scores) for piece in pieces], lengths)
        for one, piece in zip(mine, np.split(came, np.cumsum(lengths)[:-1]), strict=True):
            one.scores[first : first + len(piece)] = piece[:, 0].copy().view(np.float64)
            one.counts[first : first + len(piece)] = piece[:, 1]
    found: list[list[Entries]] = []
    for one, lengths in zip(mine, entries[:, :, rank], strict=True):
        ends = np.cumsum(lengths)
        found.append([one.part(*part) for part in zip((ends - lengths).tolist(), ends.tolist(), strict=True)])
    return found


def _joined(several: list[Entries]) -> Entries:
    return Entries(*(np.concatenate(columns) for columns in zip(*several, strict=True)))


def _most(ranks: int, round_bytes: int) -> int:
    """Entries that one rank sends another in one round."""
    return max(1, round_bytes // (BYTES * ranks))


def _limbs(number: int) -> list[int]:
    assert number >> (_LIMB * _LIMBS) == 0
    return [(number >> (_LIMB * place)) & ((1 << _LIMB) - 1) for place in range(_LIMBS)]


def _number(limbs: Ints) -> int:
    return sum(limb << (_LIMB * place) for place, limb in enumerate(limbs.tolist()))


class _Group:
    """The collectives, which are counted."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.collectives = 0

    def gather(self, own: NDArray[Any]) -> NDArray[Any]:
        """The arrays of all ranks, which have one shape: [ranks, n]."""
        flat = np.ascontiguousarray(own).reshape(-1)
        if self.process.world_size == 1:
            return flat[None]
        self.collectives += 1
        return self.process.group.all_gather(flat)

    def sum(self, own: Ints) -> Ints:
        if self.process.world_size > 1:
            self.collectives += 1
            self.process.group.sum(own)
        return own

    def deal(self, sent: Ints, to: list[int], of: list[int]) -> Ints:
        """Rows to each rank, of the lengths `to`, for rows from each, of the lengths `of`."""
        self.collectives += 1
        return self.process.group.all_to_all(sent, to, of)
