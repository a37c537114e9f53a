"""Budgets: exceeded by a loss that is significant, or kept where a greater one is ruled out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.decision.deciding import Champion, Decision, decide
from drivetrain.decision.evaluation import Evaluation, Group, Measured
from drivetrain.decision.noninferiority import rules_out
from drivetrain.decision.page import About
from drivetrain.decision.policy import Policy
from drivetrain.decision.record import write
from drivetrain.decision.rows import Rows

Make = Callable[..., Evaluation]
COUNT = 200
NORTH, SOUTH = "site=north", "site=south"


def sliced(
    make: Make, sizes: dict[str, int], values: dict[str, float], spread: float, **more: dict[str, str]
) -> Evaluation:
    """A model's mean loss on slices, with replicates that lie evenly within `spread` of it."""

    def around(value: float) -> tuple[float, ...]:
        return tuple(value + spread * (2 * number / (COUNT - 1) - 1) for number in range(COUNT))

    # (Replicates of two models that do not differ at all are no certainty.)
    whole = [0.5 + 1e-6 * ((7 * number + round(1e4 * sum(values.values()))) % 11) for number in range(COUNT)]
    base = make({"loss": 0.5, "accuracy": 0.5}, replicates={"loss": whole, "accuracy": whole})
    slices = {
        name: Group(
            num_samples=size,
            metrics={"loss": Measured(value=values[name], higher_is_better=False)} if name in values else {},
            replicates={"loss": around(values[name])} if name in values else {},
            undefined={} if name in values else {"loss": "no samples"},
        )
        for name, size in sizes.items()
    }
    return replace(base, groups={"": base.whole, **slices})


def decided(ours: Evaluation, theirs: Evaluation, budgets: str, budget_rule: str = "significant") -> Decision:
    champion = Champion(version=1, content_hash="", evaluation=theirs)
    return decide(ours, champion, Policy(rule="not_worse", margin=0.1, budgets=budgets, budget_rule=budget_rule))


def test_an_insignificant_loss_is_allowed_but_not_proven(evaluation: Make, tmp_path: Path) -> None:
    """Worse by 0.02 give or take 0.02, where 0.03 is allowed; on the other slice a loss is ruled out."""
    sizes = {NORTH: 250, SOUTH: 5000}
    ours = sliced(evaluation, sizes, {NORTH: 2.02, SOUTH: 2.0}, 0.035)
    theirs = sliced(evaluation, sizes, {NORTH: 2.0, SOUTH: 2.0}, 0.0)
    budgets = '{"loss@site=north": 0.03, "loss@site=south": 0.04}'
    kept = decided(ours, theirs, budgets=budgets)
    assert kept.verdict == "register" and kept.within_budgets
    proven = decided(ours, theirs, budgets=budgets, budget_rule="proven")
    assert proven.verdict == "keep champion" and not proven.within_budgets and proven.better
    north, south = proven.regressions
    assert (north.within, south.within, north.samples) == (False, True, 250)
    assert north.at_most == pytest.approx(0.02 + 1.645 * 0.0202, abs=4e-3)
    said = " ".join(proven.why)
    assert f"loss (site=north) may be {north.at_most:.4f} worse than the champion's; a loss of more than 0.0300" in said
    # What the samples can show is said whatever the rule.
    assert north.could_rule_out == pytest.approx(2.486 * 0.0202, abs=6e-3)
    told = "The budget of loss (site=south), 0.0400, is smaller than what 5,000 samples can rule out, "
    assert told in said and told in " ".join(kept.why) and "So are 1 other budget." in said
    write(proven, tmp_path, About(group="digits", registry="local", candidate_hash="c" * 64))
    page = (tmp_path / "decision.md").read_text()
    assert "| loss (site=north) | 0.0300 | +0.0200 | 0.0" in page and "| **not proven** |" in page
    assert "- Budgets: each must be proven by itself" in page


def test_budgets_are_judged_independently(evaluation: Make) -> None:
    """Of twenty slices one is clearly worse: among so many looks that may be chance, and it is not ruled out."""
    names = [f"site={number}" for number in range(20)]
    theirs = sliced(evaluation, dict.fromkeys(names, 250), dict.fromkeys(names, 2.0), 0.0)
    ours = sliced(evaluation, dict.fromkeys(names, 250), {**dict.fromkeys(names, 1.9), "site=7": 2.05}, 0.04)
    budgets = '{"loss@site=*": 0.02}'
    assert decided(ours, theirs, budgets=budgets).within_budgets
    proven = decided(ours, theirs, budgets=budgets, budget_rule="proven")
    assert [loss.slice for loss in proven.regressions if not loss.within] == ["site=7"]


