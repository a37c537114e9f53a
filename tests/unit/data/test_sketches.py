"""Quantiles and numbers of different values against the values themselves."""

from __future__ import annotations

import bisect
import datetime as dt
import itertools
import json
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from drivetrain.data.arrow import arrow
from drivetrain.data.sketches import Distinct, K, Quantiles

ROWS = 400_000
_draw = random.Random(3)
SHAPES: dict[str, Callable[[int], float]] = {
    "normal": lambda row: _draw.gauss(0, 1),
    "heavy": lambda row: _draw.paretovariate(0.5),
    "sorted": float,
    "falling": lambda row: -float(row),
    "as the pieces": lambda row: float(row % 64),
    "few": lambda row: float(_draw.randrange(3)),
}


@pytest.fixture(scope="module", autouse=True)
def _arrow() -> None:
    arrow()


def sketch(values: pa.Array, piece: int = 1 << 16) -> Quantiles:
    found = Quantiles()
    for start in range(0, len(values), piece):
        found.add(values.slice(start, piece))
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_ranks_are_off_by_less_than_half_a_percent(shape: str) -> None:
    values = [SHAPES[shape](row) for row in range(ROWS)]
    found = sketch(pa.array(values))
    ordered = sorted(values)
    fractions = [place / 50 for place in range(51)]
    for fraction, value in zip(fractions, found.at(fractions), strict=True):
        low, high = (side(ordered, value) / ROWS for side in (bisect.bisect_left, bisect.bisect_right))
        assert low - 0.005 <= fraction <= high + 0.005, (fraction, value)
    assert found.count == ROWS
    assert len(json.dumps(found.state())) < 100_000


def test_a_sketch_is_exact_up_to_k_values() -> None:
    values = random.Random(1).sample(range(10_000), K)
    found = sketch(pa.array(values, pa.float64()), piece=100)
    ordered = sorted(values)
    fractions = [0, 0.01, 0.25, 0.5, 0.9, 1]
    assert found.at(fractions) == pytest.approx(np.quantile(ordered, fractions).tolist(), rel=1e-15)
    assert sketch(pa.array([10.0, 1.0, 3.0, 2.0])).at([0.5]) == [2.5]
    assert sketch(pa.array([-1e308, 1e308])).at([0.5]) == [0.0]
    edges = [0.0, 2500.0, 5000.0, float(ordered[-1])]
    counted = [sum(low <= value < high for value in values) for low, high in itertools.pairwise(edges)]
    assert found.rows_between(edges) == [*counted[:-1], counted[-1] + 1]


def test_a_sketch_resumes_from_its_state() -> None:
    values = pa.array([_draw.random() for _ in range(200_000)])
    whole, part = sketch(values), sketch(values.slice(0, 1 << 17))
    again = Quantiles.restored(json.loads(json.dumps(part.state())))
    for start in range(1 << 17, len(values), 1 << 16):
        again.add(values.slice(start, 1 << 16))
    assert again.state() == whole.state()


@pytest.mark.parametrize("parts", [2, 60])
def test_merged_sketches_keep_the_bounds(parts: int) -> None:
    values = [SHAPES["heavy"](row) for row in range(ROWS)]
    found, different = Quantiles(), Distinct()
    for part in range(parts):  # of different sizes
        rows = pa.array(values[ROWS * part * part // parts**2 : ROWS * (part + 1) ** 2 // parts**2])
        found.merge(sketch(rows))
        each = Distinct()
        each.add(rows)
        different.merge(each)
    ordered = sorted(values)
    fractions = [place / 50 for place in range(51)]
    for fraction, value in zip(fractions, found.at(fractions), strict=True):
        low, high = (side(ordered, value) / ROWS for side in (bisect.bisect_left, bisect.bisect_right))
        assert low - 0.005 <= fraction <= high + 0.005, (fraction, value)
    one_pass = Distinct()
    one_pass.add(pa.array(values))
    assert found.count == ROWS and different.state() == one_pass.state()
    few = [sketch(pa.array(values[start : start + 500])) for start in (0, 500, 1000)]
    few[0].merge(few[1])
    few[0].merge(few[2])
    assert few[0].at([0.3]) == pytest.approx([np.quantile(values[:1500], 0.3)], rel=1e-15)  # exact up to K


def test_an_empty_sketch_has_no_quantiles() -> None:
    assert sketch(pa.array([], pa.float64())).at([0.5]) == []


@pytest.mark.parametrize("count", [10, 2047, 50_000, ROWS])
@pytest.mark.parametrize("kind", ["int64", "double", "string"])
def test_different_values_are_counted(count: int, kind: str) -> None:
    found = Distinct()
    numbers = pa.array(range(count), pa.int64())
    for _ in range(2):
        for start in range(0, count, 1 << 16):
            piece = numbers.slice(start, 1 << 16)
            found.add(piece.cast(pa.type_for_alias(kind)))
    assert found.estimate == count if count < K else abs(found.estimate - count) < 0.08 * count
    assert Distinct.restored(json.loads(json.dumps(found.state()))).estimate == found.estimate


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_texts_of_any_length_are_distinguished(kind: Any) -> None:
    texts = [letter * length + end for letter in "aé\0" for length in range(90) for end in ("", "x")]
    column = pa.array(["before", *texts, "after"], pa.string()).cast(kind)
    found = Distinct()
    found.add(column.slice(1, len(texts)))
    assert found.estimate == len(set(texts))
    for start in range(0, len(texts), 7):  # other neighbours, another place in the buffer: the same hashes
        found.add(pa.array(texts[start : start + 7], pa.string()).cast(kind))
    assert found.estimate == len(set(texts))


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([0.0, -0.0, 1.0], pa.float64(), 2),
        ([True, False, True], pa.bool_(), 2),
        ([2**64 - 1, 0], pa.uint64(), 2),
        ([-1, 1], pa.int8(), 2),
        ([Decimal("1.10"), Decimal("1.20")], pa.decimal128(5, 2), 2),
        ([dt.date(2026, 1, 1), dt.date(2026, 1, 2)], pa.date32(), 2),
        ([dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1)], pa.timestamp("us", tz="UTC"), 1),
        (["", "a", "ä"], pa.string(), 3),
    ],
    ids=str,
)
def test_types(values: list[Any], kind: Any, expected: int) -> None:
    found = Distinct()
    found.add(pa.array(values, kind))
    assert found.estimate == expected
