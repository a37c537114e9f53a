"""One test a rule about checkpoints, and that the training judges alike."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import pytest

from drivetrain import Cluster, Parameter, Pipeline, SpecError, step
from drivetrain.base.errors import InputError
from drivetrain.components.train import train
from drivetrain.rules import checkpoint_rules
from drivetrain.training.checkpointing.interval import parse_every


def refusal(*parameters: Parameter, **given: Any) -> str:
    with pytest.raises(SpecError) as caught:
        Pipeline(name="p", steps=[step(train, train="s3://b/k/", **given)], parameters=parameters)
    return str(caught.value)


def test_every_rule_has_a_test_here() -> None:
    tests = {name.removeprefix("test_rule_") for name, _ in inspect.getmembers(sys.modules[__name__])}
    assert {rule.__name__ for rule in checkpoint_rules.rule} <= tests


def test_rule_checkpoint_every_is_known() -> None:
    assert "step 'train': checkpoint_every='ten'; allowed are auto, epoch, or" in refusal(checkpoint_every="ten")


@pytest.mark.parametrize(
    "text",
    [
        *("auto", "epoch", "200steps", "1 step", "90s", " 10m ", "0.5h", "2.0steps"),
        *("", "Auto", "0s", "0steps", "1.5steps", "10", "s", "-1s", "1d", "1e3s", "\u0661s", "1" * 13 + "s"),
    ],
)
def test_the_training_judges_alike(text: str) -> None:
    try:
        parse_every(text)
        good = True
    except InputError:
        good = False
    assert checkpoint_rules.is_every(text) is good


def test_a_bare_true_is_no_spot() -> None:
    with pytest.raises(ValueError, match="Cluster") as caught:
        Cluster(spot=True)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "Cluster.spot is True: say how long the job may take with waiting, spot=Spot(max_wait_seconds=...); None is "
        "on demand."
    )
