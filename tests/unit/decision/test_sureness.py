"""How sure a difference is: few samples on which the models differ, slices, and a test set that is used again."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy
import pytest
from scipy import stats

from drivetrain.base.errors import InputError
from drivetrain.decision import Champion, Decision, Evaluation, decide, policy
from drivetrain.decision.evaluation import Group, Measured
from drivetrain.decision.page import About
from drivetrain.decision.pairs import (
    chance,
    discordant,
    most_losses,
    reach,
    rejected,
    sign_test,
    skewed_reach,
    skewness,
)
from drivetrain.decision.record import record

Make = Callable[..., Evaluation]
COUNT, SIZE = 200, 1000


@functools.cache
def weights() -> list[list[int]]:
    """How often each sample counts in each replicate, as Poisson draws say."""
    draw = random.Random(5)
    thresholds = [float(stats.poisson.cdf(k, 1)) for k in range(8)]
    return [[sum(u >= t for t in thresholds) for u in (draw.random() for _ in range(SIZE))] for _ in range(COUNT)]


def measure(right: Sequence[bool]) -> tuple[float, tuple[float, ...]]:
    """The accuracy, and that of each replicate."""
    size = len(right)
    drawn = tuple(sum(w for w, r in zip(row, right, strict=False) if r) / max(1, sum(row[:size])) for row in weights())
    return sum(right) / size, drawn


def group(right: Sequence[bool]) -> Group:
    value, drawn = measure(right)
    metrics = {"accuracy": Measured(value=value, higher_is_better=True)}
    return Group(num_samples=len(right), metrics=metrics, replicates={"accuracy": drawn})


def pair(make: Make, wins: int, losses: int, size: int = SIZE) -> tuple[Evaluation, Evaluation]:
    """Two models that differ on so many samples, and are right on half of the others."""
    rest = [bool(place % 2) for place in range(size - wins - losses)]
    ours, theirs = [True] * wins + [False] * losses + rest, [False] * wins + [True] * losses + rest
    base = make({"accuracy": 0.5}, replicates={"accuracy": [0.5] * COUNT}, rows=size)
    return replace(base, groups={"": group(ours)}), replace(base, groups={"": group(theirs)})


def decided(models: tuple[Evaluation, Evaluation], comparison: int | None = None, **given: Any) -> Decision:
    champion = Champion(version=1, content_hash="", evaluation=models[1])
    return decide(models[0], champion, policy(**given), comparison=comparison)


@pytest.mark.parametrize("level", [0.025, 1e-3, 0.05 / 365])
@pytest.mark.parametrize("replicates", [80, 200, 1000])
def test_students_distribution_is_scipys(level: float, replicates: int) -> None:
    t = reach(level, replicates)
    assert t == pytest.approx(stats.t.ppf(1 - level, replicates - 1), rel=5e-3)
    assert chance(t * 0.01, 0.01, replicates) == pytest.approx(level, rel=1e-6)
    assert chance(-1.0, 0.0, replicates) == 1.0 and chance(1e-9, 0.0, replicates) == 0.0


@pytest.mark.parametrize(("wins", "losses"), [(4, 0), (6, 0), (30, 10), (60, 20), (800, 700)])
def test_the_sign_test_is_scipys(wins: int, losses: int) -> None:
    expected = stats.binomtest(wins, wins + losses, alternative="greater").pvalue
    assert sign_test(wins, losses) == pytest.approx(expected, rel=0.02)
    assert sign_test(losses, wins + 1) == 1.0 or losses > wins


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (1, 0), (4, 0), (3, 3), (12, 5), (60, 20)])
def test_the_samples_that_differ_follow_from_the_replicates(evaluation: Make, wins: int, losses: int) -> None:
    difference = decided(pair(evaluation, wins, losses)).difference
    assert difference is not None and difference.discordant is not None
    found = difference.discordant
    assert found[0] - found[1] == wins - losses
    assert sum(found) == pytest.approx(wins + losses, rel=0.2, abs=1)


def test_values_that_are_no_shares_of_the_samples_have_none() -> None:
    assert discordant(0.91234, 0.9, 1000, 0.01) is None
    assert discordant(0.5, 0.5, 0, 0.0) is None


@pytest.mark.parametrize(("wins", "losses", "better"), [(4, 0, False), (5, 0, False), (8, 0, True), (30, 10, True)])
def test_a_few_wins_are_not_surely_better(evaluation: Make, wins: int, losses: int, better: bool) -> None:
    assert decided(pair(evaluation, wins, losses), horizon=1).better is better


def test_a_test_set_that_is_used_again_asks_for_more(evaluation: Make) -> None:
    models = pair(evaluation, 30, 10)
    assert decided(models, horizon=1).verdict == "register"
    again = decided(models)
    assert again.verdict == "keep champion" and again.policy.level == pytest.approx(0.05 / 365)
    assert "one of 365 comparisons on this test set, so its error rate is limited to 0.0137 %" in " ".join(again.why)
    assert " and chance can explain that 29 samples improved and 9 got worse." in " ".join(again.why)
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
def test_after_the_horizon_a_new_test_set_is_asked_for(
    evaluation: Make, comparison: int, horizon: int, verdict: str, told: str
) -> None:
    found = decided(pair(evaluation, 80, 20), comparison=comparison, horizon=horizon)
    assert (found.verdict, found.better) == (verdict, verdict == "register")
    assert told in " ".join(found.why)
    assert record(found, About(group="g", registry="local", candidate_hash=""))["comparison"] == comparison


@pytest.mark.parametrize("horizon", [0, -3, 100_001])
def test_a_horizon_that_cannot_be(horizon: int) -> None:
    with pytest.raises(InputError, match=r"horizon=.* Allowed: the number of comparisons .*; 1 corrects for nothing"):
        policy(horizon=horizon)


def test_holms_method() -> None:
    assert rejected([0.04, 0.3, 0.001, 0.012], 0.05) == [False, False, True, True]
    assert rejected([0.04, 0.011, 0.001, 0.012], 0.05) == [True] * 4
    assert rejected([], 0.05) == []


def test_budgets_of_slices_allow_for_chance_and_for_their_number(evaluation: Make) -> None:
    """Ten slices of 50 rows: equal models differ by more than 2 points in some slice, mostly."""
    draw, tried, broken, bare = random.Random(1), 20, 0, 0
    base = evaluation({"accuracy": 0.5}, replicates={"accuracy": [0.5] * COUNT}, rows=SIZE)
    for _ in range(tried):
        rows = [[draw.random() for _ in range(50)] for _ in range(10)]
        # Either is wrong on a tenth of the rows, and on a fiftieth alone.
        ours = {f"site={n}": group([x < 0.9 for x in row]) for n, row in enumerate(rows)}
        theirs = {f"site={n}": group([x < 0.88 or 0.9 <= x < 0.92 for x in row]) for n, row in enumerate(rows)}
        one, two = (replace(base, groups={**base.groups, **slices}) for slices in (ours, theirs))
        found = decided((one, two), budgets='{"accuracy@site=*": 0.02}')
        broken += not found.within_budgets
        bare += any(loss.loss > 0.02 for loss in found.regressions)
    assert bare >= 5 and broken <= 2


def test_a_loss_that_is_no_chance_breaks_its_budget(evaluation: Make) -> None:
    base, champion = pair(evaluation, 0, 0)
    good, bad = group([place % 10 > 0 for place in range(500)]), group([place % 10 > 2 for place in range(500)])
    slices = {f"site={n}": good for n in range(9)}
    ours = replace(base, groups={**base.groups, **slices, "site=9": bad})
    theirs = replace(champion, groups={**champion.groups, **slices, "site=9": good})
    found = decided((ours, theirs), budgets='{"accuracy@site=*": 0.05}')
    assert [loss.slice for loss in found.regressions if not loss.within] == ["site=9"]
    told = " ".join(found.why)
    assert "accuracy (site=9) is 0.2000 worse than the champion's; at most 0.0500 is allowed. That much happens" in told


def test_a_loss_within_its_budget_is_allowed_however_sure_it_is(evaluation: Make) -> None:
    base, _ = pair(evaluation, 0, 0)
    good, bad = group([place % 10 > 0 for place in range(500)]), group([place % 10 > 2 for place in range(500)])
    ours, theirs = (replace(base, groups={**base.groups, "site=a": one}) for one in (bad, good))
    assert not decided((ours, theirs), budgets='{"accuracy@site=a": 0.05}').within_budgets
    assert decided((ours, theirs), budgets='{"accuracy@site=a": 0.25}').within_budgets


@pytest.mark.parametrize("level", [0.025, 0.05 / 365])
@pytest.mark.parametrize("losses", [0, 1, 5])
def test_losses_that_chance_allows_are_scipys(losses: int, level: float) -> None:
    assert most_losses(losses, level) == pytest.approx(stats.chi2.ppf(1 - level, 2 * losses + 2) / 2, rel=1e-6)


def test_an_error_rate_is_a_share_too(evaluation: Make) -> None:
    """4 errors fewer of 1,000 are chance, as 4 right ones more."""
    ours, theirs = pair(evaluation, 0, 4)  # as values: the champion's are higher
    models: list[Evaluation] = []
    for one in (ours, theirs):
        rate = replace(one.whole.metrics["accuracy"], higher_is_better=False)
        drawn = {"loss": one.whole.replicates["accuracy"]}
        models.append(replace(one, groups={"": replace(one.whole, metrics={"loss": rate}, replicates=drawn)}))
    found = decided((models[0], models[1]), metric="loss", horizon=1)
    assert found.difference is not None and found.difference.discordant == (4, 0) and not found.better


def test_of_very_few_samples_nothing_is_sure(evaluation: Make) -> None:
    assert reach(0.025, 1) == float("inf")
    ours = evaluation({"loss": 1.0}, replicates={"loss": [1.0 + 1e-9 * n for n in range(COUNT)]})
    theirs = evaluation({"loss": 1.1}, replicates={"loss": [1.1] * COUNT})
    few = [replace(one, groups={"": replace(one.whole, num_samples=1)}) for one in (ours, theirs)]
    assert not decided((few[0], few[1]), metric="loss", horizon=1).better
    assert decided((ours, theirs), metric="loss", horizon=1).better


def test_a_slice_of_one_sample_breaks_no_budget(evaluation: Make) -> None:
    base, _ = pair(evaluation, 0, 0)
    ours, theirs = (replace(base, groups={**base.groups, "s=a": group([right])}) for right in (False, True))
    for budget in (0.0, 0.02):
        assert decided((ours, theirs), budgets=f'{{"accuracy@s=*": {budget}}}').within_budgets


def test_an_equal_value_that_is_no_share_is_not_better(evaluation: Make) -> None:
    same = evaluation({"auroc": 0.9123}, replicates={"auroc": [0.9123] * COUNT})
    assert not decided((same, same), metric="auroc", horizon=1).better
    assert decided((same, same), metric="auroc", horizon=1, rule="not_worse").better


def test_replicates_far_on_the_wrong_side_count(evaluation: Make) -> None:
    """Of which Student's t, by their deviation alone, would know little."""
    theirs = evaluation({"auroc": 0.9123}, replicates={"auroc": [0.9123] * COUNT})
    ours = evaluation({"auroc": 0.9323}, replicates={"auroc": [0.8623] * 10 + [0.9323] * (COUNT - 10)})
    given = {"metric": "auroc", "rule": "not_worse", "horizon": 1}
    assert not decided((ours, theirs), margin=0.03, **given).better
    assert decided((ours, theirs), margin=0.12, **given).better


