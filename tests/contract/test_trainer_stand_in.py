"""The stand-in of Kubernetes and Kubeflow Trainer answers as they were recorded: fields, words and orders."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import Any

import pytest

from drivetrain.steps.kubeflow.cluster_api import ClusterApi, ClusterError
from drivetrain.steps.kubeflow.reasons import condition
from drivetrain.steps.kubeflow.train_job import TRAINJOBS
from tests.fixtures.kubernetes_server import Cluster, kubernetes
from tests.fixtures.train_job_crd import RefusedError, check_values, known_fields
from tests.fixtures.train_job_runs import RECORDED, read

Json = dict[str, Any]
_PODS = "jobset.sigs.k8s.io/replicatedjob-name=node"
_SET_BY_SERVER = ("uid", "namespace", "creationTimestamp", "generation", "resourceVersion")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Generator[Cluster]:
    with kubernetes() as found:
        for name, value in found.variables.items():
            monkeypatch.setenv(name, value)
        yield found


def sent() -> Json:
    """The recorded TrainJob as the task sent it: without what the servers added."""
    job = read("trainjob.returned")
    for name in _SET_BY_SERVER:
        del job["metadata"][name]
    del job["spec"]["managedBy"], job["spec"]["suspend"], job["spec"]["runtimePatches"][0]["time"]
    job["spec"]["trainer"]["command"] = ["python3"]
    return job


def shape(value: Any) -> Any:
    """An answer without its values."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return type(value).__name__


def made(api: ClusterApi, **spec: Any) -> tuple[str, Json]:
    body = sent()
    body["spec"] |= spec
    job = api.create(TRAINJOBS, body)
    return job["metadata"]["name"], job


def pods(api: ClusterApi) -> list[Json]:
    return api.get("pods", labelSelector=_PODS)["items"]


def test_a_train_job_comes_back_with_defaults(cluster: Cluster) -> None:
    _, job = made(ClusterApi())
    expected = read("trainjob.returned")
    expected["spec"]["trainer"]["command"] = ["python3"]
    assert shape(job) == shape(expected)
    assert job["spec"]["managedBy"] == expected["spec"]["managedBy"] and job["spec"]["suspend"] is False


@pytest.mark.parametrize(
    ("runtime", "recorded"), [("drivetrain-torch", "own-runtime"), ("torch-distributed", "stock-runtime")]
)
def test_a_pod_has_the_recorded_fields(cluster: Cluster, runtime: str, recorded: str) -> None:
    api = ClusterApi()
    name, _ = made(api, runtimeRef={"name": runtime})
    cluster.add_pod(name, 1)
    [pod] = pods(api)
    assert shape(pod) == shape(read(f"{recorded}.pod-of-rank-1"))
    assert pod["spec"]["restartPolicy"] == cluster.runtimes[runtime]


def _case(text: str) -> Json:
    return next(each for each in read("answers-to-create") if each["case"] == text)


def _environment(body: Json, *names: str) -> None:
    body["spec"]["trainer"]["env"] += [{"name": name, "value": "4"} for name in names]


