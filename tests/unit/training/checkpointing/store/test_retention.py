from __future__ import annotations

import itertools
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.store.manifest import Manifest
from drivetrain.training.checkpointing.store.retention import Retention, to_remove


def manifests(*steps: int, **values: list[Any]) -> dict[int, Manifest]:
    """One for each step; `loss=[...]` are metrics, `saved_at=[...]` a value, in the order of the steps."""
    made: dict[int, Manifest] = {}
    for number, step in enumerate(steps):
        given: dict[str, Any] = {name: listed[number] for name, listed in values.items() if name == "saved_at"}
        given["metrics"] = {name: listed[number] for name, listed in values.items() if name != "saved_at"}
        made[step] = Manifest(step=step, files=(), values=given)
    return made


def kept(of: dict[int, Manifest], policy: Retention, good: set[int] | None = None) -> list[int]:
    good = set(of) if good is None else good
    return sorted(set(of) - set(to_remove(of, policy, good=good)))


def test_the_last_by_number() -> None:
    assert kept(manifests(8, 9, 10, 11, 100), Retention(last=3)) == [10, 11, 100]
    assert kept(manifests(9, 10), Retention(last=3)) == [9, 10]
    assert kept({}, Retention()) == []


def test_nothing_is_removed_while_no_checkpoint_is_known_good() -> None:
    assert kept(manifests(1, 2, 3, 4), Retention(last=1), good=set()) == [1, 2, 3, 4]


def test_the_only_good_checkpoint_is_kept() -> None:
    """A peer's bug: the old copy was pruned before the new one was known to be good."""
    assert kept(manifests(1, 2, 3, 4, 5), Retention(last=2), good={2}) == [2, 3, 4, 5]
    assert kept(manifests(1, 2, 3, 4, 5), Retention(last=2), good={2, 5}) == [4, 5]


def test_one_good_checkpoint_is_always_left() -> None:
    steps = (1, 2, 3, 4, 5)
    policies = [
        Retention(last=last, best=best, every_hours=hours) for last in (1, 2) for best in (0, 1) for hours in (0, 1)
    ]
    given = manifests(*steps, loss=[1, 2, 3, 4, 5], saved_at=[0, 10, 20, 30, 40])
    for count in range(1, 6):
        for good in itertools.combinations(steps, count):
            for policy in policies:
                left = kept(given, policy, good=set(good))
                assert max(good) in left
                assert left[-1] == 5 and len(left) >= policy.last


def test_the_best_ones() -> None:
    given = manifests(1, 2, 3, 4, 5, loss=[0.5, 0.1, 0.3, 0.1, 0.9], accuracy=[0.5, 0.9, 0.7, 0.9, 0.1])
    assert kept(given, Retention(last=1, best=1)) == [4, 5]  # of equal ones the later
    assert kept(given, Retention(last=1, best=2)) == [2, 4, 5]
    assert kept(given, Retention(last=1, best=3)) == [2, 3, 4, 5]
    assert kept(given, Retention(last=1, best=2, metric="accuracy", greater_is_better=True)) == [2, 4, 5]
    assert kept(given, Retention(last=1, best=2, metric="accuracy")) == [1, 5]


@pytest.mark.parametrize("value", [None, "0.1", True, False, float("nan"), float("inf"), [1]])
def test_an_invalid_metric_is_not_the_best(value: object) -> None:
    given = manifests(1, 2, 3, loss=[value, 0.7, 0.8])
    assert kept(given, Retention(last=1, best=1)) == [2, 3]
    given[2] = Manifest(step=2, files=(), values={"metrics": "none"})
    given[1] = Manifest(step=1, files=())
    assert kept(given, Retention(last=1, best=1)) == [3]


HOUR = 3600.0


def test_one_every_so_many_hours() -> None:
    given = manifests(*range(1, 9), saved_at=[number * HOUR / 2 for number in range(8)])
    assert kept(given, Retention(last=1, every_hours=1)) == [1, 3, 5, 7, 8]
    # ... and the same, when those in between have gone
    left = {step: given[step] for step in kept(given, Retention(last=1, every_hours=1))}
    assert kept(left, Retention(last=1, every_hours=1)) == [1, 3, 5, 7, 8]
    iso = manifests(
        1, 2, 3, saved_at=["2026-11-20T23:30:00+00:00", "2026-11-20T23:59:00+00:00", "2026-11-21T01:30:00+01:00"]
    )
    assert kept(iso, Retention(last=1, every_hours=0.4)) == [1, 2, 3]
    assert kept(iso, Retention(last=1, every_hours=0.9)) == [1, 3]


@pytest.mark.parametrize("off", [-86_400.0, 86_400.0])
def test_a_clock_that_is_a_day_off_keeps_more_and_not_less(off: float) -> None:
    times = [0, 1800, 3600 + off, 5400 + off, 7200, 9000]
    given = manifests(*range(1, 7), saved_at=times)
    assert kept(given, Retention(last=1, every_hours=2)) == [1, 3, 5, 6]
    assert kept(given, Retention(last=2)) == [5, 6]


@pytest.mark.parametrize("value", [None, "yesterday", float("nan"), [], {}])
def test_invalid_times_keep_nothing(value: object) -> None:
    assert kept(manifests(1, 2, 3, saved_at=[value, 0, value]), Retention(last=1, every_hours=1)) == [2, 3]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"last": 0}, "at least 1 checkpoint must stay"),
        ({"best": -1}, "0 or more"),
        ({"every_hours": -1.0}, "a number of hours"),
        ({"every_hours": float("nan")}, "a number of hours"),
    ],
)
def test_invalid_policies_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Retention(**given)
