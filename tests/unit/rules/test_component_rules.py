"""One test a rule about what the components of the package are told, and the message that says what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Parameter, Pipeline, SpecError, step
from drivetrain.components.compare import compare
from drivetrain.components.train import train


def trained(*parameters: Parameter, health_rules: Any) -> Pipeline:
    given = health_rules if isinstance(health_rules, str | Parameter) else json.dumps(health_rules)
    return Pipeline(
        name="p", parameters=list(parameters), steps=[step(train, train="s3://b/train/", health_rules=given)]
    )


def compared(**policy: Any) -> Pipeline:
    places = {name: f"s3://b/{name}/" for name in ("evaluation", "model", "data")}
    return Pipeline(name="p", steps=[step(compare, **places, group="g", **policy)])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"overfiting": "off"}, "step 'train': health_rules: no rule 'overfiting'. Did you mean 'overfitting'?"),
        ({"overfitting": {"action": "halt"}}, "'overfitting' has no action 'halt'."),
        ({"overfitting": {"shares": 0.3}}, "no option of 'overfitting' 'shares'. Did you mean 'share'?"),
        ({"overfitting": "of"}, '\'overfitting\' is "of". Allowed: "off", or an object'),
        ("{", "are not JSON"),
    ],
)
def test_rule_health_rules_are_told_what_they_take(given: Any, said: str) -> None:
    with pytest.raises(SpecError) as refused:
        trained(health_rules=given)
    assert said in str(refused.value)


def test_health_rules_that_can_be_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained(health_rules={"overfitting": {"action": "stop", "share": 0.3}, "slow_input": "off", "mine": {"most": 2}})
    (tmp_path / "overfiting.py").touch()
    monkeypatch.chdir(tmp_path)
    trained(health_rules={"overfiting": {}})  # a module of the user's own


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"budgets": '{"accuracy": -1}'}, "step 'compare': budgets"),
        ({"budgets": "accuracy"}, "step 'compare': budgets"),
        ({"floors": "[1]"}, "step 'compare': floors"),
        ({"metric": "accuracy@site"}, "step 'compare': metric='accuracy@site'."),
        ({"lines": 0}, "step 'compare': lines=0."),
    ],
)
def test_rule_conditions_can_be_decided_on(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as refused:
        compared(**given)
    assert said in str(refused.value)
    compared(budgets='{"accuracy@site=*": 0.02}', floors='{"accuracy": 0.9}')
