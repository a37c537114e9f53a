"""Who is registered: every verdict, and what cannot be decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.decision.deciding import Champion, Decision, Registered, decide
from drivetrain.decision.evaluation import Evaluation
from drivetrain.decision.policy import Policy
from drivetrain.decision.rows import Rows

Make = Callable[..., Evaluation]
COUNT = 200


def champion(evaluation: Evaluation | None, version: int = 3) -> Champion:
    return Champion(version=version, content_hash="b" * 64, evaluation=evaluation)


def around(value: float, spread: float = 0.01) -> list[float]:
    """Replicates between value - spread and value + spread."""
    return [value + spread * (2 * number / (COUNT - 1) - 1) for number in range(COUNT)]


def said(decided: Decision) -> str:
    return " ".join(decided.why)


def test_without_a_champion_the_floors_decide(evaluation: Make) -> None:
    ours = evaluation({"accuracy": 0.98})
    first = decide(ours, None, Policy(floors='{"accuracy": 0.97}'))
    assert (first.verdict, first.better, first.floors_met) == ("register", True, True)
    assert said(first) == (
        "No version is approved yet, so only the floors decide: accuracy is 0.9800 on 360 samples. The floor is met."
    )
    below = decide(ours, None, Policy(floors='{"accuracy": 0.985}'))
    assert (below.verdict, below.floors_met) == ("below floors", False)
    assert below.why[0] == "accuracy is 0.9800; at least 0.9850 is required."


def test_the_decision_says_where_a_champion_was_searched(evaluation: Make) -> None:
    ours, asked = evaluation({"accuracy": 0.98}), "digits in the registry mlflow:http://mlflow:5000"
    told = f"No version of {asked} is approved yet, so only the floors decide"
    assert said(decide(ours, None, Policy(), asked=asked)).startswith(f"{told}: accuracy is 0.9800")
    assert f"{told}." in decide(ours, None, Policy(floors='{"accuracy": 0.985}'), asked=asked).why


def test_error_bounds_count_against_the_candidate(evaluation: Make) -> None:
    ours = evaluation({"accuracy": 0.98, "auroc": (0.9, 0.01), "loss": (0.2, 0.05)})
    for floors, met in (
        ('{"auroc": 0.89}', True),
        ('{"auroc": 0.8900001}', False),
        ('{"loss": 0.25}', True),
        ('{"loss": 0.2499999}', False),
    ):
        assert decide(ours, None, Policy(floors=floors)).floors_met is met, floors


def test_a_floor_on_a_lower_is_better_metric_is_a_ceiling(evaluation: Make) -> None:
    decided = decide(evaluation({"accuracy": 0.98, "loss": 0.3}), None, Policy(floors='{"loss": 0.2}'))
    assert decided.why[0] == "loss is 0.3000; at most 0.2000 is required."


def test_floors_on_slices(evaluation: Make) -> None:
    ours = evaluation(
        {"accuracy": 0.98},
        slices={"site=north": {"accuracy": 0.99}, "site=south": {"accuracy": 0.8}, "age=old": {"accuracy": 0.7}},
    )
    for floors, failed in (
        ('{"accuracy@site=north": 0.9}', []),
        ('{"accuracy@site=*": 0.9}', ["site=south"]),
        ('{"accuracy@*": 0.9}', ["site=south", "age=old"]),
    ):
        decided = decide(ours, None, Policy(floors=floors))
        assert [floor.slice for floor in decided.floors if not floor.met] == failed, floors
        assert decided.verdict == ("below floors" if failed else "register")  # all of them are to be met
    every = decide(ours, None, Policy(floors='{"accuracy@*": 0.9}')).floors
    assert [floor.slice for floor in every] == ["site=north", "site=south", "age=old"]  # not the whole test set


@pytest.mark.parametrize(
    ("rule", "margin", "gain", "kept"),
    [
        ("better", 0.0, 0.02, True),
        ("better", 0.0, 0.005, False),  # the interval reaches below 0
        ("better", 0.005, 0.02, True),
        ("better", 0.011, 0.02, False),
        ("not_worse", 0.0, 0.005, False),
        ("not_worse", 0.01, 0.005, True),
        ("not_worse", 0.01, -0.005, False),
        ("not_worse", 0.02, -0.005, True),
    ],
)
def test_the_interval_decides(evaluation: Make, rule: str, margin: float, gain: float, kept: bool) -> None:
    steady = [0.9] * COUNT
    for metric, sign in (("accuracy", 1), ("loss", -1)):  # of a loss, less is better
        ours = evaluation({metric: 0.9 + sign * gain}, replicates={metric: around(0.9 + sign * gain)})
        theirs = evaluation({metric: 0.9}, replicates={metric: steady})
        decided = decide(ours, champion(theirs), Policy(metric=metric, rule=rule, margin=margin, horizon=1))
        assert decided.verdict == ("register" if kept else "keep champion")
        assert decided.better is kept
        assert decided.difference is not None and decided.difference.interval is not None
        assert decided.difference.value == pytest.approx(sign * gain)
        # The deviation of numbers spread evenly over 0.02, times Student's t.
        assert decided.difference.interval.low == pytest.approx(sign * gain - 0.02 / 12**0.5 * 1.972, abs=2e-4)


def test_a_gain_of_exactly_the_margin_is_enough(evaluation: Make) -> None:
    ours, theirs = evaluation({"accuracy": 0.75}), champion(evaluation({"accuracy": 0.5}))
    assert decide(ours, theirs, Policy(margin=0.25)).verdict == "register"
    assert decide(ours, theirs, Policy(margin=0.2500001)).verdict == "keep champion"
    worse = champion(evaluation({"accuracy": 1.0}))
    assert decide(ours, champion(ours), Policy()).verdict == "keep champion"  # no gain is none, without a margin too
    assert decide(ours, worse, Policy(rule="not_worse", margin=0.25)).verdict == "register"
    assert decide(ours, worse, Policy(rule="not_worse", margin=0.2499999)).verdict == "keep champion"


def test_equal_models_are_neither_worse_nor_better(evaluation: Make) -> None:
    right = np.arange(360) % 10 > 0
    same = replace(evaluation({"accuracy": 0.9}, replicates={}), evidence=Rows.of({"accuracy": (right, None)}))
    assert decide(same, champion(same), Policy(rule="not_worse", margin=0.05)).verdict == "register"
    # On 360 samples a model that loses one in a hundred may lose none.
    assert decide(same, champion(same), Policy(rule="not_worse", margin=0.01)).verdict == "keep champion"
    assert decide(same, champion(same), Policy(rule="better")).verdict == "keep champion"


def test_error_bounds_of_both_values_reduce_the_gain(evaluation: Make) -> None:
    ours = evaluation({"auroc": (0.93, 0.01)}, replicates={"auroc": [0.93] * COUNT})
    theirs = evaluation({"auroc": (0.9, 0.015)}, replicates={"auroc": [0.9] * COUNT})
    assert decide(ours, champion(theirs), Policy(metric="auroc")).verdict == "register"
    wider = evaluation({"auroc": (0.9, 0.025)}, replicates={"auroc": [0.9] * COUNT})
    decided = decide(ours, champion(wider), Policy(metric="auroc"))
    assert decided.verdict == "keep champion"
    assert "The interval is wider by 0.0350 at each end" in said(decided)


@pytest.mark.parametrize(("bounds", "kept"), [((0.0, 0.0), True), ((0.01, 0.01), True), ((0.02, 0.012), False)])
def test_error_bounds_of_replicates_widen_the_interval(
    evaluation: Make, bounds: tuple[float, float], kept: bool
) -> None:
    """Of either model: who is better in a replicate by less than both bounds is not known."""
    for metric, sign in (("auroc", 1), ("loss", -1)):
        ours = evaluation(
            {metric: 0.9 + sign * 0.03}, replicates={metric: [0.9 + sign * 0.03] * COUNT}, bounds={metric: bounds[0]}
        )
        theirs = evaluation({metric: 0.9}, replicates={metric: [0.9] * COUNT}, bounds={metric: bounds[1]})
        decided = decide(ours, champion(theirs), Policy(metric=metric))
        assert decided.verdict == ("register" if kept else "keep champion")
        assert decided.difference is not None and decided.difference.interval is not None
        interval, bound = decided.difference.interval, sum(bounds)
        assert (interval.low, interval.high) == pytest.approx((sign * 0.03 - bound, sign * 0.03 + bound))
        assert decided.difference.bound == pytest.approx(bound)
        wider = "The interval is wider by 0.0320 at each end"
        assert (wider in said(decided)) == (not kept)


def test_without_replicates_the_values_decide_with_a_note(evaluation: Make) -> None:
    decided = decide(evaluation({"accuracy": 0.91}), champion(evaluation({"accuracy": 0.9})), Policy())
    assert decided.verdict == "register"
    assert "There are no bootstrap replicates: only the values decide" in said(decided)
    assert "statistically significant" not in said(decided)


def test_undefined_replicates_are_ignored(evaluation: Make) -> None:
    holes: list[float | None] = [None if number % 4 == 0 else 0.95 for number in range(COUNT)]
    theirs = evaluation({"accuracy": 0.9}, replicates={"accuracy": [None, *([0.9] * (COUNT - 1))]})
    decided = decide(evaluation({"accuracy": 0.95}, replicates={"accuracy": holes}), champion(theirs), Policy())
    assert decided.difference is not None and decided.difference.estimate is not None
    assert decided.difference.estimate.degrees == 149
    few = evaluation({"accuracy": 0.95}, replicates={"accuracy": [*([0.95] * 49), *([None] * 151)]})
    undecided = decide(few, champion(evaluation({"accuracy": 0.9}, replicates={"accuracy": [0.9] * COUNT})), Policy())
    assert undecided.verdict == "keep champion"
    assert "There is no interval: too few replicates define it, or they do not vary." in said(undecided)


def test_a_report_without_rows_asks_for_a_new_evaluation(evaluation: Make) -> None:
    ours = evaluation({"accuracy": 0.95}, replicates={"accuracy": [0.95] * COUNT})
    for models in ((ours, replace(ours, evidence=None)), (replace(ours, evidence=None), ours)):
        with pytest.raises(InputError, match=r"has no rows\.npz, .*: an earlier version .* Evaluate the model again"):
            decide(models[0], champion(models[1]), Policy())
    assert decide(replace(ours, evidence=None), None, Policy()).verdict == "register"  # nothing to compare with


def test_budgets(evaluation: Make) -> None:
    ours = evaluation(
        {"accuracy": 0.95, "loss": 0.25}, slices={"site=north": {"accuracy": 0.8}, "site=south": {"accuracy": 0.99}}
    )
    theirs = evaluation(
        {"accuracy": 0.9, "loss": 0.2}, slices={"site=north": {"accuracy": 0.9}, "site=south": {"accuracy": 0.9}}
    )
    for budgets, kept in (
        ('{"accuracy@site=north": 0.11}', True),
        ('{"accuracy@site=north": 0.09}', False),
        ('{"accuracy@*": 0.09}', False),
        ('{"loss": 0.051}', True),
        ('{"loss": 0.049}', False),
        ('{"accuracy": 0}', True),
    ):
        decided = decide(ours, champion(theirs), Policy(budgets=budgets))
        assert (decided.verdict == "register", decided.within_budgets) == (kept, kept), budgets
        assert decided.better
    decided = decide(ours, champion(theirs), Policy(budgets='{"accuracy@site=north": 0.05}'))
    assert "accuracy (site=north) is 0.1000 worse than the champion's; at most 0.0500 is allowed." in decided.why


def test_a_budget_may_be_used_up_and_errors_of_both_values_count(evaluation: Make) -> None:
    ours = evaluation({"accuracy": 1.0, "auroc": (0.5, 0.125)})
    theirs = champion(evaluation({"accuracy": 0.5, "auroc": (0.75, 0.25)}))
    assert decide(ours, theirs, Policy(budgets='{"auroc": 0.625}')).within_budgets
    assert not decide(ours, theirs, Policy(budgets='{"auroc": 0.6249999}')).within_budgets


def test_many_reasons_of_one_kind_are_shortened(evaluation: Make) -> None:
    ours = evaluation({"accuracy": 0.95}, slices={f"site={number}": {"accuracy": 0.5} for number in range(40)})
    decided = decide(ours, None, Policy(floors='{"accuracy@site=*": 0.9}'))
    assert sum("at least 0.9000 is required" in reason for reason in decided.why) == 5
    assert "35 more floors are not met." in decided.why and len(decided.floors) == 40


def test_already_registered(evaluation: Make) -> None:
    ours = evaluation({"accuracy": 0.95})
    known = Registered(version=2, status="Rejected")
    decided = decide(ours, champion(None), Policy(), registered=known)
    assert (decided.verdict, decided.better, decided.difference) == ("already registered", False, None)
    assert said(decided) == "This content is already registered as version 2, which was rejected."
    first = decide(ours, None, Policy(), registered=known)
    assert (first.verdict, first.better) == ("already registered", False)
    below = decide(ours, None, Policy(floors='{"accuracy": 0.99}'), registered=known)
    assert below.verdict == "below floors" and "already registered as version 2" in said(below)


MISMATCHES = {
    "test sets": {"data_hash": "e" * 64},
    "numbers of rows": {"rows": 361},
    "keys of a sample": {"key": "name"},
}


@pytest.mark.parametrize("what", MISMATCHES)
def test_differently_measured_reports_are_not_compared(evaluation: Make, what: str) -> None:
    ours = evaluation({"accuracy": 0.95})
    theirs = replace(ours, source="champion/evaluation.json", **MISMATCHES[what])  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        decide(ours, champion(theirs), Policy())
    message = str(caught.value)
    assert f"different {what}: " in message
    ((field, value),) = MISMATCHES[what].items()
    assert f"{getattr(ours, field)}, and {value}." in message
    assert "report/evaluation.json" in message and "champion/evaluation.json" in message


def test_another_number_of_samples_is_not_compared(evaluation: Make) -> None:
    """A row may have several samples."""
    ours = evaluation({"accuracy": 0.95})
    theirs = replace(ours, groups={"": replace(ours.whole, num_samples=359)})
    with pytest.raises(InputError, match="different numbers of samples: 360, and 359"):
        decide(ours, champion(theirs), Policy())


def test_other_replicates_are_not_paired(evaluation: Make) -> None:
    ours = evaluation({"accuracy": 0.95}, replicates={"accuracy": [0.95] * COUNT})
    assert ours.resampling is not None
    for other in (replace(ours.resampling, seed=1), replace(ours.resampling, by="row"), None):
        with pytest.raises(InputError, match=r"different bootstraps: 200 replicates of seed 0 by id, and "):
            decide(ours, champion(replace(ours, resampling=other)), Policy())


def test_other_slices_are_not_compared(evaluation: Make) -> None:
    ours = evaluation({"accuracy": 0.95}, slices={"site=north": {"accuracy": 0.9}})
    with pytest.raises(InputError, match="different slices: site=north, and none"):
        decide(ours, champion(evaluation({"accuracy": 0.9})), Policy())


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"metric": "acuracy"}, "metric: report/evaluation.json has no 'acuracy'. Did you mean 'accuracy'?"),
        ({"metric": "auroc"}, "metric: auroc is undefined in report/evaluation.json: one class only"),
        ({"metric": "confusion_matrix"}, "cannot decide: nothing says whether more of it is better"),
        ({"floors": '{"f1_makro": 0.9}'}, "floors: report/evaluation.json has no 'f1_makro'. Did you mean 'f1_macro'?"),
        ({"floors": '{"auroc": 0.9}'}, "floors: auroc is undefined"),
        ({"floors": '{"accuracy@site=nord": 0.9}'}, "has no slice 'site=nord'. Did you mean 'site=north'?"),
        ({"floors": '{"accuracy@sight=*": 0.9}'}, "floors: 'accuracy@sight=*', but there is no such slice."),
        ({"floors": '{"f1_macro@site=north": 0.9}'}, "has no 'f1_macro' on site=north"),
        ({"floors": '{"confusion_matrix": 1}'}, "cannot be limited: nothing says whether more of it is better"),
        ({"budgets": '{"acuracy": 0.1}'}, "budgets: report/evaluation.json has no 'acuracy'"),
    ],
)
def test_undecidable_reports_are_refused(evaluation: Make, given: dict[str, str], part: str) -> None:
    ours = evaluation(
        {"accuracy": 0.95, "f1_macro": 0.9, "confusion_matrix": 1.0},
        slices={"site=north": {"accuracy": 0.9}},
        undefined={"auroc": "one class only"},
    )
    with pytest.raises(InputError) as caught:
        decide(ours, None, Policy(**given))  # type: ignore[arg-type]
    assert part in str(caught.value)


def test_a_slice_rule_without_slices_is_refused(evaluation: Make) -> None:
    with pytest.raises(InputError, match="evaluated without slices: evaluate with slices="):
        decide(evaluation({"accuracy": 0.9}), None, Policy(floors='{"accuracy@site=north": 0.9}'))


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"rule": "best"}, "rule='best'. Allowed: better, not_worse."),
        ({"metric": ""}, "metric=''"),
        ({"metric": "accuracy@site=north"}, "of the whole test set"),
        ({"margin": -0.1}, "margin=-0.1"),
        ({"margin": float("nan")}, "margin=nan"),
        ({"confidence": 1.0}, "confidence=1.0"),
        ({"confidence": 95.0}, "confidence=95.0"),
        ({"confidence": 0.49}, "confidence=0.49"),
        ({"floors": "accuracy > 0.9"}, "is not JSON"),
        ({"floors": "[]"}, "is not a JSON object"),
        ({"floors": '{"accuracy": "0.9"}'}, "Allowed: a finite number"),
        ({"floors": '{"accuracy": NaN}'}, "Allowed: a finite number"),
        ({"floors": '{"accuracy": true}'}, "Allowed: a finite number"),
        ({"floors": '{"accuracy@": 0.9}'}, "metric@column=value"),
        ({"floors": '{"accuracy@north": 0.9}'}, "metric@column=value"),
        ({"floors": '{"@site=north": 0.9}'}, "metric@column=value"),
        ({"floors": '{"accuracy": 0.9, "accuracy": 0.8}'}, "names 'accuracy' twice"),
        ({"budgets": '{"accuracy": -0.1}'}, "Allowed: 0 or more"),
    ],
)
def test_invalid_policies_are_refused(given: dict[str, object], part: str) -> None:
    with pytest.raises(InputError) as caught:
        Policy(**given)  # type: ignore[arg-type]
    assert part in str(caught.value)


def test_the_least_confidence_is_one_half() -> None:
    assert Policy(confidence=0.5).confidence == 0.5
