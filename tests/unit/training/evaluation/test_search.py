"""The search for slices with a larger loss: how often it errs, what it finds, and what it calls it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from drivetrain.training.evaluation.search import Search, search, sentences


def found(seed: int, rows: int = 1000, planted: float = 0.0, copies: int = 1, **more: Any) -> Search:
    random = np.random.default_rng(seed)
    plan = np.repeat(random.choice(list("abcd"), rows // copies).astype(object), copies)
    site = np.repeat(random.choice(list("xyz"), rows // copies).astype(object), copies)
    columns: dict[str, Any] = {"age": random.normal(size=rows), "visits": random.integers(0, 40, rows), "plan": plan}
    columns |= {"site": site, "flag": random.random(rows) < 0.3, **more}
    losses = random.exponential(size=rows) + planted * ((plan == "b") & (site == "y"))
    losses += np.repeat(random.exponential(size=rows // copies), copies) * (copies > 1)
    keys = np.repeat(random.integers(0, 2**63, rows // copies).astype(np.uint64), copies)
    return search(columns, losses, keys, 0.95)


@pytest.mark.parametrize("copies", [1, 4])
def test_slices_are_rarely_found_where_none_is_worse(copies: int) -> None:
    runs = 150
    wrong = sum(bool(found(seed, copies=copies).found) for seed in range(runs))
    assert wrong <= 0.05 * runs + 3 * math.sqrt(0.05 * 0.95 * runs)


@pytest.mark.parametrize("share", [0.8, 0.95])
def test_slices_are_rarely_found_where_most_losses_are_one(share: float) -> None:
    """A slice whose losses are all equal is no sign: without a variance of its own it was one in most data sets."""
    random, wrong, runs = np.random.default_rng(7), 0, 60
    for _ in range(runs):
        columns = {f"x{number}": random.integers(0, 8, 600).astype(str).astype(object) for number in range(4)}
        losses = (random.random(600) < share).astype(float)
        wrong += bool(search(columns, losses, random.integers(0, 2**63, 600).astype(np.uint64), 0.95).found)
    assert wrong <= 0.05 * runs + 3 * math.sqrt(0.05 * 0.95 * runs)


def test_a_planted_slice_is_found_with_the_size_of_its_effect() -> None:
    results = [found(seed, planted=0.8) for seed in range(40)]
    hits = [each for one in results for each in one.found if each.where == "plan = b, site = y"]
    assert len(hits) >= 38
    assert sum(each.low <= 0.8 <= each.high for each in hits) >= 36
    assert np.mean([each.difference for each in hits]) == pytest.approx(0.8, abs=0.1)
    assert all(each.chance <= 0.05 and each.loss - each.others == pytest.approx(each.difference) for each in hits)
    (line, *listed) = sentences(results[0])
    assert line.startswith("Slices with a larger loss (") and "tested on the other half" in line
    assert any(each.startswith("plan = b, site = y: mean loss ") for each in listed)


def test_bins_of_numbers_and_missing_values_are_slices() -> None:
    random = np.random.default_rng(5)
    age = random.normal(size=2000)
    age[:300] = np.nan
    losses = random.normal(size=2000) + np.isnan(age) + 2.0 * (age > np.nanquantile(age, 0.75))
    result = search({"age": age}, losses, random.integers(0, 2**63, 2000).astype(np.uint64), 0.95)
    assert [each.where.partition(" ")[2][:6] for each in result.found] == ["above ", "missin"]


def test_a_wide_table_pairs_the_worst_columns_alone() -> None:
    random = np.random.default_rng(1)
    many = {f"x{number}": random.normal(size=1000) for number in range(60)}
    result = found(11, planted=2.0, **many)
    assert result.ranked < 6_000, "30 columns of 4 bins have some 7,000 pairs, of them half with a larger loss"
    assert "plan = b, site = y" in [each.where for each in result.found]


def test_nothing_found_is_said() -> None:
    (line,) = sentences(found(3))
    assert line.startswith("No slice has a larger loss: ") and "ranked by their loss on one half" in line
    assert search({"one": np.array(["a"] * 5, object)}, np.ones(5), np.arange(5).astype(np.uint64), 0.95).ranked == 0
