from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Deployment, Parameter, Pipeline, SpecError, step, when
from drivetrain.base.errors import UserError
from drivetrain.native.kubeflow import Task, cel, given, group, task
from drivetrain.run_store.home import Home
from drivetrain.targets.kubeflow.ir.check import problems, read
from drivetrain.targets.kubeflow.run.runner import Runner
from drivetrain.targets.kubeflow.target import compile
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from tests.fixtures.kubeflow_examples import load, score

ROWS = Parameter.integer("rows", 3)


def shell(name: str, **given: Any) -> Task:
    return task(name, image="alpine", command=["sh", "-c", "true"], **given)


ALIKE = {
    "x": shell("a-b", outputs={"c": "Float"})["c"],
    "y": shell("a", outputs={"b-c": "Float"})["b-c"],
}


def compiled(*steps: Any, **settings: Any) -> dict[str, Any]:
    deployment = Deployment(target="kubeflow", targets={"kubeflow": settings} if settings else {})
    built = compile(Pipeline(name="p", parameters=[ROWS], steps=steps, deployment=deployment))
    assert problems(read(built.text.encode(), "p.yaml")) == []
    return json.loads(json.dumps({**built.ir, "platform": built.platform}))


def test_types_of_inputs_are_those_of_what_they_are_given() -> None:
    made = shell("make", outputs={"data": "Dataset", "share": "Float"}, inputs={"rows": ROWS, "fast": True})
    taken = {"data": made["data"], "share": made["share"]}
    used = shell("use", inputs=taken, defaults={"note": None, "k": 2}, types={"note": "String"})
    components = compiled(made, used)["components"]
    assert components["comp-make"]["inputDefinitions"]["parameters"] == {
        "fast": {"parameterType": "BOOLEAN"},
        "rows": {"parameterType": "NUMBER_INTEGER"},
    }
    assert components["comp-use"]["inputDefinitions"] == {
        "artifacts": {"data": {"artifactType": {"schemaTitle": "system.Dataset", "schemaVersion": "0.0.1"}}},
        "parameters": {
            "k": {"parameterType": "NUMBER_INTEGER", "defaultValue": 2, "isOptional": True},
            "note": {"parameterType": "STRING", "isOptional": True},
            "share": {"parameterType": "NUMBER_DOUBLE"},
        },
    }


def test_groups_hand_values_through_under_the_names_of_kfp() -> None:
    made = shell("make", outputs={"share": "Float"})
    inner = group("in", [shell("use", inputs={"share": made["share"], "item": given("item"), "rows": ROWS})])
    outer = group("out", [inner], each=["a"], item="item", when=cel("{share} > 0.5", share=made["share"]))
    ir = compiled(made, outer)
    assert {*ir["components"]["comp-in"]["inputDefinitions"]["parameters"]} == {
        *("pipelinechannel--item", "pipelinechannel--make-share", "pipelinechannel--rows")
    }
    task = ir["root"]["dag"]["tasks"]["out"]
    assert task["dependentTasks"] == ["make"]
    assert task["triggerPolicy"] == {"condition": "inputs.parameter_values['pipelinechannel--make-share'] > 0.5"}
    assert [*task["inputs"]["parameters"]] == ["pipelinechannel--make-share", "pipelinechannel--rows"]


def test_tasks_stand_beside_steps_of_this_package() -> None:
    loaded = step(load, raw="s3://own/raw/")
    native = shell("native", inputs={"data": loaded["data"]}, outputs={"model": "Model"})
    scored = step(score, data=native["model"])
    ir = compiled(when(ROWS > 2, then=[native, scored]), loaded)
    dags = [each["dag"]["tasks"] for each in ir["components"].values() if "dag" in each]
    inner = next(tasks for tasks in dags if "native" in tasks)
    assert inner["score"]["inputs"]["artifacts"]["data"] == {
        "taskOutputArtifact": {"outputArtifactKey": "model", "producerTask": "native"}
    }
    assert "componentInputArtifact" in inner["native"]["inputs"]["artifacts"]["data"]


def test_other_has_what_no_word_says() -> None:
    words = Parameter.string("words", '["a"]')
    other = {"defaultPipelineRoot": "s3://b/r", "kubernetes": {"pipelineConfig": {"activeDeadlineSeconds": 60}}}
    pipeline = Pipeline(
        name="p",
        parameters=[words],
        steps=[shell("use", inputs={"words": words})],
        other={"parameter_types": {"words": "List"}, **other},
    )
    built = compile(pipeline)
    assert built.ir["root"]["inputDefinitions"]["parameters"]["words"] == {
        "parameterType": "LIST",
        "defaultValue": ["a"],
        "isOptional": True,
    }
    assert built.ir["components"]["comp-use"]["inputDefinitions"]["parameters"]["words"] == {"parameterType": "LIST"}
    assert built.ir["defaultPipelineRoot"] == "s3://b/r"
    assert built.platform == {"platforms": {"kubernetes": {"pipelineConfig": {"activeDeadlineSeconds": 60}}}}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: shell("Make"), "no name of a task"),
        (lambda: shell("make", images="x"), "does not take 'images'"),
        (lambda: shell("make", outputs={"a": 3}), "outputs="),
        (lambda: shell("make", always=False), "always=False. Give True"),
        (lambda: shell("make", other={"container": {"image": "x"}}), "gives container.image"),
        (lambda: shell("make")["data"], "has no output 'data'"),
        (lambda: group("g", [shell("a"), shell("a")]), "names of their own"),
        (lambda: group("g", [shell("use", inputs=ALIKE)]), "two values have the name 'pipelinechannel--a-b-c'"),
    ],
)
def test_what_a_word_does_not_take_is_said(wrong: Any, message: str) -> None:
    with pytest.raises(SpecError) as error:
        wrong()
    assert message in str(error.value)


def test_other_targets_and_runs_here_refuse_a_task_at_its_line(tmp_path: Path) -> None:
    pipeline = Pipeline(name="p", steps=[shell("make")], deployment=Deployment(target="kubeflow"))
    with pytest.raises(SpecError, match=r"test_kubeflow\.py, line .*'make' is a task of Kubeflow Pipelines' own"):
        compile_pipeline(pipeline)
    with pytest.raises(UserError, match=r"test_kubeflow\.py, line .*its container is not run here"):
        Runner(Home(tmp_path)).start(compile(pipeline, here=True), {})
