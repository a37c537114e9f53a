"""Lines of candidates: which comparison is a night of which line, and what is kept of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.decision.lines import YEAR_SECONDS, Tonight, entered
from drivetrain.decision.standing import Standing, about_standing, total

DAY = 86_400.0


class Group:
    """The evidence of a group, to which a night after the other is added."""

    def __init__(self, allowed: int = 4) -> None:
        self.kept, self.allowed, self.day = b"", allowed, 0

    def night(self, won: int = 60, lost: int = 0, first: int = 0, of: int = 500, **given: Any) -> Standing:
        """Compare a new candidate on the rows `first` and following, of which it wins the first ones. What it is
        `given` is of Tonight."""
        self.day += 1
        rows = np.arange(first, first + of, dtype=np.uint64)
        parts = np.array([1.0] * won + [-1.0] * lost + [0.0] * (of - won - lost)) / of
        about = {
            "champion": "c",
            "candidate": f"model {self.day}",
            "pipeline": "p",
            "metric": "accuracy",
            "margin": 0.0,
        }
        about |= {"run": f"run {self.day}", "at": self.day * DAY, **given}
        tonight = Tonight(**{"rows": rows, "keys": rows, "parts": parts, "gain": float(parts.sum()), **about})
        self.kept, standing = entered(self.kept, tonight, error=0.05, allowed=self.allowed)
        return standing


def test_a_clear_gain_is_found_on_the_first_night() -> None:
    found = Group().night()
    assert found.is_better and (found.line, found.rows, found.lines, found.level) == (1, "", 1, 0.0125)
    assert found.nights[0].mean == pytest.approx(0.12) and not Group().night(won=6).is_better


def test_nights_on_the_same_rows_are_pooled_by_row() -> None:
    group = Group()
    found = [group.night(won=22, lost=6) for _ in range(3)]
    assert [each.is_better for each in found] == [False, False, True]
    assert found[1].nights[-1].least is None and found[1].next_look == 3, "between two looks nothing is decided"
    assert found[2].rows == "reused" and [night.run for night in found[2].nights] == ["run 1", "run 2", "run 3"]


def test_a_repeated_test_set_counts_as_its_first_night() -> None:
    group = Group()
    first = group.night(candidate="a")
    group.night(candidate="b")
    kept = group.kept
    assert group.night(candidate="a").nights == first.nights and group.kept == kept
    assert len(group.night(candidate="c").nights) == 3


def test_the_difference_of_tonight_must_not_be_negative() -> None:
    group = Group()
    group.night()
    again = group.night(won=1)
    assert again.is_better and again.nights[-1].least is None, "what was shown stays shown"
    assert [group.night(won=won, lost=1).is_better for won in (0, 1)] == [False, True]


def test_the_difference_of_tonight_uses_its_whole_test_set() -> None:
    """Of a test set that grows the rows that are new are pooled, and the whole one says whether tonight is worse."""
    group = Group()
    group.night()
    worse = np.array([-1.0] * 500 + [1.0] * 7) / 507
    found = group.night(of=507, parts=worse, gain=float(worse.sum()))
    assert (found.rows, found.is_better, found.nights[-1].pooled) == ("new", False, pytest.approx(1))
    assert found.gain == found.nights[-1].gain == pytest.approx(-493 / 507)
    better = np.array([1.0] * 507 + [-1.0] * 7) / 514
    found = group.night(of=514, parts=better, gain=float(better.sum()))
    assert (found.is_better, found.nights[-1].pooled) == (True, pytest.approx(-1))


def test_a_night_without_new_rows_adds_nothing_to_its_line() -> None:
    group = Group()
    for week in range(8):
        group.night(of=500 + 20 * week)
        kept = group.kept
        idle = [group.night(of=500 + 20 * week - sunday, won=won) for sunday in range(week < 1, 2) for won in (0, 60)]
        assert group.kept == kept and [each.is_better for each in idle[-2:]] == [True, True]
        assert all((each.line, each.lines, each.idle, len(each.nights)) == (1, 1, True, week + 1) for each in idle)
    worse = group.night(of=640, won=0, lost=1)
    assert not worse.is_better and about_standing(worse) == [
        "Its line 1 had all of these test rows before, so it is no further night of it.",
        "The line's candidates were shown to be better at night 1. Tonight's candidate itself is worse than the "
        "champion, so it is not registered.",
    ]


def test_new_rows_without_evidence_add_0() -> None:
    group = Group()
    group.night(keys=np.arange(500, dtype=np.uint64))
    found = group.night(of=507, keys=np.arange(507, dtype=np.uint64) % 500, gain=0.1)
    assert (found.rows, found.nights[-1].pooled, found.is_better) == ("new", 0, True)


def test_a_sum_of_rows_that_cancel_is_0() -> None:
    random = np.random.default_rng(1)
    parts = random.standard_normal(1000) / 1000
    mixed = random.permutation([*parts, *-parts / 3, *-parts / 3, *-parts / 3])
    assert float(mixed.sum()) != 0 and total(mixed.tolist()) == 0 and total([0.3, -0.3 - 1e-9]) < 0


def test_with_new_rows_each_night_the_night_is_the_unit() -> None:
    group = Group()
    found = [group.night(won=30, lost=10 + n % 3, first=1000 * n) for n in range(10)]
    assert found[1].rows == "new" and [each.is_better for each in found] == [False] * 9 + [True]


def test_each_row_counts_once() -> None:
    group = Group()
    group.night(first=0)
    found = group.night(first=250, won=50, lost=200)  # the rows that are new are won by none
    assert found.rows == "new" and found.nights[-1].pooled == 0


@pytest.mark.parametrize(
    "other",
    [{"champion": "d"}, {"pipeline": "q"}, {"metric": "f1"}, {"margin": 0.01}, {"first": 1000, "rows": "reused"}],
)
def test_changed_conditions_begin_a_new_line(other: dict[str, Any]) -> None:
    group = Group(allowed=2)
    group.night()
    if other.pop("rows", ""):
        group.night()
    found = group.night(**other)
    assert (found.line, len(found.nights), found.lines) == (2, 1, 2)
    refused = group.night(pipeline="one more")
    assert not refused.nights and not refused.is_better and refused.frees == DAY + YEAR_SECONDS
    assert len(group.night().nights) > 1, "a line that was started goes on"
    group.day = 400
    assert group.night(pipeline="next year").nights, "a line is free again"


def test_a_line_may_begin_while_fewer_than_allowed_have_begun() -> None:
    group = Group()
    for pipeline in "pqr":
        group.night(pipeline=pipeline)
    group.allowed = 2
    refused = group.night(pipeline="one more")
    assert (refused.lines, refused.frees) == (3, 2 * DAY + YEAR_SECONDS), "when the second one is a year old"


def test_rows_may_come_in_another_order_and_give_evidence_later() -> None:
    group = Group()
    group.night(won=1)
    kept = group.kept
    rows = np.arange(500, dtype=np.uint64)
    tonight = Tonight(
        champion="c",
        candidate="x",
        pipeline="p",
        metric="accuracy",
        margin=0.0,
        run="",
        gain=0.002,
        rows=rows[::-1].copy(),
        keys=np.array([7000, 3], dtype=np.uint64),
        parts=np.array([0.004, -0.002]),
        at=2 * DAY,
    )
    _, found = entered(kept, tonight, error=0.05, allowed=4)
    assert (found.rows, len(found.nights)) == ("reused", 2)


def test_damaged_evidence_is_an_error() -> None:
    group = Group()
    group.night()
    group.kept = group.kept[:-30]
    with pytest.raises(InputError, match="damaged"):
        group.night()


def test_the_reasons_state_the_evidence_and_the_night() -> None:
    group = Group()
    group.night()
    told = "This is night 2 of line 1 on the same test rows."
    shown = "The line's candidates were shown to be better at night 1"
    worse = f"{shown}. Tonight's candidate itself is worse than the champion, so it is not registered."
    assert about_standing(group.night(won=0, lost=1)) == [told, worse]
    assert about_standing(group.night(won=1))[-1] == f"{shown}; this one is no worse."
    group = Group()
    found = group.night(won=6)
    assert found.nights[0].least is None and about_standing(found)[0] == (
        "This is night 1 of line 1: the candidate gains +0.0120, and so few rows differ that this look can show "
        "nothing (error rate 1.25 % a line, 4 lines a year)."
    )
    group = Group()
    assert about_standing(group.night(won=6))[-1] == "The champion stays; the next one is at night 3."
    assert about_standing(group.night(won=6)) == [
        told,
        "The line decides at few nights only. The champion stays; the next one is at night 3.",
    ]


def test_earlier_evidence_is_void_once_the_mean_gain_is_negative() -> None:
    group = Group()
    group.night(won=60)
    group.night(won=0, lost=100)
    found = group.night(won=1)
    assert (found.shown_at, found.mean, found.is_better) == (1, pytest.approx(-0.026), False)
    assert about_standing(found)[-1] == (
        "The line's candidates were shown to be better at night 1, but gain -0.0260 on average by now, so none is "
        "registered until their mean gain is 0 or more."
    )
    assert group.night(won=39).is_better, "their mean gain is 0"
