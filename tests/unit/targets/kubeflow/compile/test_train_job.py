"""A training on several nodes as a TrainJob, held against the models of Trainer's client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from drivetrain import Cluster, Parameter, Pipeline, Spot, step
from drivetrain.base.errors import SpecError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train import train
from drivetrain.components.train_script import train_script
from drivetrain.spec.deployment import Deployment
from drivetrain.spec.resources import InstanceGroup, Resources, RetryPolicy
from drivetrain.steps import START_KUBEFLOW_NODE
from drivetrain.steps.kubeflow.task import Task
from drivetrain.steps.kubeflow.train_job import Identity, manifest
from drivetrain.targets.kubeflow.compile import checks
from drivetrain.targets.kubeflow.compile.compile import Compiled, compile_pipeline
from tests.fixtures.kubeflow_tasks import compiled, document_of, executor_input
from tests.fixtures.train_job_crd import RefusedError, checked
from tests.fixtures.trainer_2_4 import TRAIN_JOB

Json = dict[str, Any]
GPU = Resources(cpu=7, memory_gib=60, accelerators=4, node_selector={"pool": "a100"}, tolerations={"gpu": ""})


def pipeline(settings: Json | None = None, **cluster: Any) -> Pipeline:
    given = {"count": 2, "max_run_seconds": 600} | cluster
    fit = step(train, name="Fit-model", train="s3://data/digits", cluster=Cluster(**given), epochs=2)
    return Pipeline(name="nodes", steps=[fit], deployment=Deployment(targets={"kubeflow": settings or {}}))


def train_job(found: Compiled) -> Json:
    return document_of(found, "fit-model")["train_job"]


def task_of(found: Compiled, tmp_path: Any, run: str = "run-1") -> Task:
    given = executor_input(
        found,
        "fit-model",
        {"code": "s3://b/code", "train": "s3://data/digits"},
        f"s3://b/outputs/{run}/fit-model",
        tmp_path,
    )
    container = found.ir["deploymentSpec"]["executors"]["exec-fit-model"]["container"]
    document = next(each["value"] for each in container["env"] if each["name"] == "DRIVETRAIN_TASK")
    return Task(given, document)


def pod_patch(job: Json) -> Json:
    [patch] = job["spec"]["runtimePatches"]
    [replicated] = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert replicated["name"] == "node"
    return replicated["template"]["spec"]["template"]["spec"]


def test_several_nodes_are_a_train_job() -> None:
    found = compiled(pipeline({"image": "team/image:3", "trainer": {"torch": "torch-spot"}}))
    job = train_job(found)
    code = found.assets[0].uri.rpartition("/")[0]
    assert job["spec"]["runtimeRef"] == {
        "apiGroup": "trainer.kubeflow.org",
        "kind": "ClusterTrainingRuntime",
        "name": "torch-spot",
    }
    trainer = job["spec"]["trainer"]
    assert (trainer["image"], trainer["numNodes"], trainer["numProcPerNode"]) == ("team/image:3", 2, 1)
    assert trainer["command"] == ["python3", "-c", START_KUBEFLOW_NODE]
    assert job["spec"]["activeDeadlineSeconds"] == 600
    assert (job["start_seconds"], job["keep"], "restart_seconds" in job) == (3600, "never", False)
    assert pod_patch(job)["terminationGracePeriodSeconds"] == 120
    starts = {asset.uri.removeprefix(f"{code}/"): asset.sha256 for asset in found.assets}
    assert trainer["args"] == [starts["start.py"], starts[f"{trainer['args'][1]}.tar"]]


@pytest.mark.parametrize(
    "given",
    [
        {"environment": {"DRIVETRAIN_LAUNCHER": "tf_config"}},
        {"recipe": "digits_keras", "strategy": "tf_multi_worker"},
    ],
)
def test_the_runtime_is_that_of_the_launcher_or_of_the_strategy(given: Json) -> None:
    fit = step(train, name="fit-model", train="s3://data/digits", cluster=Cluster(count=2), **given)
    settings = {"trainer": {"tensorflow": "tf-of-ours"}}
    found = compiled(Pipeline(name="nodes", steps=[fit], deployment=Deployment(targets={"kubeflow": settings})))
    assert train_job(found)["spec"]["runtimeRef"]["name"] == "tf-of-ours"


def test_one_node_stays_in_the_pod_of_its_task() -> None:
    assert "train_job" not in document_of(compiled(pipeline(count=1)), "fit-model")


def test_the_task_itself_asks_for_no_machine() -> None:
    found = compiled(pipeline({"node_selector": {"pool": "cpu"}}, resources=GPU))
    container = found.ir["deploymentSpec"]["executors"]["exec-fit-model"]["container"]
    assert "resources" not in container
    [part] = found.platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"].values()
    assert part == {"nodeSelector": {"labels": {"pool": "cpu"}}}


def test_what_the_nodes_ask_for() -> None:
    settings = {
        "service_account": "trainer",
        "image_pull_secret": "pull",
        "node_selector": {"zone": "a"},
        "spot_tolerations": {"spot": "true"},
        "spot_node_selector": {"capacity": "spot"},
        "checkpoint_claim": "checkpoints",
        "root": "s3://data/pipelines",
        "s3_endpoint": "http://minio:9000",
        "s3_secret": "s3",
        "pods": {"secrets": {"HF_TOKEN": "hub/token"}},
        "steps": {"Fit-model": {"volumes": {"/models": "models"}}},
        "trainer": {"grace_seconds": 240, "start_seconds": 60, "keep": "failed"},
    }
    job = train_job(compiled(pipeline(settings, resources=GPU, spot=Spot(max_wait_seconds=7200))))
    trainer = job["spec"]["trainer"]
    assert trainer["numProcPerNode"] == 4
    assert trainer["resourcesPerNode"] == {
        "requests": {"cpu": "7", "memory": "60Gi"},
        "limits": {"nvidia.com/gpu": "4"},
    }
    secret = {"secretKeyRef": {"name": "s3", "key": "AWS_ACCESS_KEY_ID"}}
    assert trainer["env"][:4] == [
        {"name": "AWS_ENDPOINT_URL_S3", "value": "http://minio:9000"},
        {"name": "AWS_DEFAULT_REGION", "value": "us-east-1"},
        {"name": "AWS_REGION", "value": "us-east-1"},
        {"name": "AWS_ACCESS_KEY_ID", "valueFrom": secret},
    ]
    token = {"secretKeyRef": {"name": "hub", "key": "token"}}
    assert trainer["env"][-1] == {"name": "HF_TOKEN", "valueFrom": token}
    assert pod_patch(job) == {
        "nodeSelector": {"capacity": "spot", "pool": "a100", "zone": "a"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}, {"key": "spot", "operator": "Equal", "value": "true"}],
        "imagePullSecrets": [{"name": "pull"}],
        "serviceAccountName": "trainer",
        "terminationGracePeriodSeconds": 240,
        "volumes": [
            {"name": "claim-0", "persistentVolumeClaim": {"claimName": "checkpoints"}},
            {"name": "claim-1", "persistentVolumeClaim": {"claimName": "models"}},
        ],
        "containers": [
            {
                "name": "node",
                "volumeMounts": [
                    {"name": "claim-0", "mountPath": "/drivetrain/checkpoints"},
                    {"name": "claim-1", "mountPath": "/models"},
                ],
            }
        ],
    }
    assert (job["start_seconds"], job["keep"], job["restart_seconds"]) == (60, "failed", 7200)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"checkpoint_claim": "kept", "s3_secret": "s3"},
        {"root": "s3://data/p", "s3_endpoint": "http://s:9000", "pods": {"secrets": {"AWS_ENDPOINT_URL_S3": "a/b"}}},
        {"pods": {"volumes": {"/data": "shared", "/models": "shared"}}, "region": "eu-central-1"},
        {"pods": {"labels": {"team": "a"}}, "trainer": {"labels": {"queue": "a"}, "annotations": {"note": "b c"}}},
    ],
)
@pytest.mark.parametrize("count", [1, 2])
def test_trainer_takes_each_field_and_value(settings: Json, count: int, tmp_path: Any) -> None:
    """By the models of its client, strictly, and by what its CRD and webhook were recorded to refuse."""
    one_node = {"trainer": {"one_node": "always", **settings.get("trainer", {})}}
    task = task_of(compiled(pipeline(settings | one_node, resources=GPU, count=count)), tmp_path)
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "run", "uid": "7"}
    made = manifest(task, 0, began=1.0, run="run-1", owners=[owner])
    checked(made)
    told = settings.get("trainer", {})
    assert made["metadata"]["labels"].items() >= told.get("labels", {}).items()
    assert made["metadata"]["annotations"].items() >= told.get("annotations", {}).items()


def test_a_field_that_the_client_does_not_have_is_noticed(tmp_path: Any) -> None:
    """Else the test above would show nothing: the models drop what they do not know."""
    made = manifest(task_of(compiled(pipeline()), tmp_path), 0, began=1.0, run="", owners=[])
    made["spec"]["podTemplateOverrides"] = []
    with pytest.raises(RefusedError, match="unknown field"):
        checked(made)


FULL: Json = {
    "service_account": "trainer",
    "image_pull_secret": "pull",
    "spot_tolerations": {"spot": "true"},
    "checkpoint_claim": "checkpoints",
    "s3_secret": "s3",
    "steps": {"Fit-model": {"volumes": {"/models": "models"}, "labels": {"team": "a"}}},
}


@pytest.mark.parametrize("settings", [{}, FULL], ids=["plain", "full"])
def test_trainer_2_4_documents_each_field(settings: Json, tmp_path: Any) -> None:
    """Unverified against the release itself: see tests/fixtures/trainer_2_4.py."""
    found = compiled(pipeline(settings, resources=GPU, spot=Spot(max_wait_seconds=7200)))
    made = manifest(task_of(found, tmp_path), 0, began=1.0, run="run-1", owners=[])
    jsonschema.validate(made, TRAIN_JOB)
    assert {"runtimeRef", "trainer", "runtimePatches", "activeDeadlineSeconds"} == set(made["spec"])


def _long_name(job: Json) -> None:
    job["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]["name"] = "n" * 21


def _of_2_1(job: Json) -> None:
    job["spec"]["podTemplateOverrides"] = []


def _auto(job: Json) -> None:
    job["spec"]["trainer"]["numProcPerNode"] = "auto"


@pytest.mark.parametrize("spoil", [_long_name, _of_2_1, _auto])
def test_fields_unknown_to_trainer_2_4_are_noticed(spoil: Callable[[Json], None], tmp_path: Any) -> None:
    made = manifest(task_of(compiled(pipeline(FULL)), tmp_path), 0, began=1.0, run="", owners=[])
    spoil(made)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(made, TRAIN_JOB)


def test_the_name_is_the_same_for_each_attempt_of_a_task_and_for_no_other(tmp_path: Any) -> None:
    found = compiled(pipeline())
    first, again, other = (Identity.of(task_of(found, tmp_path, run)) for run in ("run-1", "run-1", "run-2"))
    assert first == again
    assert first.name(0) == again.name(0) != other.name(0)
    assert first.name(0).startswith("fit-model-") and first.name(0).endswith("-0")
    assert first.name(1) != first.name(0)


@pytest.mark.parametrize("step_name", ["9 lives", "x" * 200, "Fit"])
def test_names_are_those_of_kubernetes(step_name: str) -> None:
    name = Identity(step_name, "0123456789abcdef").name(123)
    # A pod's host name is `NAME-node-0-RANK`; so are those of its Job and its JobSet.
    assert len(f"{name}-node-0-9999") <= 63
    assert name[0].isalpha() and name == name.lower()


def test_a_lost_pod_is_retried() -> None:
    """Who follows a TrainJob may lose its own node, and finds the TrainJob again."""
    task = compiled(pipeline()).ir["root"]["dag"]["tasks"]["fit-model"]
    assert task["retryPolicy"]["maxRetryCount"] == 3
    assert "retryPolicy" not in compiled(pipeline(count=1)).ir["root"]["dag"]["tasks"]["fit-model"]


@pytest.mark.parametrize(("given", "expected"), [(None, 20), (5, 5)])
def test_a_single_spot_pod_is_retried(given: int | None, expected: int) -> None:
    spot = Spot(max_wait_seconds=7200, max_interruptions=given)
    found = compiled(pipeline(count=1, spot=spot))
    assert found.ir["root"]["dag"]["tasks"]["fit-model"]["retryPolicy"]["maxRetryCount"] == expected
    assert document_of(found, "fit-model")["retries"] is True


def test_a_training_on_one_node_can_be_a_train_job_by_settings() -> None:
    """There a pod that is taken away has time to save."""
    spot = Spot(max_wait_seconds=7200)

    def nodes(one_node: str, **cluster: Any) -> int:
        found = document_of(compiled(pipeline({"trainer": {"one_node": one_node}}, count=1, **cluster)), "fit-model")
        return found.get("train_job", {"spec": {"trainer": {"numNodes": 0}}})["spec"]["trainer"]["numNodes"]

    assert [nodes(each) for each in ("pod", "spot", "always")] == [0, 0, 1]
    assert [nodes(each, spot=spot) for each in ("pod", "spot", "always")] == [0, 1, 1]
    found = compiled(pipeline({"trainer": {"one_node": "spot"}}, count=1, spot=spot))
    assert pod_patch(train_job(found))["terminationGracePeriodSeconds"] == 120
    assert found.ir["root"]["dag"]["tasks"]["fit-model"]["retryPolicy"]["maxRetryCount"] == 3


def test_a_run_on_this_machine_makes_no_train_job_of_one_node() -> None:
    whole = pipeline({"trainer": {"one_node": "always"}}, count=1)
    assert "train_job" in document_of(compile_pipeline(whole), "fit-model")
    assert "train_job" not in document_of(compile_pipeline(whole, here=True), "fit-model")


def test_labels_and_annotations() -> None:
    queue = {"kueue.x-k8s.io/queue-name": "team-a"}
    job = train_job(
        compiled(pipeline({"pods": {"labels": {"team": "a"}}, "trainer": {"labels": queue, "annotations": {"b": "c"}}}))
    )
    assert (job["labels"], job["annotations"]) == (queue, {"b": "c"})
    [patch] = job["spec"]["runtimePatches"]
    [replicated] = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert replicated["template"]["spec"]["template"]["metadata"] == {"labels": {"team": "a"}}


def test_a_variable_stands_once() -> None:
    """The Trainer refuses a second one of the same name (recorded: answers-to-create.json)."""
    settings = {
        "root": "s3://data/p",
        "s3_endpoint": "http://minio:9000",
        "s3_secret": "s3",
        "pods": {"secrets": {"AWS_ENDPOINT_URL_S3": "store/url", "AWS_ACCESS_KEY_ID": "other/id"}},
    }
    env = train_job(compiled(pipeline(settings)))["spec"]["trainer"]["env"]
    names = [each["name"] for each in env]
    assert len(set(names)) == len(names)
    found = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in env if "valueFrom" in each}
    assert found["AWS_ENDPOINT_URL_S3"] == {"name": "store", "key": "url"}
    assert found["AWS_ACCESS_KEY_ID"] == {"name": "other", "key": "id"}


def test_one_claim_at_two_folders_is_two_volumes() -> None:
    """The Trainer refuses two mounts of one name (recorded: answers-to-create.json)."""
    patch = pod_patch(train_job(compiled(pipeline({"pods": {"volumes": {"/data": "shared", "/models": "shared"}}}))))
    mounts = patch["containers"][0]["volumeMounts"]
    assert mounts == [{"name": "claim-0", "mountPath": "/data"}, {"name": "claim-1", "mountPath": "/models"}]
    claims = [(each["name"], each["persistentVolumeClaim"]["claimName"]) for each in patch["volumes"]]
    assert claims == [("claim-0", "shared"), ("claim-1", "shared")]


def test_a_steps_own_retries_count() -> None:
    retry = RetryPolicy(causes=("throttling",), max_attempts=7)
    fit = step(train, name="fit", train="s3://data/digits", cluster=Cluster(count=2), retry=[retry])
    found = compiled(Pipeline(name="nodes", steps=[fit]))
    assert found.ir["root"]["dag"]["tasks"]["fit"]["retryPolicy"]["maxRetryCount"] == 7
    assert document_of(found, "fit")["train_job"]["repeats"] == 7
    assert "repeats" not in train_job(compiled(pipeline()))


def test_refusals_name_step_and_field() -> None:
    more = InstanceGroup(name="more", instance_type="ml.m5.large", count=1)
    own = step(train_script, name="own", train="s3://data/digits", script="fit.py", cluster=Cluster(groups=[more]))
    problems = [str(problem) for problem in checks.check(Pipeline(name="nodes", steps=[own]))]
    assert (
        "Step 'own': cluster.groups: is SageMaker's; hosts of one training are alike there. Give a count." in problems
    )
    hosts = Parameter.integer("hosts", default=2)
    fit = step(train, name="fit", train="s3://data/digits", cluster=Cluster(count=hosts.ref()))
    [problem] = checks.check(Pipeline(name="nodes", parameters=[hosts], steps=[fit]))
    assert str(problem) == ("Step 'fit': cluster.count: is a parameter; the number of pods is compiled. Give a number.")
    prepare = step(prepare_data, name="prepare", raw="s3://data/raw", key="id", label="y", cluster=Cluster(count=2))
    [problem] = checks.check(Pipeline(name="nodes", steps=[prepare]))
    assert str(problem) == "Step 'prepare': cluster.count: is 2; a task is one pod. Give 1."


def test_inputs_that_no_node_can_read_are_refused() -> None:
    fit = step(train, name="fit", train="gs://data/digits", cluster=Cluster(count=2))
    [problem] = checks.check(Pipeline(name="nodes", steps=[fit]))
    assert str(problem) == "Step 'fit': inputs.train: gs:// is not taken there. Give a path, or an s3:// URI."


@pytest.mark.parametrize(
    ("trainer", "field"), [({"torch": "Not A Name"}, "torch"), ({"keep": "perhaps"}, "keep"), ({"mpich": "x"}, "mpich")]
)
def test_wrong_settings_are_named(trainer: Json, field: str) -> None:
    with pytest.raises(SpecError, match=rf"deployment\.targets\.kubeflow\.trainer\.{field}"):
        compiled(pipeline({"trainer": trainer}))


def test_an_ignored_pull_policy_is_noted() -> None:
    [note] = [note for note in compiled(pipeline({"image_pull_policy": "Always"})).notes if "pull" in note]
    assert "their runtime says when images are pulled" in note
