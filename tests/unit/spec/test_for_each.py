"""for_each as an author writes it: what it compiles to, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drivetrain import (
    Parameter,
    Pipeline,
    SpecError,
    between,
    call_lambda,
    current_item,
    fail,
    for_each,
    join,
    largest,
    smallest,
    tune,
)
from drivetrain.spec.resources import Program
from drivetrain.spec.steps import ProcessingStep, TrainingStep
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.document import document, graph


def training(name: str = "fit", **parameters: Any) -> TrainingStep:
    return TrainingStep(
        name=name,
        program=Program(kind="component", target="own:fit"),
        parameters=parameters,
        logs={"accuracy": r"accuracy=([0-9.]+)"},
        checkpoint={"uri": None},  # type: ignore[arg-type]
    )


def processing(name: str = "measure", **fields: Any) -> ProcessingStep:
    return ProcessingStep(
        name=name, program=Program(kind="component", target="own:measure"), outputs=("report",), **fields
    )


def compiled(*steps: Any, parameters: Any = ()) -> dict[str, Any]:
    return compile_pipeline(Pipeline(name="p", steps=steps, parameters=parameters)).definition


def test_a_for_each_compiles_for_the_service_and_this_machine() -> None:
    fit = training(rate=current_item("Float"))
    measure = processing(inputs={"model": fit["model"]})
    sweep = for_each([0.1, 0.3], [fit, measure], name="sweep", max_concurrency=2, best=largest(fit.logged("accuracy")))
    after = processing("after", inputs={"model": sweep.best["model"], "report": sweep.of(1, measure)["report"]})
    definition = compiled(sweep, after)
    [loop, _] = definition["Steps"]
    assert {key: value for key, value in loop["Arguments"].items() if key != "ForEachBody"} == {
        "IterableItems": [0.1, 0.3],
        "MaxConcurrency": 2,
        "Selector": {"Pick": "MaxBy", "Field": {"Get": "IterationOutput.fit.FinalMetricDataList['accuracy'].Value"}},
    }
    trained, measured = loop["Arguments"]["ForEachBody"]
    item = {"Get": "ForEach.CurrentItem"}
    assert trained["Arguments"]["HyperParameters"] == {"rate": {"Std:Join": {"On": "", "Values": [item]}}}
    # Each iteration has places of its own, for outputs and for checkpoints.
    assert trained["Arguments"]["OutputDataConfig"]["S3OutputPath"]["Std:Join"]["Values"][-1] == item
    assert trained["Arguments"]["CheckpointConfig"]["S3Uri"]["Std:Join"]["Values"][-2:] == [item, ""]
    output = measured["Arguments"]["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"]
    assert output["Std:Join"]["Values"][-2:] == [item, "report"]
    read = document.from_json(definition)
    graph.check(read)
    assert {get.text for get in read.step("after").references if get.step} == {
        "Steps.sweep.Selected.ModelArtifacts.S3ModelArtifacts",
        "Steps.sweep.IterationOutputs[1].measure.ProcessingOutputConfig.Outputs['report'].S3Output.S3Uri",
    }
    assert [child.name for child in read.step("sweep").body] == ["fit", "measure"]


def test_items_may_be_objects_whose_fields_are_taken() -> None:
    fit = training(rate=current_item("Float", "rate"), layers=current_item("Integer", "net.layers"))
    items = [{"name": "small", "rate": 1, "net": {"layers": 2}}, {"name": "lärge", "rate": 0.5, "net": {"layers": 4}}]
    items[1]["name"] = "large"
    sweep = for_each(items, [fit], name="sweep", key="name", best=smallest(fit.logged("accuracy")))
    arguments = compiled(sweep)["Steps"][0]["Arguments"]
    assert [json.loads(item) for item in arguments["IterableItems"]] == items
    [body] = arguments["ForEachBody"]
    assert body["Arguments"]["HyperParameters"]["layers"] == {
        "Std:Join": {"On": "", "Values": [{"Get": "ForEach.CurrentItem.net.layers"}]}
    }
    path = body["Arguments"]["OutputDataConfig"]["S3OutputPath"]["Std:Join"]["Values"]
    assert path[-1] == {"Get": "ForEach.CurrentItem.name"}


def test_items_may_come_from_a_parameter_or_an_earlier_step() -> None:
    items = Parameter.string("Items", default='["a"]')
    asked = call_lambda("arn:aws:lambda:us-east-1:000000000000:function:ask", name="ask", outputs={"items": "String"})
    one = for_each(items, [processing("first")], name="one")
    other = for_each(asked.value("items"), [processing("second")], name="other", after=[one])
    definition = compiled(asked, one, other, parameters=[items])
    assert definition["Steps"][1]["Arguments"]["IterableItems"] == {"Get": "Parameters.Items"}
    assert definition["Steps"][2]["Arguments"]["IterableItems"] == {"Get": "Steps.ask.OutputParameters['items']"}
    assert graph.dependencies(document.from_json(definition))["other"] == {"ask", "one"}


def test_a_lambdas_value_can_be_compared_and_handed_on() -> None:
    ask = call_lambda(
        "arn:aws:lambda:us-east-1:000000000000:function:ask", name="ask", outputs={"n": "Integer"}, x=current_item()
    )
    loop = for_each(["a", "b"], [ask], name="loop", best=largest(ask.value("n")))
    told = call_lambda(
        "arn:aws:lambda:us-east-1:000000000000:function:tell", name="tell", n=loop.best.value("n"), of=loop.count()
    )
    payload = compiled(loop, told)["Steps"][1]["Arguments"]
    assert payload == {
        "n": {"Get": "Steps.loop.Selected.OutputParameters['n']"},
        "of": {"Get": "Steps.loop.SucceededStepCount"},
    }


def test_what_a_body_needs_comes_before_the_for_each() -> None:
    data = processing("data")
    loop = for_each(["a"], [processing("first", inputs={"data": data["report"]})], name="loop")
    definition = document.from_json(compiled(data, loop))
    assert graph.dependencies(definition)["loop"] == {"data"}
    with pytest.raises(SpecError, match="the steps wait for each other"):
        late = processing("late")
        looping = for_each(["a"], [processing("first", inputs={"data": late["report"]})], name="loop")
        needs = processing("late", inputs={"n": join("s3://b/", looping.count())})
        Pipeline(name="p", steps=[looping, needs])


FIRST = processing("first")


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([for_each([], [FIRST], name="loop")], "'loop' has 0 items. Allowed: 1 to 100"),
        ([for_each(["a"] * 101, [FIRST], name="loop")], "'loop' has 101 items"),
        ([for_each(["a", "a"], [FIRST], name="loop")], "2 items are named 'a', and would write over each other"),
        ([for_each(["a/b"], [FIRST], name="loop")], "'a/b' cannot name the folder of an iteration's outputs"),
        ([for_each([{"n": 1}], [FIRST], name="loop")], "cannot name the folder of an iteration's outputs"),
        ([for_each(["x" * 12_801], [FIRST], name="loop")], "an item of 'loop' has 12,801 characters"),
        ([for_each(["a"], [], name="loop")], "the body of 'loop' is empty"),
        ([for_each(["a"], [fail("no")], name="loop")], "step 'stop' stands in the body of 'loop'. No condition, fail"),
        (
            [for_each(["a"], [FIRST], name="loop"), processing("first-0")],
            "'first-0' is that of an iteration of 'first'",
        ),
        ([for_each(["a"], [processing("n" * 63)], name="loop")], "is too long: with the iteration's number"),
        ([processing("x", environment={"A": current_item()})], "uses the current item, but stands in no for_each"),
        (
            [for_each(["a"], [training(rate=current_item("Float"))], name="loop")],
            "taken as Float, but of item 'a' it is String",
        ),
        (
            [for_each([{"a": 1}], [training(x=current_item("Integer", "b"))], name="loop", key="a")],
            "has no field 'b'",
        ),
        (
            [for_each(["a"], [FIRST], name="loop"), processing("next", inputs={"r": FIRST["report"]})],
            "runs once an item",
        ),
        (
            [for_each(["a"], [FIRST], name="loop", best=largest(training("other").logged("accuracy")))],
            "compares a value of step 'other', which is not in its body",
        ),
        ([for_each(join("a"), [FIRST, FIRST], name="loop")], "2 steps are called 'first'"),
    ],
)
def test_a_for_each_that_the_service_refuses_is_refused_when_built(steps: list[Any], said: str) -> None:
    with pytest.raises(SpecError) as raised:
        Pipeline(name="p", steps=steps)
    assert said in str(raised.value)


def test_mistakes_name_the_line_of_the_author() -> None:
    loop = for_each(["a"], [FIRST], name="loop")
    with pytest.raises(SpecError, match=r"selects nothing. Give for_each\(..., best=largest"):
        _ = loop.best
    with pytest.raises(SpecError, match="The body of 'loop' has no step 'next'"):
        loop.of(0, processing("next"))
    with pytest.raises(SpecError, match="has no output 'model'"):
        loop.of(0, FIRST)["model"]
    with pytest.raises(SpecError, match="give a list of items"):
        for_each("abc", [FIRST], name="loop")
    measured = ProcessingStep(name="m", program=FIRST.program, metrics=("accuracy",))
    with pytest.raises(SpecError, match="cannot be compared between iterations"):
        largest(measured.metric("accuracy"))
    with pytest.raises(SpecError, match="names the model alone"):
        for_each(["a"], [training()], name="loop").of(0, training())["output"]


def test_a_tuning_of_an_iteration_says_why_its_model_cannot_be_taken() -> None:
    search = tune(training(rate=0.1), objective="accuracy", max_trainings=3, rate=between(0.1, 1.0))
    loop = for_each(["a"], [search], name="loop", best=largest(search.logged("accuracy")))
    for given in (loop.best, loop.of(0, search)):
        with pytest.raises(SpecError, match="that of a tuning no output"):
            given["model"]


def test_a_spec_survives_json() -> None:
    loop = for_each(
        [1, "a", 2.5], [processing("first", environment={"A": current_item(field="x.y")})], name="loop", key="k"
    )
    again = type(loop).model_validate_json(loop.model_dump_json())
    assert again == loop
    assert again.items == (1, "a", 2.5)


@pytest.mark.parametrize("index", [1, 5, -1])
def test_an_iteration_out_of_range_is_refused_where_written(index: int) -> None:
    body = training()
    with pytest.raises(SpecError, match="there is no such iteration; it has 1 items"):
        for_each(["a"], [body], name="loop").of(index, body)
    assert for_each(["a"], [body], name="loop").of(0, body)["model"].index == 0


@pytest.mark.parametrize("item", [float("nan"), float("inf")])
def test_items_that_json_cannot_hold_are_refused_where_written(item: float) -> None:
    with pytest.raises(SpecError, match="is no number that JSON has"):
        for_each([0.1, item], [training()], name="loop")
