"""One test a rule about what is compared and registered."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import pytest

from drivetrain import Parameter, Pipeline, SpecError, step
from drivetrain.components.compare import compare
from drivetrain.components.register_model import register_model
from drivetrain.rules import registry_rules


def registering(*parameters: Parameter, **given: Any) -> Pipeline:
    made = step(register_model, model="s3://bucket/model/", group="digits", **given)
    return Pipeline(name="p", parameters=list(parameters), steps=[made])


def refusal(**given: Any) -> str:
    with pytest.raises(SpecError) as caught:
        registering(**given)
    return str(caught.value)


def compared(**policy: Any) -> Pipeline:
    places = {name: f"s3://b/{name}/" for name in ("evaluation", "model", "data")}
    return Pipeline(name="p", steps=[step(compare, **places, group="g", **policy)])


def test_every_rule_has_a_test_here() -> None:
    tests = {name.removeprefix("test_rule_") for name, _ in inspect.getmembers(sys.modules[__name__])}
    assert {rule.__name__ for rule in registry_rules.rule} <= tests


def test_rule_registered_models_have_an_artifact() -> None:
    assert "step 'register-model' registers a model without artifact=" in refusal()
    registering(artifact="s3://bucket/model/")
    place = Parameter.string("Place")
    registering(place, artifact=place)


def test_rule_registries_are_of_a_known_kind() -> None:
    said = refusal(artifact="s3://bucket/model/", registry="mlfow:http://host:5000")
    assert (
        "step 'register-model': registry 'mlfow:http://host:5000': unknown kind 'mlfow'. Did you mean 'mlflow'" in said
    )
    assert "names no kind. Write it as local:build/ledger.db" in refusal(
        artifact="s3://bucket/model/", registry="build/ledger.db"
    )
    for known in ("auto", "local", "mlflow:http://host:5000"):
        registering(artifact="s3://bucket/model/", registry=known)


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