def test_a_slice_that_leaves_the_metric_undefined_proves_nothing(evaluation: Make) -> None:
    sizes = {NORTH: 250, SOUTH: 0}
    models = [sliced(evaluation, sizes, {NORTH: value}, 0.001) for value in (2.0, 2.001)]
    budgets = '{"loss@site=*": 0.05}'
    kept = decided(models[0], models[1], budgets=budgets)
    assert kept.verdict == "register"
    assert "loss (site=south) is undefined (no samples): its budget was not checked." in kept.why
    proven = decided(models[0], models[1], budgets=budgets, budget_rule="proven")
    assert proven.verdict == "keep champion" and not proven.within_budgets
    assert "loss (site=south) is undefined (no samples): its budget is not proven." in proven.why


def test_without_intervals_nothing_can_be_proven(evaluation: Make) -> None:
    bare = evaluation({"accuracy": 0.9})
    with pytest.raises(InputError, match=r"budget_rule='proven' needs intervals.*bootstrap=200"):
        decide(bare, None, Policy(budgets='{"accuracy": 0.02}', budget_rule="proven"))
    assert decide(bare, None, Policy(budget_rule="proven")).verdict == "register", "without budgets"


def test_invalid_budget_rules_are_refused() -> None:
    with pytest.raises(InputError, match=r"budget_rule='shown'\. Allowed: significant, proven\."):
        Policy(budget_rule="shown")
    with pytest.raises(InputError, match=r"margin_from='newest'\. Allowed: best, champion\."):
        Policy(margin_from="newest")


def test_shares_of_rows_are_judged_by_the_rows_that_differ(evaluation: Make) -> None:
    """Of 357 rows that a slice has: a loss of as many rows as its budget is never proven, none lost is."""
    rows = np.arange(357)
    inside = {NORTH: np.ones(357, bool)}

    def model(lost: int) -> Evaluation:
        right = rows >= lost
        value = Measured(value=float(right.mean()), higher_is_better=True)
        group = Group(num_samples=357, metrics={"accuracy": value})
        base = evaluation({"accuracy": value.value}, rows=357, key=None)
        return replace(
            base, groups={"": group, NORTH: group}, evidence=Rows.of({"accuracy": (right, None)}, slices=inside)
        )

    found = {
        lost: decided(model(lost), model(0), budgets='{"accuracy@site=north": 0.05}', budget_rule="proven")
        for lost in (0, 10, 11, 18)
    }
    assert [lost for lost, each in found.items() if each.within_budgets] == [0, 10]
    assert {each.regressions[0].samples for each in found.values()} == {357}
    at_most = found[10].regressions[0].at_most
    assert at_most is not None and rules_out(0, 10, 357, at_most + 1e-9, 0.05)
    assert found[18].regressions[0].loss == pytest.approx(18 / 357)


def of_one_class(evaluation: Make, size: int, lost: int) -> Evaluation:
    """Of 357 rows, `size` of the class, of which the first `lost` are wrong."""
    rows = np.arange(357)
    of = rows < size
    name, value = "accuracy_class_3", Measured(value=1 - lost / size, higher_is_better=True)
    base = evaluation({"accuracy": 0.9}, rows=357, key=None)
    group = Group(num_samples=357, metrics={**base.whole.metrics, name: value})
    return replace(base, groups={"": group}, evidence=Rows.of({name: (of & (rows >= lost), of)}))


def test_a_budget_of_a_class_counts_the_samples_of_the_class(evaluation: Make) -> None:
    budgets = '{"accuracy_class_3": 0.001}'
    found = decided(of_one_class(evaluation, 39, 1), of_one_class(evaluation, 39, 0), budgets)
    assert found.regressions[0].samples == 39
    assert any("is smaller than what 39 samples can rule out" in each for each in found.why)


def test_a_budget_without_data_is_not_tested(evaluation: Make, tmp_path: Path) -> None:
    budgets = '{"accuracy_class_3": 0.001, "accuracy": 0.5}'
    ours, theirs = of_one_class(evaluation, 9, 3), of_one_class(evaluation, 9, 0)
    found = decided(ours, theirs, budgets)
    loss, _ = found.regressions
    assert (loss.within, loss.chance, loss.untested) == (True, None, "too few samples: 9, and 10 are needed")
    assert "The budget of accuracy_class_3 is not tested: too few samples: 9, and 10 are needed." in found.why
    assert found.why[-1] == "The other budget is kept."
    write(found, tmp_path, About(group="digits", registry="local", candidate_hash=""))
    row = next(line for line in (tmp_path / "decision.md").read_text().splitlines() if "| 9 |" in line)
    assert row.endswith("|  | not tested |")
    assert '"untested": "too few samples: 9' in (tmp_path / "decision.json").read_text()
    proven = decided(ours, theirs, budgets, "proven")
    assert not proven.regressions[0].within and not proven.regressions[0].untested
