"""How sure a difference is: few samples on which the models differ, slices, and a test set that is used again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.decision.deciding import Champion, Decision, decide
from drivetrain.decision.evaluation import Evaluation, Group, Measured
from drivetrain.decision.page import About
from drivetrain.decision.policy import Policy
from drivetrain.decision.record import record
from drivetrain.decision.rows import Rows

Make = Callable[..., Evaluation]
COUNT, SIZE = 200, 1000


def pair(make: Make, wins: int, losses: int, size: int = SIZE, **fields: Any) -> tuple[Evaluation, Evaluation]:
    """Two models that differ on so many samples, and are right on half of the others."""
    rest = [bool(place % 2) for place in range(size - wins - losses)]
    return models(make, [True] * wins + [False] * losses + rest, [False] * wins + [True] * losses + rest, **fields)


def models(
    make: Make, ours: Sequence[bool], theirs: Sequence[bool], *, keys: Sequence[int] | None = None, **slices: range
) -> tuple[Evaluation, Evaluation]:
    """Two models that are right on these samples; with slices, which are parts of them."""
    found: list[Evaluation] = []
    for right in (ours, theirs):
        array = np.array(right)
        inside = {f"site={name}": np.isin(np.arange(len(right)), part) for name, part in slices.items()}
        rows = Rows.of(
            {"accuracy": (array, None)}, keys=None if keys is None else np.array(keys, np.uint64), slices=inside
        )
        groups = {name: group(array[part]) for name, part in {"": np.full(len(right), True), **inside}.items()}
        base = make({"accuracy": 0.5}, replicates={"accuracy": [0.5]}, rows=len(right))
        found.append(replace(base, groups=groups, evidence=rows))
    return found[0], found[1]


def group(right: np.ndarray) -> Group:
    value = Measured(value=float(right.mean()), higher_is_better=True)
    return Group(num_samples=len(right), metrics={"accuracy": value})


def decided(pair: tuple[Evaluation, Evaluation], comparison: int | None = None, **given: Any) -> Decision:
    champion = Champion(version=1, content_hash="", evaluation=pair[1])
    return decide(pair[0], champion, Policy(**given), comparison=comparison)


@pytest.mark.parametrize(
    ("wins", "losses", "better"), [(4, 0, False), (5, 0, False), (8, 0, True), (20, 10, False), (30, 10, True)]
)
def test_a_few_wins_are_not_significant(evaluation: Make, wins: int, losses: int, better: bool) -> None:
    assert decided(pair(evaluation, wins, losses), horizon=1).better is better


def test_a_reused_test_set_needs_stronger_evidence(evaluation: Make) -> None:
    found = pair(evaluation, 30, 10)
    assert decided(found, horizon=1).verdict == "register"
    again = decided(found)
    assert again.verdict == "keep champion" and again.policy.level == pytest.approx(0.05 / 365)
    told = " ".join(again.why)
    assert "(30 improved and 10 got worse of 1,000 samples)" in told
    assert "one of 365 comparisons on this test set, so its error rate is limited to 0.0137 %: at that level" in told
    assert decided(pair(evaluation, 80, 20)).verdict == "register"


@pytest.mark.parametrize(
    ("comparison", "horizon", "verdict", "told"),
    [
        (1, 10, "register", "This is comparison 1 of 10 on this test set, so its error rate is limited to 0.5 %"),
        (10, 10, "register", "This is comparison 10 of 10 on this test set"),
        (
            11,
            10,
            "keep champion",
            "10 candidates have been compared on this test set, which is all",
        ),
        (5000, 1, "register", "The improvement must be statistically significant."),
    ],
)
def test_after_the_horizon_a_new_test_set_is_required(
    evaluation: Make, comparison: int, horizon: int, verdict: str, told: str
) -> None:
    found = decided(pair(evaluation, 80, 20), comparison=comparison, horizon=horizon)
    assert (found.verdict, found.better) == (verdict, verdict == "register")
    assert told in " ".join(found.why)
    assert record(found, About(group="g", registry="local", candidate_hash=""))["comparison"] == comparison


@pytest.mark.parametrize("horizon", [0, -3, 100_001])
def test_an_invalid_horizon_is_refused(horizon: int) -> None:
    with pytest.raises(InputError, match=r"horizon=.* Allowed: the number of comparisons .*; 1 corrects for nothing"):
        Policy(horizon=horizon)


def test_budgets_of_slices_allow_for_chance_and_for_their_number(evaluation: Make) -> None:
    """Ten slices of 50 rows: equal models differ by more than 2 points in some slice, mostly."""
    draw, tried, broken, bare = random.Random(1), 20, 0, 0
    slices = {f"s{n}": range(50 * n, 50 * n + 50) for n in range(10)}
    for _ in range(tried):
        rows = [draw.random() for _ in range(500)]
        # Either is wrong on a tenth of the rows, and on a fiftieth alone.
        found = models(evaluation, [x < 0.9 for x in rows], [x < 0.88 or 0.9 <= x < 0.92 for x in rows], **slices)
        decision = decided(found, budgets='{"accuracy@site=*": 0.02}')
        broken += not decision.within_budgets
        bare += any(loss.loss > 0.02 for loss in decision.regressions)
    assert bare >= 5 and broken <= 2


def test_a_significant_loss_breaks_its_budget(evaluation: Make) -> None:
    theirs = [place % 10 > 0 for place in range(1000)]
    ours = theirs[:900] + [place % 10 > 2 for place in range(900, 1000)]
    slices = {f"s{n}": range(100 * n, 100 * n + 100) for n in range(10)}
    found = decided(models(evaluation, ours, theirs, **slices), budgets='{"accuracy@site=*": 0.05}')
    assert [loss.slice for loss in found.regressions if not loss.within] == ["site=s9"]
    told = " ".join(found.why)
    assert "accuracy (site=s9) is 0.2000 worse than the champion's; at most 0.0500 is allowed. That much" in told


def test_a_loss_within_its_budget_is_allowed_even_if_certain(evaluation: Make) -> None:
    right = [[place % 10 > worst for place in range(500)] for worst in (2, 0)]
    found = models(evaluation, *right, a=range(500))
    assert not decided(found, budgets='{"accuracy@site=a": 0.05}').within_budgets
    assert decided(found, budgets='{"accuracy@site=a": 0.25}').within_budgets


def test_an_error_rate_is_treated_as_a_share(evaluation: Make) -> None:
    """4 errors fewer of 1,000 are chance, as 4 right ones more."""
    found: list[Evaluation] = []
    for one in pair(evaluation, 0, 4):
        rate = replace(one.whole.metrics["accuracy"], higher_is_better=False)
        found.append(replace(one, groups={"": replace(one.whole, metrics={"accuracy": rate})}))
    decision = decided((found[0], found[1]), horizon=1)
    assert decision.difference is not None and decision.difference.counts[:2] == (4, 0) and not decision.better


def test_a_slice_of_one_sample_breaks_no_budget(evaluation: Make) -> None:
    found = models(evaluation, [False, *[True] * 99], [True] * 100, a=range(1))
    for budget in (0.0, 0.02):
        assert decided(found, budgets=f'{{"accuracy@site=a": {budget}}}').within_budgets


def test_equal_models_are_not_better(evaluation: Make) -> None:
    """Nor shown to be as good: of replicates that do not vary nothing is certain."""
    same = evaluation({"auroc": 0.9123}, replicates={"auroc": [0.9123] * COUNT})
    assert not decided((same, same), metric="auroc", horizon=1).better
    found = decided((same, same), metric="auroc", horizon=1, rule="not_worse", margin=0.01)
    assert not found.better and "There is no interval" in " ".join(found.why)


def test_a_metric_undefined_on_a_slice_is_reported(evaluation: Make) -> None:
    ours = evaluation({"accuracy": 0.98}, slices={"site=a": {"accuracy": 0.97}, "site=b": {}})
    slices = {**ours.groups, "site=b": replace(ours.groups["site=b"], undefined={"accuracy": "there is no sample"})}
    ours = replace(ours, groups=slices)
    given = {"floors": '{"accuracy@site=*": 0.9}', "budgets": '{"accuracy@site=*": 0.01}'}
    for champion in (None, Champion(version=1, content_hash="", evaluation=ours)):
        found = decide(ours, champion, Policy(**given))  # type: ignore[arg-type]
        assert [floor.slice for floor in found.floors] == ["site=a"] and found.floors_met
        assert "accuracy (site=b) is undefined (there is no sample): its floor was not checked." in found.why
        assert "accuracy (site=b) is undefined (there is no sample): its budget was not checked." in found.why


def test_a_floor_says_whether_the_whole_interval_reaches_it(evaluation: Make) -> None:
    ours = evaluation({"accuracy": 0.98})
    value = replace(ours.whole.metrics["accuracy"], low=0.96, high=0.99)
    ours = replace(ours, groups={"": replace(ours.whole, metrics={"accuracy": value})})
    for least, sure, words in (
        (0.95, True, "The floor is met."),
        (0.97, False, "The floor is met, perhaps by chance."),
    ):
        found = decide(ours, None, Policy(floors=f'{{"accuracy": {least}}}'))
        assert found.floors[0].sure is sure and words in found.why


def test_few_keys_need_stronger_evidence(evaluation: Make) -> None:
    """The same samples say less where they are those of 40 patients, and nothing where they are those of 12."""
    by_row = pair(evaluation, 60, 20)
    by_patient = pair(evaluation, 60, 20, keys=[place // 25 for place in range(SIZE)])
    of_few = pair(evaluation, 60, 20, keys=[place * 12 // SIZE for place in range(SIZE)])
    gains = [decided(each, horizon=1).difference for each in (by_row, by_patient, of_few)]
    row, patient, few = (None if each is None else each.surest_gain(0.025) for each in gains)
    assert row is not None and patient is not None and patient < 0 < row and few is None
    assert decided(by_row).better and not decided(by_patient).better and not decided(of_few).better
    assert "There is no interval: too few keys: 11, and 15 are needed." in decided(of_few).why


def test_the_shown_interval_decides(evaluation: Make) -> None:
    """At the level of the decision: there is no other test beside it."""
    for wins in range(12):
        found = decided(pair(evaluation, wins, 0), horizon=1).difference
        assert found is not None and found.interval is not None
        assert decided(pair(evaluation, wins, 0), horizon=1).better == (found.interval.low > 0)
        assert found.interval.low == found.surest_gain(0.025)
