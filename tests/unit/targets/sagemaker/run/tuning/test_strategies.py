"""Every strategy: in its ranges, the same for the same seed, and each by what makes it that strategy."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from drivetrain.targets.sagemaker.run.tuning import strategies
from drivetrain.targets.sagemaker.run.tuning.config import JobDefinition, Objective, known_strategies
from drivetrain.targets.sagemaker.run.tuning.space import Categorical, Continuous, Integer, Range
from drivetrain.targets.sagemaker.run.tuning.strategies import Search, Tried

LETTERS = Categorical("letter", ("a", "b", "c"))
RANGES: tuple[Range, ...] = (
    LETTERS,
    Integer("depth", 1, 64, "Logarithmic"),
    Continuous("rate", 1e-4, 1e-1, "Logarithmic"),
    Continuous("decay", 0.9, 0.999, "ReverseLogarithmic"),
)


def definition(ranges: tuple[Range, ...], *, maximize: bool = False) -> JobDefinition:
    return JobDefinition(name=None, arguments={}, ranges=ranges, static={}, objective=Objective("loss", maximize))


def searched(strategy: str, ranges: tuple[Range, ...], total: int, *, seed: int = 1, **given: Any) -> list[Tried]:
    """A whole search, one training after the other; the objective is what `score` makes of the parameters."""
    score = given.get("score", lambda parameters: 1.0)
    tried: list[Tried] = []
    for number in range(total):
        search = Search(
            definition=definition(ranges, maximize=given.get("maximize", False)),
            number=number,
            total=total,
            seed=seed,
            earlier=tuple(tried),
        )
        found = strategies.find(strategy).suggest(search)
        tried.append(Tried(found, score(found)))
    return tried


@pytest.mark.parametrize("strategy", known_strategies())
def test_each_strategy_stays_in_its_ranges_and_repeats_itself(strategy: str) -> None:
    ranges = (LETTERS, Categorical("size", ("1", "2", "3", "4"))) if strategy == "Grid" else RANGES
    found = searched(strategy, ranges, 12)
    assert found == searched(strategy, ranges, 12)
    for tried in found:
        assert list(tried.parameters) == [one.name for one in ranges]
        assert tried.parameters["letter"] in LETTERS.values
        if strategy != "Grid":
            assert 1 <= int(tried.parameters["depth"]) <= 64
            assert 1e-4 <= float(tried.parameters["rate"]) <= 1e-1
            assert 0.9 <= float(tried.parameters["decay"]) <= 0.999


@pytest.mark.parametrize("strategy", [name for name in known_strategies() if name != "Grid"])
def test_another_seed_is_another_search(strategy: str) -> None:
    first, other = (searched(strategy, RANGES, 3, seed=seed) for seed in (1, 2))
    assert [tried.parameters for tried in first] != [tried.parameters for tried in other]


def test_a_grid_has_every_combination_once_in_order() -> None:
    ranges = (LETTERS, Categorical("size", ("1", "2")))
    found = [tuple(tried.parameters.values()) for tried in searched("Grid", ranges, 6)]
    assert found == list(product("abc", "12"))


@pytest.mark.slow
def test_bayes_gets_closer_than_chance() -> None:
    ranges = (Continuous("x", -5, 5), Continuous("y", 1e-4, 1, "Logarithmic"))

    def score(parameters: dict[str, str]) -> float:
        return (float(parameters["x"]) - 2) ** 2 + (math.log10(float(parameters["y"])) + 2) ** 2

    def found(strategy: str) -> float:
        """The mean of the best of 24 trainings, over some seeds: one may be lucky."""
        searches = [searched(strategy, ranges, 24, seed=seed, score=score) for seed in range(8)]
        return sum(min(tried.objective or 0.0 for tried in search) for search in searches) / 8

    assert found("Bayesian") < 0.5 * found("Random")


def test_bayes_follows_the_objective_upwards_too() -> None:
    ranges = (Categorical("letter", ("a", "b", "c", "d")),)
    found = searched("Bayesian", ranges, 30, maximize=True, score=lambda given: float(given["letter"] == "d"))
    assert sum(tried.parameters["letter"] == "d" for tried in found[20:]) >= 6


def test_bayes_does_not_try_at_once_what_is_being_tried() -> None:
    ranges = (Continuous("x", 0, 1),)
    done = [Tried({"x": repr(place / 12)}, (place / 12 - 0.5) ** 2) for place in range(12)]
    places: list[float] = []
    for number in range(4):
        running = [Tried({"x": repr(place)}, None) for place in places]
        search = Search(definition=definition(ranges), number=12 + number, total=30, seed=1, earlier=(*done, *running))
        places.append(float(strategies.find("Bayesian").suggest(search)["x"]))
    assert len({round(place, 3) for place in places}) == 4


def test_bayes_keeps_away_from_what_cannot_be_trained() -> None:
    """Two of three categories fail; the third is bad, but it is all there is."""
    ranges = (Categorical("letter", ("a", "b", "c")),)
    tried: list[Tried] = []
    for number in range(24):
        search = Search(definition=definition(ranges), number=number, total=24, seed=1, earlier=tuple(tried))
        found = strategies.find("Bayesian").suggest(search)
        failed = found["letter"] != "c"
        tried.append(Tried(found, None if failed else 10.0 - number / 100, failed))
    late = [one.parameters["letter"] for one in tried[14:]]
    assert late.count("c") >= 6


@pytest.mark.parametrize("maximize", [False, True])
def test_bayes_takes_a_failure_for_as_bad_as_the_worst(maximize: bool) -> None:
    ranges = (Categorical("letter", ("a", "b")),)
    told = [Tried({"letter": "a"}, None, failed=True), Tried({"letter": "b"}, 1.0), Tried({"letter": "b"}, 9.0)]
    found = [
        strategies.find("Bayesian").suggest(
            Search(definition=definition(ranges, maximize=maximize), number=18, total=30, seed=seed, earlier=told * 6)
        )
        for seed in range(10)
    ]
    assert sum(one["letter"] == "b" for one in found) >= 8


@pytest.mark.parametrize("strategy", [name for name in known_strategies() if name != "Grid"])
def test_each_definition_has_a_search_of_its_own(strategy: str) -> None:
    """With one seed; else their trainings, which take turns, would all be the same."""
    first, second = (
        strategies.find(strategy).suggest(
            Search(definition=replace(definition(RANGES), name=name), number=0, total=9, seed=1)
        )
        for name in ("wide", "deep")
    )
    assert first != second


def test_bayes_learns_nothing_from_failures_alone() -> None:
    ranges = (Continuous("x", 0, 1),)
    failed = Tried({"x": "0.5"}, None, failed=True)
    search = Search(definition=definition(ranges), number=1, total=10, seed=1, earlier=(failed,))
    alone = Search(definition=definition(ranges), number=1, total=10, seed=1)
    assert strategies.find("Bayesian").suggest(search) == strategies.find("Bayesian").suggest(alone)


def test_without_optuna_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    assert strategies.missing("Bayesian") is None and strategies.missing("Random") is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install 'drivetrain[tuning]'" in str(strategies.missing("Bayesian"))
