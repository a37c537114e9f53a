"""A search for slices with a larger loss than the other rows: values of a column, and pairs of two columns' values.

What was found and then measured on the same rows would look worse than it is. So the rows are cut in two halves by
their keys: in one the slices are ranked, in the other the first of them are tested, all together (S. Holm, "A Simple
Sequentially Rejective Multiple Test Procedure", 1979). Numbers of a reported slice are of the second half.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.input_pipeline.prepared import PreparedData
from drivetrain.training.metric import Floats, Ints
from drivetrain.training.metric_states.numbers.hashing import Hashes, hash_column
from drivetrain.training.metric_states.rows import RowTable
from drivetrain.training.metric_states.uncertainty.intervals import beta_share, student

LEAST_ROWS = 30
MOST_TESTED = 10
MOST_PAIRED = 30
"""Columns that are combined with each other: those with the worst single values."""
MOST_VALUES = 32
"""The most values of a column of categories; rarer ones are left out."""
BINS = 4
_FEW = 12  # so many numbers are values and not a scale


class Bins(NamedTuple):
    """A column as bins: the bin of each row, int64 [n], -1 for none; and the name of each bin."""

    places: Ints
    names: list[str]


@dataclass(frozen=True, kw_only=True)
class Found:
    """A slice whose mean loss is larger; all numbers are those of the second half.

    Attributes:
        where: its columns with values, as `plan = pro, age up to 31.5`.
        difference: its mean loss less that of the other rows; `low` and `high` hold it, all found slices together.
        chance: that no slice was worse, corrected by Holm.
    """

    where: str
    num_samples: int
    loss: float
    others: float
    difference: float
    low: float
    high: float
    chance: float


class Search(NamedTuple):
    """The result: the slices that were found, how many were ranked, and how many of these were tested."""

    found: list[Found]
    ranked: int
    tested: int


def search(columns: Mapping[str, NDArray[Any]], losses: Floats, keys: Hashes, confidence: float) -> Search:
    """Look for slices with a larger loss.

    Args:
        columns: of the data by name, shape [n] each: numbers (NaN: missing), or texts, bools and None.
        losses: shape [n].
        keys: a hash of each row's key, shape [n]: rows of one key vary together.
        confidence: 0.95 for a chance of at most 0.05 that any slice is reported where none is worse.
    """
    first = (keys >> np.uint64(32)) % np.uint64(2) == 0
    every = {name: _bins(values) for name, values in columns.items()}
    binned = {name: each for name, each in every.items() if len(each.names) > 1}
    ranked = _ranked({name: Bins(each.places[first], each.names) for name, each in binned.items()}, losses[first])
    chosen = _apart(ranked)[:MOST_TESTED]
    rest = ~first
    tests = [_tested(_mask(binned, one, rest), losses[rest], keys[rest]) for one in chosen]
    order = sorted(range(len(tests)), key=lambda place: tests[place].chance)
    found: list[Found] = []
    least = 0.0
    for number, place in enumerate(order):
        test = tests[place]
        least = max(least, test.chance * (len(order) - number))
        if least > 1 - confidence:
            break
        reach = student(1 - (1 - confidence) / 2 / len(order), test.degrees) * test.error
        found.append(
            Found(
                where=", ".join(f"{name} {binned[name].names[bin_]}" for name, bin_ in chosen[place]),
                num_samples=test.num_samples,
                loss=test.loss,
                others=test.loss - test.difference,
                difference=test.difference,
                low=test.difference - reach,
                high=test.difference + reach,
                chance=least,
            )
        )
    return Search(sorted(found, key=lambda each: -each.difference * each.num_samples), len(ranked), len(chosen))


def search_rows(rows: RowTable, data: Path, confidence: float) -> Search:
    """The search by the losses that an evaluation kept, and all columns of prepared data but label, key and lists."""
    about = json.loads(rows.arrays["about"].tobytes())
    losses = rows.arrays[f"column_{about['metrics']['loss']['column']}"].astype(np.float64)
    keys = rows.arrays.get("keys")
    keys = hash_column(np.arange(len(losses))) if keys is None else keys.astype(np.uint64)
    return search(_read(PreparedData(data)), losses, keys, confidence)


def _read(data: PreparedData) -> dict[str, NDArray[Any]]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    found: dict[str, NDArray[Any]] = {}
    for name in data.column_names:
        if name in (data.label, data.key):
            continue
        parts = [parquet.read_table(data.folder / each.file, columns=[name])[name] for each in data.shards]
        column = pa.chunked_array([chunk for part in parts for chunk in part.chunks], parts[0].type)
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            found[name] = column.to_numpy()
        elif pa.types.is_string(column.type) or pa.types.is_boolean(column.type):
            found[name] = np.array([*column.to_pylist(), None], dtype=object)[:-1]
    return found


def sentences(result: Search) -> list[str]:
    """The result for people."""
    how = (
        f"{result.ranked:,} slices were ranked by their loss on one half of the rows, and the first {result.tested} "
        "tested on the other half"
    )
    if not result.found:
        return [f"No slice has a larger loss: {how}."]
    listed = [
        f"{each.where}: mean loss {each.loss:.4g}, of the other rows {each.others:.4g}; {each.difference:.3g} more "
        f"({each.low:.3g} to {each.high:.3g}), {each.num_samples:,} rows, corrected p {each.chance:.2g}."
        for each in result.found
    ]
    return [f"Slices with a larger loss ({how}):", *listed]


# Columns with a bin each.
_Slice = tuple[tuple[str, int], ...]


def _bins(values: NDArray[Any]) -> Bins:
    """Numbers by quartiles, unless they are few; else by value, the most frequent ones."""
    if values.dtype.kind in "iuf":
        numbers = values.astype(np.float64)
        there = numbers[np.isfinite(numbers)]
        distinct = np.unique(there)
        if len(distinct) > _FEW:
            cuts = np.unique(np.quantile(there, np.arange(1, BINS) / BINS, method="lower"))
            places = np.searchsorted(cuts, numbers, side="left").astype(np.int64)
            ends = [
                f"up to {cuts[0]:.6g}",
                *(f"above {a:.6g}, up to {b:.6g}" for a, b in pairwise(cuts.tolist())),
            ]
            names = [*ends, f"above {cuts[-1]:.6g}"]
            missing = ~np.isfinite(numbers)
            places[missing] = len(names)
            return Bins(places, names + ["missing"] * bool(missing.any()))
        texts: list[Any] = [None if not math.isfinite(each) else each for each in numbers.tolist()]
        if values.dtype.kind in "iu":
            texts = [None if each is None else int(each) for each in texts]
    else:
        texts = values.tolist()
    counts: dict[Any, int] = {}
    for each in texts:
        counts[each] = counts.get(each, 0) + 1

    def name_of(each: Any) -> str:
        return "missing" if each is None else f"= {each:.6g}" if isinstance(each, float) else f"= {each}"[:60]

    kept = sorted(counts, key=lambda each: (-counts[each], str(each)))[:MOST_VALUES]
    number = {each: place for place, each in enumerate(kept)}
    places = np.fromiter((number.get(each, -1) for each in texts), np.int64, len(texts))
    return Bins(places, [name_of(each) for each in kept])


def _ranked(binned: Mapping[str, Bins], losses: Floats) -> list[_Slice]:
    """Slices with a larger mean loss, by Welch's t, the largest first; variances are as in `_tested`."""
    total = np.array([len(losses), losses.sum(), (losses**2).sum()])
    least = float(losses.var()) if len(losses) else 0.0
    found: list[tuple[float, _Slice]] = []

    def look(places: Ints, size: int, named: Any) -> None:
        inside = places >= 0
        sums = [np.bincount(places[inside], weights, size) for weights in (None, losses[inside], losses[inside] ** 2)]
        counts = sums[0]
        enough = np.flatnonzero((counts >= LEAST_ROWS) & (total[0] - counts >= LEAST_ROWS))
        means, errors = [], []
        for part in (sums, [all_ - own for all_, own in zip(total, sums, strict=True)]):
            number, added, squared = (each[enough] for each in part)
            means.append(added / number)
            errors.append(np.maximum(squared / number - (added / number) ** 2, least) / number)
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = (means[0] - means[1]) / np.sqrt(errors[0] + errors[1])
        found.extend(
            (score, named(int(bin_))) for score, bin_ in zip(scores.tolist(), enough, strict=True) if score > 0
        )

    for name, one in binned.items():
        look(one.places, len(one.names), lambda bin_, name=name: ((name, bin_),))
    best: dict[str, float] = {}
    for score, ((name, _),) in found:
        best[name] = max(score, best.get(name, 0.0))
    paired = sorted(binned, key=lambda name: -best.get(name, 0.0))[:MOST_PAIRED]
    for name, other in combinations([each for each in binned if each in paired], 2):
        one, two = binned[name], binned[other]
        width = len(two.names)
        both = np.where((one.places < 0) | (two.places < 0), -1, one.places * width + two.places)
        look(
            both,
            len(one.names) * width,
            lambda bin_, pair=(name, other), width=width: ((pair[0], bin_ // width), (pair[1], bin_ % width)),
        )
    return [one for _, one in sorted(found, key=lambda each: (-each[0], each[1]))]


def _apart(ranked: Sequence[_Slice]) -> list[_Slice]:
    """Those that share no value with one before them: they would hold the same rows."""
    seen: set[tuple[str, int]] = set()
    found: list[_Slice] = []
    for one in ranked:
        if seen.isdisjoint(one):
            found.append(one)
            seen.update(one)
    return found


def _mask(binned: Mapping[str, Bins], one: _Slice, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.logical_and.reduce([binned[name].places[rows] == bin_ for name, bin_ in one])


class _Test(NamedTuple):
    num_samples: int
    loss: float
    difference: float
    error: float
    degrees: int
    chance: float


def _tested(inside: NDArray[np.bool_], losses: Floats, keys: Hashes) -> _Test:
    """The difference of means with its standard error over keys, and the chance of one so large by Student's t, with as
    many keys as the smaller part has.

    No part varies less than all rows together: one whose losses happen to be equal would have no error at all.
    """
    count = int(inside.sum())
    if min(count, len(losses) - count) < 2:
        return _Test(count, math.nan, math.nan, math.nan, 1, 1.0)
    places = np.unique(keys, return_inverse=True)[1].reshape(-1)

    def moves(rows: NDArray[np.bool_]) -> tuple[Floats, int, int]:
        """The distance by which each key moves the mean of some rows; and how many rows and keys these are."""
        moved = np.zeros(int(places.max()) + 1)
        np.add.at(moved, places[rows], (losses[rows] - losses[rows].mean()) / rows.sum())
        return moved, int(rows.sum()), len(np.unique(places[rows]))

    parts, (all_, _, units) = [moves(inside), moves(~inside)], moves(np.ones_like(inside))
    variance = -2 * float(parts[0][0] @ parts[1][0])
    for own, number, keyed in parts:
        variance += max(float(own @ own), float(all_ @ all_) * units / keyed, float(losses.var()) / number)
    fewest = min(keyed for _, _, keyed in parts)
    degrees = max(1, fewest - 1)
    error = math.sqrt(variance * fewest / degrees)
    own, others = float(losses[inside].mean()), float(losses[~inside].mean())
    t = (own - others) / error if error else 0.0
    tail = 0.5 * beta_share(degrees / (degrees + t * t), degrees / 2, 0.5)
    return _Test(count, own, own - others, error, degrees, tail if t > 0 else 1.0)