def test_a_metric_that_a_slice_leaves_undefined_is_told(evaluation: Make) -> None:
    ours = evaluation({"accuracy": 0.98}, slices={"site=a": {"accuracy": 0.97}, "site=b": {}})
    slices = {**ours.groups, "site=b": replace(ours.groups["site=b"], undefined={"accuracy": "there is no sample"})}
    ours = replace(ours, groups=slices)
    given = {"floors": '{"accuracy@site=*": 0.9}', "budgets": '{"accuracy@site=*": 0.01}'}
    for champion in (None, Champion(version=1, content_hash="", evaluation=ours)):
        found = decide(ours, champion, policy(**given))  # type: ignore[arg-type]
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
        found = decide(ours, None, policy(floors=f'{{"accuracy": {least}}}'))
        assert found.floors[0].sure is sure and words in found.why


def test_a_skewed_loss_does_not_look_better_by_its_skewness() -> None:
    """Models of equal mean loss: the candidate is mostly a little better, and now and then much worse."""
    level, count, size = 0.001, 200, 200
    draw = numpy.random.default_rng(3)
    gains = 1 - draw.exponential(size=(40_000, size))
    gain, deviation = gains.mean(1), gains.std(1) / math.sqrt(size)
    skew = ((gains - gain[:, None]) ** 3).mean(1) / gains.std(1) ** 3 / math.sqrt(size)
    # What replicates say of both is known as well as so many say it.
    deviation *= numpy.sqrt(draw.chisquare(count - 1, gain.size) / (count - 1))
    skew += draw.normal(size=gain.size) * math.sqrt(6 / count)
    reached = gain / deviation
    by_t = float((reached > reach(level, count)).mean())
    surely = [
        far > skewed_reach(level, count, size, float(each))
        for far, each in zip(reached, skew, strict=True)
        if far > reach(level, count)
    ]
    assert by_t > 4 * level
    assert sum(surely) / gain.size <= 2 * level


