"""A loss that a learning rate has driven up falls for long; compared with guessing it has not fallen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Finding, load_rules, see


def findings(losses: Sequence[float], classes: int | None) -> list[Finding]:
    """What loss_not_decreasing says of a loss a step; the labels are seen in the first step alone, as a rule."""
    rules = [one for one in load_rules("{}") if one.name == "loss_not_decreasing"]
    seen = None if classes is None else np.ones(classes)
    return [
        finding
        for step, loss in enumerate(losses, 1)
        for finding in see(rules, Record(step=step, steps=1, loss=loss, classes=seen if step == 1 else None))
    ]


def diverged(first: float = 2.31, steps: int = 300) -> list[float]:
    """The first step is before the harm; then down from millions, and never below 2.4."""
    return [first, *(4e6 * 0.5**step + 2.4 for step in range(steps))]


def test_a_model_that_guesses_after_its_loss_exploded_has_learnt_nothing() -> None:
    found = findings(diverged(), 10)
    assert found[0].step == 200
    assert found[0].text == "the loss is 2.4 after 200 steps, and guessing gives 2.303"


@pytest.mark.parametrize(
    ("losses", "classes"),
    [
        (diverged(), None),  # no classes, no guess
        (diverged(first=4.0), 10),  # a loss of more than a cross-entropy
        (diverged(), 20),  # guessing 20 classes gives 3.0
        ([0.03 * 0.97**step + 0.69 for step in range(300)], 2),  # a hard task: hardly better than a coin
        ([7.1 - 0.001 * step for step in range(300)], 1000),  # many classes take their time
        ([2.3 * 0.99**step + 0.1 for step in range(300)], 10),
    ],
)
def test_the_rule_ignores_other_models(losses: list[float], classes: int | None) -> None:
    assert findings(losses, classes) == []


def test_a_training_that_goes_on_is_still_compared_with_guessing() -> None:
    rules = [one for one in load_rules("{}") if one.name == "loss_not_decreasing"]
    losses = diverged()
    for step in range(1, 101):
        assert not see(rules, Record(step=step, steps=1, loss=losses[step - 1], classes=np.ones(10)))
    later = [one for one in load_rules("{}") if one.name == "loss_not_decreasing"]
    later[0].load_state(rules[0].state())
    told = [see(later, Record(step=step, steps=1, loss=losses[step - 1])) for step in range(101, 230)]
    assert any(told)


def test_a_loss_that_stays_where_guessing_is_has_not_fallen() -> None:
    found = findings([2.31, *[30.0] * 20, *[2.303 - 0.01 * (step % 2) for step in range(300)]], 10)
    assert found[0].text == "the loss is 2.298 after 200 steps, and guessing gives 2.303"
    assert findings([0.70, *[3.0] * 20, *[0.693 - 0.001 * (step % 2) for step in range(300)]], 2) == []