def _mounted_twice(body: Json) -> None:
    [job] = body["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    mounts = [{"name": "claim-0", "mountPath": folder} for folder in ("/a", "/b")]
    job["template"]["spec"]["template"]["spec"]["containers"] = [{"name": "node", "volumeMounts": mounts}]


REFUSED: dict[str, Callable[[Json], None]] = {
    "runtime that is not there": lambda body: body["spec"]["runtimeRef"].update(name="nosuch"),
    "130 env variables": lambda body: _environment(body, *(f"V{number}" for number in range(130))),
    "env twice": lambda body: _environment(body, "AWS_ENDPOINT_URL_S3"),
    "one volume mounted twice (finding 27)": _mounted_twice,
    "unknown field, Strict": lambda body: body["spec"]["trainer"].update(terminationGracePeriodSeconds=1),
    "name that begins with a digit": lambda body: body["metadata"].update(name="1abc"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_recorded_refusals_have_the_same_text(cluster: Cluster, case: str) -> None:
    body, recorded = sent(), _case(case)
    REFUSED[case](body)
    with pytest.raises(RefusedError) as error:
        cluster.answer("POST", f"/apis/{_path()}", {"fieldValidation": "Strict"}, body)
    expected = recorded["answer"]["message"].replace("fit-573a39637f-0", body["metadata"]["name"])
    assert (error.value.code, error.value.reason) == (recorded["status"], recorded["answer"]["reason"])
    assert str(error.value) == expected


def _path() -> str:
    return "trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs"


def test_reserved_variables_are_refused(cluster: Cluster) -> None:
    """The recorded message has the whole list, so its end is compared."""
    recorded = _case("env PET_NNODES by the user")["answer"]["message"]
    with pytest.raises(RefusedError) as error:
        check_values("fit-0", {"trainer": {"env": [{"name": "PET_NNODES", "value": "4"}]}})
    before, _, after = recorded.partition("Invalid value: ")
    assert str(error.value).startswith(before) and str(error.value).endswith(after.rpartition(": ")[2])


@pytest.mark.parametrize("version", read("older-crds"))
def test_older_trainers_drop_fields_and_warn_on_request(version: str) -> None:
    unknown = read("older-crds")[version]
    if not unknown:
        assert known_fields(sent(), version, strict=True) == sent()
        return
    with pytest.raises(RefusedError) as error:
        known_fields(sent(), version, strict=True)
    said = str(error.value)
    assert said.startswith('TrainJob in version "v1alpha1" cannot be handled as a TrainJob: strict decoding error: ')
    assert [field for field in unknown if f'unknown field "{field}"' in said] == unknown
    dropped = known_fields(sent(), version, strict=False)
    assert dropped != sent() and ("runtimePatches" in dropped["spec"]) is (version >= "v2.2")


def order(name: str) -> list[str]:
    """Facts of a recorded run about its pods and its TrainJob, each once, in its order."""
    found: list[str] = []
    for line in (RECORDED / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["kind"] == "Pod" and event["type"] == "MODIFIED":
            container = event["containers"].get("node", {})
            words = "pod " + "".join(
                [event["phase"], " ends" * ("deletionTimestamp" in event), " again" * ("restartCount" in container)]
            )
        elif event["kind"] == "TrainJob" and event["status"].get("conditions"):
            [said] = event["status"]["conditions"]
            words = f"{said['type']} {said['status']} {said['reason']}: {said['message']}"
        else:
            continue
        if words not in found:
            found.append(words)
    return found


def conditions(cluster: Cluster, job: str) -> list[str]:
    found = cluster.jobs[job].get("status", {}).get("conditions", [])
    return [f"{each['type']} {each['status']} {each['reason']}: {each['message']}" for each in found]


def test_a_training_that_succeeds_is_complete(cluster: Cluster) -> None:
    name, _ = made(ClusterApi())
    for pod in [cluster.add_pod(name, rank) for rank in range(2)]:
        cluster.end_pod(pod["metadata"]["name"], 0)
    assert conditions(cluster, name) == [order("done")[-1]]


def test_a_program_that_fails(cluster: Cluster) -> None:
    """In the default runtime its container runs again, with its last end; in ours the pod and the TrainJob fail."""
    stock, own = order("program-fails.stock-runtime"), order("program-fails.own-runtime")
    assert stock.index("pod Running again") < stock.index("pod Failed ends again")
    api = ClusterApi()
    name, _ = made(api, runtimeRef={"name": "torch-distributed"})
    cluster.end_pod(cluster.add_pod(name, 0)["metadata"]["name"], 2, "bad input")
    [pod] = pods(api)
    [container] = pod["status"]["containerStatuses"]
    assert pod["status"]["phase"] == "Running" and container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 2 and "running" in container["state"]
    cluster.remove(name)
    name, _ = made(api, runtimeRef={"name": "drivetrain-torch"})
    cluster.end_pod(cluster.add_pod(name, 0)["metadata"]["name"], 2, "bad input")
    [recorded] = [line for line in own if line.startswith("Failed True")]
    assert conditions(cluster, name) == [recorded.replace("bad-2f024d1f59-0", name)]


def test_a_time_limit_is_reported_after_the_pods_are_removed(cluster: Cluster) -> None:
    recorded = order("max-run-seconds")
    [said] = [line for line in recorded if line.startswith("Failed True")]
    assert recorded.index("pod Running ends") < recorded.index(said)
    api = ClusterApi()
    name, _ = made(api)
    cluster.add_pod(name, 0)
    cluster.exceed_deadline(name)
    assert condition(api.get(f"{TRAINJOBS}/{name}"), "Failed") is None
    assert all("deletionTimestamp" in pod["metadata"] for pod in pods(api))
    assert conditions(cluster, name) == [said]


def test_a_queue_suspends_and_resumes(cluster: Cluster) -> None:
    name, _ = made(ClusterApi())
    cluster.add_pod(name, 0)
    cluster.suspend(name)
    assert conditions(cluster, name) == [line for line in order("suspended-while-it-runs") if "pod " not in line]
    cluster.resume(name)
    recorded = [line.partition(":")[0] for line in order("queued-then-admitted") if line.startswith("Suspended False")]
    assert [line.partition(":")[0] for line in conditions(cluster, name)] == recorded


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_a_train_job_deleted_in_the_foreground_restarts_its_pods(cluster: Cluster, policy: str) -> None:
    """In the foreground the TrainJob stays and its pods run again; in the background some are made, and seldom run."""
    deletions = read("foreground-background")["Trainer 2.3.0, JobSet 0.12.0"]
    recorded = [each for each in deletions if each["policy"] == policy]
    stays = all(each["new_jobsets"] for each in recorded)
    assert stays is (policy == "Foreground") and any(each["new_pods"] for each in recorded)
    api = ClusterApi()
    name, _ = made(api)
    cluster.add_pod(name, 0)
    cluster.answer("DELETE", f"/apis/{_path()}/{name}", {"propagationPolicy": policy}, None)
    assert (name in cluster.jobs) is stays
    looks = [[pod["status"]["phase"] for pod in pods(api)] for _ in range(4)]
    assert looks == [["Running"], [], ["Running" if stays else "Pending"] * 2, []]
    with pytest.raises(ClusterError, match="not found"):
        api.get(f"{TRAINJOBS}/{name}")