def test_the_skewness_of_replicates_is_scipys() -> None:
    values = [random.Random(7).expovariate(1) for _ in range(3)] + [0.0, 0.1, 4.0]
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((each - mean) ** 2 for each in values) / len(values))
    assert skewness(values, deviation) == pytest.approx(stats.skew(values))
    assert skewness([0.5] * 10, 0.0) == 0.0


def test_what_a_skewed_gain_must_reach() -> None:
    few, many = (skewed_reach(1e-3, count, 2000, 0.0) for count in (200, 100_000))
    assert reach(1e-3, 100_000) < many < few < 1.4 * reach(1e-3, 200)
    assert few == skewed_reach(1e-3, 200, 2000, 0.5), "none is better than a good one"
    asked = [skewed_reach(1e-3, 200, 2000, -skew / 10) for skew in range(60)]
    assert few == asked[0] and all(one < other for one, other in pairwise(asked))
    assert skewed_reach(1e-4, 200, 3, 0.0) == math.inf


def test_few_keys_ask_for_more(evaluation: Make) -> None:
    """The same replicates say less where the samples are those of 12 patients."""
    models = pair(evaluation, 60, 20)
    patients = tuple(replace(one, groups={"": replace(one.groups[""], num_keys=12.4)}) for one in models)
    assert decided(models, horizon=1).difference is not None
    by_row, by_patient = (decided(each, horizon=1).difference for each in (models, patients))
    assert by_row is not None and by_patient is not None
    gains = [by_row.surest_gain(0.025), by_patient.surest_gain(0.025)]
    assert gains[0] is not None and gains[1] is not None and 0 < gains[1] < gains[0]
    assert decided(models).better and not decided(patients).better  # of 365 comparisons


@pytest.mark.parametrize("lost", [0, 1])
def test_few_keys_do_not_show_that_a_model_is_not_worse(evaluation: Make, lost: int) -> None:
    """20 patients of 50 samples each, of whom the candidate loses one, or none."""
    base = evaluation({"accuracy": 0.5}, replicates={"accuracy": [0.5] * COUNT}, rows=SIZE)
    values = (1 - lost / 20, 1.0)
    drawn = (tuple(1 - lost * row[0] / 20 for row in weights()), (1.0,) * COUNT)
    models = tuple(
        replace(
            base,
            groups={
                "": Group(
                    num_samples=SIZE,
                    num_keys=20.0,
                    metrics={"accuracy": Measured(value=value, higher_is_better=True)},
                    replicates={"accuracy": replicates},
                )
            },
        )
        for value, replicates in zip(values, drawn, strict=True)
    )
    found = decided((models[0], models[1]), horizon=1, rule="not_worse", margin=0.15)
    assert found.difference is not None and not found.better
    assert found.difference.surest_loss(0.025) == pytest.approx(most_losses(lost, 0.025) / 20)
