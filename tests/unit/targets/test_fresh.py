"""What a start with --fresh changes of what is compiled: each key of each platform's cache."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from drivetrain import CachePolicy, NativeStep, Parameter, Pipeline, step
from drivetrain.pipelines.retraining import Retraining, retraining
from drivetrain.steps import fresh_token
from drivetrain.targets.kubeflow.compile.compile import compile_pipeline as compile_for_kubeflow
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.compile.job_options import native_with_fresh
from drivetrain.targets.sagemaker.document.document import read
from drivetrain.targets.sagemaker.document.expressions import ParameterScope
from drivetrain.targets.sagemaker.document.step_types import key_fields, key_of
from drivetrain.targets.sagemaker.run.execution.scope import resolve_known
from drivetrain.targets.target import with_fresh
from tests.fixtures.kubeflow_examples import compiled, load, score, tasks
from tests.golden.test_kubeflow import searches as searches_of_kubeflow
from tests.golden.test_searches import pipeline as searches

JOBS = {"Processing", "Training", "Tuning"}


def keys(pipeline: Pipeline, fresh: str) -> dict[str, str]:
    """Job -> the key of SageMaker's cache, as far as it is known before the run."""
    built = compile_pipeline(pipeline)
    values = {one.name: one.default for one in built.pipeline.parameters} | {"Fresh": fresh}
    known = ((one, resolve_known(one["Arguments"], ParameterScope(values))) for one in jobs(built.definition["Steps"]))
    return {one["Name"]: key_of(one["Type"], key_fields(one["Type"], given) or {}) for one, given in known}


def jobs(steps: Any) -> Iterator[Any]:
    """Those in loops and branches included."""
    for each in steps:
        if each["Type"] in JOBS:
            yield each
        for nested in ("IfSteps", "ElseSteps", "ForEachBody"):
            yield from jobs(each["Arguments"].get(nested, ()))


def test_every_key_of_the_service_differs_in_a_fresh_start() -> None:
    """Those of a tuning and of steps in loops and branches, too."""
    for pipeline in (searches(), retraining(Retraining())):
        before, again, fresh = (keys(pipeline, value) for value in ("no", "no", "f1"))
        assert before == again and len(before) >= 4
        assert not before.items() & fresh.items()


@pytest.mark.parametrize("kind", ["Processing", "Training", "Transform"])
def test_a_step_that_is_carried_through_is_in_no_cache_of_a_fresh_start(kind: str) -> None:
    arguments = {"Environment": {"A": "b"}}
    fields = {"Arguments": arguments, "CacheConfig": {"Enabled": True}}
    imported = [Parameter.string("Fresh", "no")]
    pipeline = Pipeline(name="p", parameters=imported, steps=[NativeStep(name="own", type=kind, fields=fields)])
    told = with_fresh(pipeline, native_with_fresh)
    assert [one.name for one in told.parameters] == ["Fresh"]
    (own,) = told.steps
    assert isinstance(own, NativeStep)
    key = key_fields(kind, json.loads(json.dumps(own.fields["Arguments"], default=dict)))
    before, fresh = (json.dumps(resolve_known(key, ParameterScope({"Fresh": value}))) for value in ("no", "f1"))
    assert '"A": "b"' in fresh and fresh.count('"f1"') == before.count('"no"') == 1
    plain = Pipeline(name="p", steps=[NativeStep(name="own", type=kind, fields={"Arguments": arguments})])
    assert with_fresh(plain, native_with_fresh) == plain


def test_every_task_of_kubeflow_takes_the_value_that_its_cache_compares() -> None:
    for pipeline in (searches_of_kubeflow(), retraining(Retraining())):
        ir = compile_for_kubeflow(pipeline, here=True).ir
        dags = [each["dag"] for each in (ir["root"], *ir["components"].values()) if "dag" in each]
        cached = [
            task for dag in dags for task in dag["tasks"].values() if "enableCache" in task.get("cachingOptions", {})
        ]
        names = {task["componentRef"]["name"] for task in cached}
        programs = [name for name in names if ir["components"][name].get("executorLabel") and "import" not in name]
        assert len(programs) >= 3
        assert all("Fresh" in ir["components"][name]["inputDefinitions"]["parameters"] for name in programs)


def test_without_a_cached_step_and_a_training_nothing_is_declared() -> None:
    data = step(load, raw="s3://own/raw/")
    off = CachePolicy(enabled=False)
    pipeline = Pipeline(name="p", steps=[data, step(score, data=data["data"])], cache=off)
    assert read(compile_pipeline(pipeline).text).parameters == ()
    built = compiled(data, cache=off)
    assert "parameters" not in tasks(built)["load"].get("inputs", {}) and "inputDefinitions" not in built.ir["root"]


def test_a_token_is_any_value_but_no_and_none() -> None:
    assert [fresh_token(given) for given in ({}, {"DRIVETRAIN_FRESH": ""}, {"DRIVETRAIN_FRESH": "no"})] == [""] * 3
    assert fresh_token({"DRIVETRAIN_FRESH": "a1"}) == "a1"
