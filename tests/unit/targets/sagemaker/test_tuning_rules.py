"""One test a rule about tunings: the smallest one that breaks it, and the message that says what to do."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import pytest

from drivetrain import Alternative, Checkpoint, Cluster, Parameter, Pipeline, SpecError, Spot
from drivetrain.spec.resources import Program
from drivetrain.spec.steps import TuningStep
from drivetrain.spec.training_options import Between, OneOf, Search, TrainingOptions
from drivetrain.targets.sagemaker import tuning_rules

RATE = Between(low=0.1, high=1.0)


def tuning(search: dict[str, Any] | None = None, **fields: Any) -> TuningStep:
    told = {"objective": "loss", "maximize": False, "ranges": {"rate": RATE}, "max_trainings": 3, **(search or {})}
    return TuningStep(
        **{
            "name": "tune",
            "program": Program(kind="component", target="module:function"),
            "logs": {"loss": "loss=(.*)"},
            "search": Search(**told),
            **fields,
        }
    )


def refusal(step: TuningStep, **fields: Any) -> str:
    with pytest.raises(SpecError) as caught:
        Pipeline(**{"name": "p", "steps": [step], **fields})
    return str(caught.value)


def test_every_rule_has_a_test_here() -> None:
    tests = {name.removeprefix("test_rule_") for name, _ in inspect.getmembers(sys.modules[__name__])}
    assert {rule.__name__ for rule in tuning_rules.rule} <= tests


def test_a_good_tuning_breaks_no_rule_and_survives_the_round_trip() -> None:
    most = Parameter(name="Most", type="Integer", default=5)
    pipeline = Pipeline(name="p", parameters=[most], steps=[tuning({"max_trainings": most.ref()})])
    assert Pipeline.model_validate_json(pipeline.model_dump_json()) == pipeline


def test_rule_something_is_searched() -> None:
    assert "searches nothing" in refusal(tuning({"ranges": {}}))
    assert "'rate' has a range and a value" in refusal(tuning(parameters={"rate": 0.5}))
    many = {f"p{number}": RATE for number in range(31)}
    assert "searches 31 hyperparameters; at most 30" in refusal(tuning({"ranges": many}))


def test_rule_the_objective_is_logged() -> None:
    assert "do not log the objective 'los'. Did you mean 'loss'" in refusal(tuning({"objective": "los"}))


def test_rule_the_number_of_trainings_is_known() -> None:
    grid = {"strategy": "Grid", "ranges": {"a": OneOf(values=(1, 2)), "b": OneOf(values=("x", "y"))}}
    assert "give max_trainings" in refusal(tuning({"max_trainings": None}))
    assert "max_parallel is 0; at least 1" in refusal(tuning({"max_parallel": 0}))
    assert "max_trainings is 100,000; a tuning has at most 750 trainings" in refusal(tuning({"max_trainings": 100_000}))
    Pipeline(name="p", steps=[tuning({"max_trainings": 750})])
    assert "max_parallel is 4, and there are 3 trainings" in refusal(tuning({"max_parallel": 4}))
    Pipeline(name="p", steps=[tuning({"max_parallel": 3})])
    few = {"a": OneOf(values=(1, 2)), "n": Between(low=1, high=3)}
    assert "have 6 combinations, and max_trainings is 7" in refusal(tuning({"ranges": few, "max_trainings": 7}))
    Pipeline(name="p", steps=[tuning({"ranges": few, "max_trainings": 6})])
    wide = {"ranges": {name: OneOf(values=tuple(range(28))) for name in "ab"}, "strategy": "Grid"}
    assert "784 combinations; a tuning has at most 750" in refusal(tuning({**wide, "max_trainings": None}))
    assert "Give rate=one_of" in refusal(tuning({"strategy": "Grid", "max_trainings": None}))
    assert "has 4 combinations, and max_trainings is 3" in refusal(tuning(grid))
    Pipeline(name="p", steps=[tuning({**grid, "max_trainings": None})])
    text = Parameter(name="Most", type="String", default="5")
    assert "String parameter 'Most', not Integer" in refusal(tuning({"max_trainings": text.ref()}), parameters=[text])


def test_rule_hyperband_stops_by_itself() -> None:
    hyperband = {"strategy": "Hyperband", "epochs": (1, 9)}
    Pipeline(name="p", steps=[tuning(hyperband)])
    assert "Leave early_stopping out" in refusal(tuning({**hyperband, "early_stopping": True}))
    assert "needs epochs=(least, most)" in refusal(tuning({"strategy": "Hyperband"}))
    assert "is Hyperband's" in refusal(tuning({"epochs": (1, 9)}))
    assert "the least comes first" in refusal(tuning({"strategy": "Hyperband", "epochs": (9, 1)}))


def test_rule_tunings_keep_no_checkpoints() -> None:
    spot = Cluster(spot=Spot(max_wait_seconds=90_000))
    assert "tunes on spot machines" in refusal(tuning(cluster=spot, checkpoint=Checkpoint()))
    assert "Leave checkpoint= out" in refusal(tuning(checkpoint=Checkpoint(uri="s3://bucket/checkpoints/")))


@pytest.mark.parametrize(("option", "value"), [("debugger", {}), ("remote_debug", True), ("tensorboard", True)])
def test_rule_tunings_have_what_their_trainings_may_have(option: str, value: Any) -> None:
    options = TrainingOptions.model_validate({option: value})
    assert f"tuning jobs have no options.{option}" in refusal(tuning(options=options))
    Pipeline(name="p", steps=[tuning(options=TrainingOptions())])


def test_a_tuning_that_chooses_among_machines_keeps_none_warm() -> None:
    other = (Alternative(instance_type="ml.m5.2xlarge"),)
    said = refusal(tuning(cluster=Cluster(alternatives=other, warm_pool_seconds=600)))
    assert "takes no cluster.warm_pool_seconds" in said and "Leave it out" in said
    Pipeline(name="p", steps=[tuning(cluster=Cluster(alternatives=other))])
