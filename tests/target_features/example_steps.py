"""Kinds of steps, and how they follow each other."""

from __future__ import annotations

from typing import Literal

from drivetrain.authoring import Pipeline, call_lambda, fail, step, when
from drivetrain.authoring.for_each import current_item, for_each, largest
from drivetrain.authoring.register import register
from drivetrain.authoring.tune import one_of, tune
from drivetrain.components.compare import compare
from drivetrain.components.evaluate import evaluate
from drivetrain.components.train_script import train_script
from drivetrain.spec.pipeline import Parameter
from drivetrain.spec.steps import Dependency, NativeStep, ProcessingStep, TrainingStep
from tests.target_features.features import data, feature, of, training

GROUP = "Steps"


@feature(GROUP, "a component as a step")
def component_step() -> Pipeline:
    return of(data())


@feature(GROUP, "a training")
def training_step() -> Pipeline:
    prepared = data()
    return of(prepared, training(prepared))


@feature(GROUP, "a training by a script of one's own")
def own_training() -> Pipeline:
    return of(own_script())


@feature(GROUP, "the same, with a volume for its checkpoints")
def own_training_with_volume() -> Pipeline:
    return of(own_script(), kubeflow={"checkpoint_claim": "checkpoints"})


@feature(GROUP, "evaluate, compare with the champion, register")
def registration() -> Pipeline:
    prepared = data()
    model = training(prepared)
    scores = step(evaluate, model=model["model"], data=prepared["test"])
    compared = step(compare, evaluation=scores["report"], model=model["model"], data=prepared["test"], group="example")
    version = register(model=model["model"], evaluation=scores, decision=compared, group="example")
    return of(
        prepared,
        model,
        scores,
        compared,
        when(compared.metric("register").equals(1), then=[version], otherwise=[fail("no better")]),
    )


@feature(GROUP, "decisions in decisions")
def nested_decisions() -> Pipeline:
    amount = Parameter.number("Amount", default=1.0)
    inner = when(amount.ref() > 2, then=[data("large")], name="inner")
    return of(when(amount.ref() > 1, then=[inner], otherwise=[data("small")]), parameters=[amount])


@feature(GROUP, "a step that ends the run as failed")
def failing_step() -> Pipeline:
    return of(fail("not today"))


@feature(GROUP, "`for_each` over a list")
def loop() -> Pipeline:
    return of(for_each(["a", "b"], [data(salt=current_item())], name="each"))


@feature(GROUP, "`for_each`: the best iteration goes on")
def best_of_loop() -> Pipeline:
    prepared = data()
    model = training(prepared, learning_rate=current_item("Float"))
    sweep = for_each([0.1, 0.2], [model], name="sweep", best=largest(model.logged("validation_accuracy")))
    return of(prepared, sweep, register(model=sweep.best["model"], group="example"))


@feature(GROUP, "`for_each`: one iteration by its number")
def one_iteration() -> Pipeline:
    each = data(salt=current_item())
    sweep = for_each(["a", "b"], [each], name="each")
    return of(sweep, training(each).model_copy(update={"inputs": {"train": sweep.of(0, each)["train"]}}))


@feature(GROUP, "`for_each`: the number of iterations by how they ended")
def count_of_loop() -> Pipeline:
    sweep = for_each(["a", "b"], [data(salt=current_item())], name="each")
    return of(sweep, when(sweep.count("Failed") > 0, then=[fail("an iteration failed")]))


@feature(GROUP, "`for_each` over a list that a parameter has")
def loop_over_parameter() -> Pipeline:
    salts = Parameter.string("Salts", default='["a", "b"]')
    return of(for_each(salts, [data(salt=current_item())], name="each"), parameters=[salts])


@feature(GROUP, "`tune`: a search over hyperparameters")
def search() -> Pipeline:
    prepared = data()
    searched = tune(
        training(prepared), objective="validation_accuracy", max_trainings=2, learning_rate=one_of(0.1, 0.2)
    )
    return of(prepared, searched)


@feature(GROUP, "a Lambda function")
def function_call() -> Pipeline:
    return of(call_lambda("arn:aws:lambda:us-east-1:000000000000:function:notify", name="notify", text="done"))


@feature(GROUP, "a native step of the service")
def native_step() -> Pipeline:
    return of(NativeStep(name="cluster", type="EMR", fields={"ClusterId": "j-1", "StepConfig": {}}))


@feature(GROUP, "after another step, without its outputs")
def order() -> Pipeline:
    first = data("first")
    return of(first, step_after("second", first.name))


@feature(GROUP, "after another step, however it ended")
def after_any_end() -> Pipeline:
    return of(data("first"), step_after("second", "first", "Any"))


@feature(GROUP, "after another step, only if it failed")
def after_failure() -> Pipeline:
    return of(data("first"), step_after("second", "first", "Failed"))


def own_script() -> TrainingStep:
    """A training of a script that keeps checkpoints in a folder."""
    return step(train_script, name="fit", train="example:digits", source="example:digits", script="train.py")


def step_after(name: str, other: str, trigger: Literal["Any", "Failed"] | None = None) -> ProcessingStep:
    """A processing step after another one."""
    return data(name).model_copy(update={"depends_on": (Dependency(step=other, trigger=trigger),)})
