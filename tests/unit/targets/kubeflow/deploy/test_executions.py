"""Executions: started once, found, described by their steps."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.deploying.following import follow
from drivetrain.run_store.events import ExecutionStarted, StepFinished, StepStarted
from drivetrain.targets.deployer import StartRequest
from drivetrain.targets.kubeflow.deploy.executions.starting import bound
from drivetrain.targets.kubeflow.deploy.executions.steps import PodStep, planned, step_runs
from drivetrain.targets.kubeflow.deploy.executions.workflow import Attempt, Seen
from tests.fixtures.kubeflow_pipelines.place import Place

TOKEN = "f" * 64


@pytest.fixture
def deployed(place: Place) -> Place:
    place.apply()
    return place


@pytest.mark.parametrize("fault", ["lost", "500", "gone", "429"])
def test_a_start_with_a_lost_answer_starts_once(deployed: Place, fault: str) -> None:
    came: list[str] = []

    def once(method: str, path: str) -> str:
        if (method, path) != ("POST", "/apis/v2beta1/runs") or came:
            return ""
        came.append(path)
        return fault

    deployed.cluster.fault = once
    handle = deployed.deployer().start("nightly", StartRequest())
    assert came and list(deployed.cluster.store.runs) == [handle.id]


def test_the_same_token_starts_it_once(deployed: Place) -> None:
    request = StartRequest(name="approved-ffffffffffff", token=TOKEN)
    first = deployed.deployer().start("nightly", request)
    assert deployed.deployer().start("nightly", request).id == first.id
    assert deployed.cluster.wrote().count(("POST", "/apis/v2beta1/runs")) == 1
    other = deployed.deployer().start("nightly", StartRequest(name="approved-ffffffffffff", token="e" * 64))
    assert set(deployed.cluster.store.runs) == {first.id, other.id}


def test_a_fresh_start_has_a_value_of_its_own_which_its_token_decides(deployed: Place) -> None:
    def value(**given: Any) -> str:
        run = deployed.deployer().start("nightly", StartRequest(**given)).id
        return deployed.cluster.store.runs[run]["runtime_config"].get("parameters", {}).get("Fresh", "")

    one, other = value(fresh=True), value(fresh=True)
    assert one and other and one != other and value() == ""
    assert value(fresh=True, name="a-1", token=TOKEN) == value(fresh=True, name="a-1", token=TOKEN) == TOKEN
    assert [each.fresh for each in deployed.deployer().executions("nightly", 9)].count(False) == 1


def test_concurrent_starts_with_one_token_start_once(deployed: Place) -> None:
    gate = threading.Barrier(4)
    ids: list[str] = []

    def start() -> None:
        deployer = deployed.deployer()
        gate.wait()
        ids.append(deployer.start("nightly", StartRequest(name="once", token=TOKEN)).id)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (left,) = deployed.cluster.store.runs
    assert left in ids


def test_wrong_starts_are_refused_and_nothing_starts(deployed: Place) -> None:
    for request, says in [
        (
            StartRequest(parameters={"MinAcuracy": "1"}),
            "There is no parameter 'MinAcuracy'. Did you mean 'MinAccuracy'",
        ),
        (
            StartRequest(parameters={"MinAccuracy": "high"}),
            "parameter 'MinAccuracy' is 'high'. Allowed: a finite number",
        ),
        (StartRequest(parameters={"MinAccuracy": "nan"}), "parameter 'MinAccuracy' is 'nan'. Allowed: a finite number"),
        (StartRequest(name="n" * 5_000), "--name has 5,000 characters; at most 128 there."),
        (StartRequest(version=7), "has no version 7. The latest is 1."),
        (StartRequest(select=("prepare",)), "Kubeflow Pipelines has nothing like --select"),
        (StartRequest(parallel=2), "has nothing like --parallel"),
        (StartRequest(alias="live"), "has nothing like --alias"),
    ]:
        with pytest.raises(UserError) as refused:
            deployed.deployer().start("nightly", request)
        assert says in str(refused.value) and deployed.cluster.store.runs == {}


@pytest.mark.parametrize(
    ("type", "good", "wrong", "says"),
    [
        ("NUMBER_INTEGER", str(2**53), str(2**53 + 1), "--param X: 9007199254740993 is rounded there"),
        ("NUMBER_INTEGER", "-3", str(-(2**60)), f"--param X: {-(2**60)} is rounded there"),
        ("NUMBER_INTEGER", "3", "1_000", "parameter 'X' is '1_000'. Allowed: a whole number"),
        ("NUMBER_DOUBLE", "1e300", "9007199254740993", "9007199254740993 is rounded to 9007199254740992.0 there"),
        ("NUMBER_DOUBLE", "0.1", "0" * 1_000 + str(2**53 + 1), "is rounded to 9007199254740992.0 there"),
        ("STRING", "{{x}}", "{{$.pipeline_job_name}}", "--param X: it holds `{{$`"),
        ("STRING", "$5 ${HOME} $(", "costs $$5", "--param X: it holds `$$` or `$(NAME)`"),
        ("STRING", "HOME", "$(HOME)", "--param X: it holds `$$` or `$(NAME)`"),
        ("STRING", "x" * 1_024, "x" * 1_025, "parameter 'X' is text of 1,025 characters"),
    ],
)
def test_values_changed_by_the_platform_are_refused(type: str, good: str, wrong: str, says: str) -> None:
    spec = {"root": {"inputDefinitions": {"parameters": {"X": {"parameterType": type}}}}}
    assert str(bound(spec, {"X": good})["X"]) == str(float(good) if type == "NUMBER_DOUBLE" else good)
    with pytest.raises(UserError) as refused:
        bound(spec, {"X": wrong})
    assert says in str(refused.value)


def test_lists_and_objects_are_given_as_json() -> None:
    types = {"X": {"parameterType": "LIST"}, "Y": {"parameterType": "STRUCT"}}
    given = {**types, "Z": {"parameterType": "STRING", "isOptional": True}}
    spec = {"root": {"inputDefinitions": {"parameters": given}}}
    assert bound(spec, {"X": '["a"]', "Y": '{"b": 1}'}) == {"X": ["a"], "Y": {"b": 1}}
    with pytest.raises(UserError, match="--param X"):
        bound(spec, {"X": "[a", "Y": "{}"})


def test_an_earlier_version_is_started_by_its_number(deployed: Place) -> None:
    deployed.apply("rows=20")
    handle = deployed.deployer().start("nightly", StartRequest(version=1))
    version = deployed.cluster.store.runs[handle.id]["pipeline_version_reference"]["pipeline_version_id"]
    assert deployed.cluster.store.versions[version]["name"].startswith("1-")
    assert str(deployed.deployer().report(handle).execution.version).startswith("1-")


def test_executions_are_found_by_id_prefix_name_and_latest(deployed: Place) -> None:
    deployer = deployed.deployer()
    first, second = (deployer.start("nightly", StartRequest(name=name)) for name in ("first", "second"))
    assert deployer.find("nightly") == second and deployer.find("nightly", "first") == first
    with pytest.raises(UserError, match="There is no pipeline 'other' in namespace 'team-a'"):
        deployer.find("other")
    deployed.cluster.store.versions.clear()
    with pytest.raises(UserError, match="Pipeline 'nightly' in namespace 'team-a' has no version: an apply is at work"):
        deployer.find("nightly")


def spec_with_loop() -> dict[str, Any]:
    leaf = {"executorLabel": "exec-train"}
    return {
        "components": {
            "comp-each": {"dag": {"tasks": {"train": {"componentRef": {"name": "comp-train"}}}}},
            "comp-train": leaf,
        },
        "deploymentSpec": {"executors": {"exec-train": {"container": {}}}},
        "root": {"dag": {"tasks": {"each": {"componentRef": {"name": "comp-each"}, "parameterIterator": {}}}}},
    }


def test_the_iterations_of_a_step_are_one_row() -> None:
    def seen(number: int, status: str) -> Seen:
        attempt = Attempt(f"pod{number}", f"node{number}", 0, status != "Executing")
        return Seen(status, float(number), 60.0 + number if attempt.is_over else None, attempts=(attempt,))

    def train(*iterations: Seen, each: str = "Succeeded", ended: str | None = None) -> PodStep:
        told = {"each": [Seen(each)], "train": list(iterations)}
        return list(step_runs(spec_with_loop(), told, ended=ended))[-1]

    found = [(each.name, each.type, each.loop) for each in planned(spec_with_loop())]
    assert found == [("each", "ForEach", ""), ("train", "Task", "each")]
    step = train(seen(1, "Succeeded"), seen(2, "Succeeded"))
    assert (step.status, step.iterations, step.seconds, step.pods) == ("Succeeded", 2, 61.0, ("pod1", "pod2"))
    assert train(seen(1, "Succeeded"), seen(2, "Failed")).status == "Failed"
    step = train(seen(1, "Executing"), seen(2, "Succeeded"))
    assert (step.status, step.seconds) == ("Executing", None)
    # As long as the loop goes on another iteration may begin.
    step = train(seen(1, "Succeeded"), each="Executing")
    assert (step.status, step.seconds) == ("Executing", None)
    assert train(seen(1, "Succeeded"), each="Executing", ended="Succeeded").status == "Succeeded"


def test_an_execution_is_reported_like_a_local_run(deployed: Place) -> None:
    store = deployed.cluster.store
    told: list[Any] = []
    handle = deployed.deployer().start("nightly", StartRequest(name="by-hand"))
    scenes = iter(
        [
            lambda: store.advance(handle.id, "prepare", "RUNNING"),
            lambda: store.advance(handle.id, "prepare", "SUCCEEDED", seconds=75),
            lambda: store.advance(handle.id, "evaluate", "RUNNING"),
            lambda: (store.terminate_run(handle.id), store.conclude(handle.id)),
        ]
    )
    follow(deployed.deployer().followed(handle), told.append, wait=lambda _: next(scenes)())
    steps = (("prepare", "Task", "prepare"), ("evaluate", "Task", "evaluate"), ("gate", "Condition", "gate"))
    (begun, *events, ended) = told
    assert begun == ExecutionStarted(handle.id, "nightly", (*steps, begun.steps[3]))
    assert events == [
        StepStarted("prepare", 1),
        StepFinished("prepare", "Succeeded", 75.0),
        StepStarted("evaluate", 1),
        StepFinished("evaluate", "Stopped", 2.0),
        StepFinished("gate", "NotExecuted", 0.0),
        StepFinished(begun.steps[3][0], "NotExecuted", 0.0),
    ]
    assert (ended.status, ended.execution) == ("Stopped", handle.id)
