"""The spec's JSON round trip and the determinism of compile, for pipelines made at random."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain import Cluster, Parameter, Pipeline, RetryPolicy, fail, join, register, when
from drivetrain.spec.resources import CachePolicy, Checkpoint, Program, Spot
from drivetrain.spec.steps import ProcessingStep, TrainingStep
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline

names = st.from_regex(r"[A-Za-z][A-Za-z0-9\-_]{0,12}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=40)
scalars = st.one_of(
    texts, st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), st.booleans()
)
PROGRAM = Program(kind="component", target="module:function")
PARAMETERS = (
    Parameter.number("Floor", default=0.9),
    Parameter.string("Size", default="small", choices=("small", "large")),
    Parameter.integer("Hosts", default=1),
)


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    labels = draw(st.lists(names, min_size=1, max_size=6, unique=True))
    steps: list[Any] = []
    for label in labels:
        earlier = [step for step in steps if isinstance(step, ProcessingStep)]
        inputs = {"data": draw(st.sampled_from(earlier))["out"]} if earlier and draw(st.booleans()) else {}
        fields: dict[str, Any] = {
            "name": label,
            "program": PROGRAM,
            "inputs": inputs,
            "parameters": draw(st.dictionaries(names, scalars, max_size=4)),
            "display_name": draw(st.none() | texts.filter(bool)),
            "description": draw(st.none() | texts.filter(bool)),
            "cluster": Cluster(count=draw(st.sampled_from([1, 2, PARAMETERS[2].ref()]))),
            "retry": draw(st.sampled_from([(), (RetryPolicy(causes=("throttling",)),)])),
            "cache": draw(st.sampled_from([None, CachePolicy(enabled=False), CachePolicy(expire_after="P30D")])),
        }
        if draw(st.booleans()):
            steps.append(ProcessingStep(**fields, outputs=("out",), metrics=("accuracy",)))
        else:
            spot = Cluster(max_run_seconds=60, spot=Spot(max_wait_seconds=120))
            fields["cluster"] = draw(st.sampled_from([fields["cluster"], spot]))
            steps.append(TrainingStep(**fields, checkpoint=Checkpoint(), logs={"loss": "loss=([0-9.]+)"}))
    measured = [step for step in steps if isinstance(step, ProcessingStep)]
    if measured:
        accuracy = draw(st.sampled_from(measured)).metric("accuracy")
        size = PARAMETERS[1].ref()
        condition = draw(
            st.recursive(
                st.sampled_from([accuracy >= PARAMETERS[0].ref(), accuracy < 0.5, size.is_in(["small", "medium"])]),
                lambda inner: st.one_of(
                    st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
                    st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
                    inner.map(lambda one: ~one),
                ),
                max_leaves=5,
            )
        )
        model = next((step["model"] for step in steps if isinstance(step, TrainingStep)), "s3://bucket/model.tar.gz")
        then = [register(model=model, group=join("group-", size), metrics=measured[0], name="zz-register")]
        steps.append(when(condition, then=then, otherwise=[fail(join("was ", accuracy), name="zz-stop")], name="zz"))
    return Pipeline(name="random", steps=steps, parameters=PARAMETERS)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(pipelines())
def test_json_round_trip(pipeline: Pipeline) -> None:
    text = pipeline.model_dump_json()
    again = Pipeline.model_validate_json(text)
    assert again == pipeline
    assert again.model_dump_json() == text


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(pipelines())
def test_compile_is_a_function_of_the_spec(pipeline: Pipeline) -> None:
    first = compile_pipeline(pipeline)
    assert compile_pipeline(Pipeline.model_validate_json(pipeline.model_dump_json())).text == first.text
    assert json.loads(first.text) == first.definition
    assert {asset.uri.rpartition("/")[2] for asset in first.assets} >= {"start.py"}
