"""A task that follows a TrainJob, against a stand-in of the Kubernetes API: what it makes, finds, says and leaves."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from drivetrain.steps.kubeflow import cluster_api, nodes, pod_log, reasons
from drivetrain.steps.kubeflow.nodes import Nodes
from drivetrain.steps.kubeflow.program import Log, Reporter
from drivetrain.steps.kubeflow.reasons import End
from drivetrain.steps.kubeflow.task import RetryError, Task, TaskError
from drivetrain.steps.kubeflow.train_job import Identity, manifest
from tests.fixtures.kubernetes_server import Cluster, RefusedError, kubernetes

Json = dict[str, Any]
PATIENCE_S = 0.3


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Generator[Cluster]:
    with kubernetes() as found:
        for name, value in {**found.variables, "KFP_POD_NAME": "driver"}.items():
            monkeypatch.setenv(name, value)
        driver = found.add_pod("", 0)
        owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "run-7", "uid": "u7"}
        driver["metadata"] = {
            "name": "driver",
            "uid": "driver",
            "labels": {"pipeline/runid": "run-7"},
            "ownerReferences": [{**owner, "controller": True}],
        }
        found.pods = {"driver": driver}
        monkeypatch.setattr(cluster_api, "PATIENCE_S", PATIENCE_S)
        monkeypatch.setattr(cluster_api, "REFUSED_TOKEN_S", PATIENCE_S)
        monkeypatch.setattr(cluster_api, "FIRST_PAUSE_S", 0.02)
        monkeypatch.setattr(pod_log, "_PAUSE_S", 0.02)
        monkeypatch.setattr(nodes, "GONE_S", 0.2)
        monkeypatch.setattr(nodes, "CANCEL_S", 1.0)
        yield found
        found.weather = lambda method, path: None
        for followed in Followed.started:
            followed.die()
        Followed.started.clear()


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return task_in(tmp_path)


def task_in(folder: Path, **told: Any) -> Task:
    document: Json = {
        "step": "fit",
        "program": "own:fit",
        "arguments": [],
        "logs": {"loss": r"loss=([0-9.]+)"},
        "train_job": {
            "spec": {
                "runtimeRef": {"name": "torch-distributed"},
                "trainer": {"image": "i", "command": ["python3"], "args": ["start", "code"], "numNodes": 2},
            },
            "start_seconds": 5,
            "keep": "never",
            **told,
        },
    }
    outputs = {"model": {"artifacts": [{"name": "model", "uri": "s3://b/run-7/fit/model"}]}}
    given = {"inputs": {}, "outputs": {"artifacts": outputs, "outputFile": str(folder / "out.json")}}
    return Task(json.dumps(given), json.dumps(document))


class KilledError(Exception):
    """The follower's process is gone."""


class Followed:
    """A task that follows its TrainJob in a thread, and what it says."""

    started: ClassVar[list[Followed]] = []

    def __init__(self, task: Task) -> None:
        self.said: list[str] = []
        self.log = Log(task.document["logs"], Reporter(task))
        self.nodes = Nodes(task, self.log, self.said.append, poll=0.01, settle=0.1)
        self.end: End | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.started.append(self)

    def die(self) -> None:
        """End as a killed process does: nothing of it goes on, nothing is cleaned up."""

        def dead(*_: Any, **__: Any) -> Any:
            raise KilledError

        self.nodes.api._asked = self.nodes._pause = dead  # type: ignore[method-assign]
        self._thread.join(20)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.end = self.nodes.followed_to_its_end()
        except Exception as error:
            self.error = error

    def wait(self) -> End:
        self._thread.join(20)
        assert not self._thread.is_alive(), self.said
        if self.error is not None:
            raise self.error
        assert self.end is not None
        return self.end

    def stop(self, number: signal.Signals = signal.SIGTERM) -> End:
        self.nodes.stopped_by = number
        self.nodes.stop.set()
        return self.wait()


def created(cluster: Cluster, number: int = 1) -> str:
    """The name of the TrainJob that the task has made."""
    cluster.wait(lambda: len(cluster.created) == number)
    return cluster.created[-1]


def running(cluster: Cluster, job: str) -> list[str]:
    return [cluster.add_pod(job, rank)["metadata"]["name"] for rank in range(2)]


def trained(cluster: Cluster, job: str) -> None:
    for name in running(cluster, job):
        cluster.end_pod(name, 0)


def test_a_train_job_is_made_followed_and_deleted(cluster: Cluster, task: Task, capsysbinary: Any) -> None:
    followed = Followed(task)
    name = created(cluster)
    job = cluster.jobs[name]
    first, second = running(cluster, name)
    cluster.say(first, "step 1 loss=0.5", "step 2 loss=0.25")
    cluster.say(second, "step 2 loss=9.0")
    for pod in (first, second):
        cluster.end_pod(pod, 0)
    assert followed.wait() == End("done")
    assert followed.log.values == {"loss": 0.25}
    assert capsysbinary.readouterr().out == b"step 1 loss=0.5\nstep 2 loss=0.25\n"
    assert cluster.jobs == {} and cluster.created == [name]
    assert job["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "drivetrain",
        "drivetrain/task": Identity.of(task).digest,
        "drivetrain/step": "fit",
        "drivetrain/run": "run-7",
        "drivetrain/attempt": "0",
    }
    # The TrainJob ends with its run, and not with the pod of one attempt.
    assert [owner["kind"] for owner in job["metadata"]["ownerReferences"]] == ["Workflow"]
    assert job["spec"]["trainer"]["args"] == ["start", "code", task.executor_input]
    [document] = [json.loads(each["value"]) for each in job["spec"]["trainer"]["env"]]
    assert document == {"step": "fit", "program": "own:fit", "arguments": []}


def test_a_restarted_task_follows_the_existing_train_job(cluster: Cluster, tmp_path: Path) -> None:
    before = Followed(task_in(tmp_path))
    name = created(cluster)
    pods = running(cluster, name)
    cluster.say(pods[0], "loss=0.5")
    cluster.wait(lambda: ("GET", f"/api/v1/namespaces/team-a/pods/{pods[0]}/log") in cluster.requests)
    before.die()
    followed = Followed(task_in(tmp_path))
    cluster.say(pods[0], "loss=0.25")
    for pod in pods:
        cluster.end_pod(pod, 0)
    assert followed.wait() == End("done")
    assert followed.log.values == {"loss": 0.25}
    assert cluster.created == [name]
    assert f"TrainJob {name} is there already: following it" in followed.said


def test_a_train_job_that_ended_meanwhile_counts_as_done(cluster: Cluster, task: Task) -> None:
    followed = Followed(task)
    name = created(cluster)
    first, second = running(cluster, name)
    cluster.wait(lambda: any("all nodes have started" in line for line in followed.said))
    followed.die()
    cluster.say(first, "loss=0.125")
    for pod in (first, second):
        cluster.end_pod(pod, 0)
    other = Followed(task)
    assert other.wait() == End("done")
    assert other.log.values == {"loss": 0.125}
    assert cluster.created == [name]


def test_a_lost_answer_creates_no_second_train_job(cluster: Cluster, task: Task) -> None:
    lost: list[str] = []

    def once(method: str, path: str) -> str | None:
        if method == "POST" and not lost:
            lost.append(path)
            return "lost"
        return None

    cluster.weather = once
    followed = Followed(task)
    trained(cluster, created(cluster))
    assert followed.wait() == End("done")
    assert lost and len(cluster.created) == 1


@pytest.mark.parametrize(
    ("code", "message", "kind", "expected"),
    [
        (
            1,
            "rank 3 of 4 failed: boom",
            "failed",
            "node 1 (pod {pod}): rank 3 of 4 failed: boom",
        ),
        (2, "", "failed", "node 1 (pod {pod}): exit code 2"),
        (139, "", "failed", "node 1 (pod {pod}): ended by SIGSEGV"),
        (137, "", "interrupted", "node 1 (pod {pod}): ended by SIGKILL"),
    ],
)
def test_the_failed_rank_is_reported_and_not_its_peers(
    cluster: Cluster, task: Task, code: int, message: str, kind: str, expected: str
) -> None:
    task.document["train_job"]["repeats"] = 0
    followed = Followed(task)
    name = created(cluster)
    first, second = running(cluster, name)
    cluster.end_pod(first, 75, "node 0 lost its peer")
    cluster.end_pod(second, code, message)
    end = followed.wait()
    if kind == "interrupted":  # both are consequences of something outside; the earliest is told
        assert (end.kind, end.code) == ("interrupted", 75)
    else:
        assert (end.kind, end.code) == ("failed", code)
        assert end.reason == expected.format(pod=second)
    assert cluster.jobs == {}, "the pods of the others are not left at work"


def test_out_of_memory_is_no_interruption(cluster: Cluster, tmp_path: Path) -> None:
    followed = Followed(task_in(tmp_path, restart_seconds=60))
    name = created(cluster)
    _, second = running(cluster, name)
    cluster.end_pod(second, 137, reason="OOMKilled")
    end = followed.wait()
    assert (end.kind, end.code) == ("failed", 1)
    assert end.reason.endswith("out of memory (OOMKilled). Ask for more: cluster.resources.memory_gib.")


TAKEN: dict[str, Callable[[Cluster, str], None]] = {
    "evicted": lambda cluster, pod: cluster.end_pod(
        pod,
        143,
        status_reason="Evicted",
        conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "Taint"}],
    ),
    "deleted": lambda cluster, pod: cluster.pods[pod]["metadata"].update(deletionTimestamp="2026-11-25T10:00:00Z"),
    "gone": lambda cluster, pod: cluster.pods.__delitem__(pod),
}


@pytest.mark.parametrize("how", TAKEN)
def test_all_nodes_restart_after_one_is_evicted(cluster: Cluster, tmp_path: Path, how: str) -> None:
    followed = Followed(task_in(tmp_path, restart_seconds=60))
    name = created(cluster)
    _, second = running(cluster, name)
    cluster.wait(lambda: any("all nodes have started" in line for line in followed.said))
    with cluster.lock:
        TAKEN[how](cluster, second)
    again = created(cluster, 2)
    assert again == f"{name[:-1]}1" and name not in cluster.jobs
    assert cluster.jobs[again]["metadata"]["labels"]["drivetrain/attempt"] == "1"
    trained(cluster, again)
    assert followed.wait() == End("done")
    assert any(line.startswith("interrupted: node 1") for line in followed.said)


def test_without_spot_interruptions_are_counted(cluster: Cluster, tmp_path: Path) -> None:
    """The task makes other TrainJobs itself: Kubeflow Pipelines as it is installed tries no program again."""
    followed = Followed(task_in(tmp_path, repeats=2))
    for number in range(1, 4):
        name = created(cluster, number)
        assert name.endswith(f"-{number - 1}")
        _, second = running(cluster, name)
        cluster.end_pod(second, 143, status_reason="Evicted")
    assert (followed.wait().kind, followed.wait().code) == ("interrupted", 75)
    assert len([line for line in followed.said if line.startswith("interrupted: node 1")]) == 2


def test_a_new_attempt_of_the_task_starts_over(cluster: Cluster, task: Task) -> None:
    """Where KFP tries the task again, the training goes on from its checkpoints."""
    task.document["train_job"]["repeats"] = 0
    followed = Followed(task)
    name = created(cluster)
    _, second = running(cluster, name)
    cluster.end_pod(second, 143, status_reason="Evicted")
    end = followed.wait()
    assert (end.kind, end.code) == ("interrupted", 75)
    assert "(Evicted)" in end.reason
    assert cluster.jobs == {}
    again = Followed(task)
    assert created(cluster, 2) == name
    trained(cluster, name)
    assert again.wait() == End("done")


def test_the_number_of_interruptions_is_limited(cluster: Cluster, tmp_path: Path) -> None:
    followed = Followed(task_in(tmp_path, restart_seconds=0))
    _, second = running(cluster, created(cluster))
    cluster.end_pod(second, 143, status_reason="Evicted")
    end = followed.wait()
    assert (end.kind, end.code) == ("failed", 1)
    assert end.reason.endswith("the training has taken 0 s with interruptions")


WAITING: dict[str, tuple[Callable[[Cluster, str], Any], str]] = {
    "unschedulable": (
        lambda cluster, job: cluster.add_pod(
            job,
            0,
            state={"waiting": {"reason": "ContainerCreating"}},
            phase="Pending",
            conditions=[
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes have gpu"}
            ],
        ),
        "Unschedulable: 0/3 nodes have gpu",
    ),
    "no image": (
        lambda cluster, job: cluster.add_pod(
            job, 0, state={"waiting": {"reason": "ErrImagePull", "message": "not found"}}, phase="Pending"
        ),
        "ErrImagePull: not found",
    ),
    "quota": (
        lambda cluster, job: cluster.events.append(
            {
                "type": "Warning",
                "involvedObject": {"kind": "Job", "name": f"{job}-node-0"},
                "reason": "FailedCreate",
                "message": "exceeded quota: team-a",
            }
        ),
        "FailedCreate: exceeded quota: team-a",
    ),
    "pending": (
        lambda cluster, job: cluster.add_pod(job, 0, phase="Pending", containerStatuses=[], conditions=[]),
        "1 of 2 pods are there; node 0 (pod {job}-node-0-0-x",
    ),
    "nobody": (lambda cluster, job: None, "0 of 2 pods are there. Does the Trainer's controller run?"),
}


@pytest.mark.parametrize("why", WAITING)
def test_a_train_job_that_never_starts_says_why(
    cluster: Cluster, tmp_path: Path, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    happens, expected = WAITING[why]
    monkeypatch.setattr(reasons, "USUAL_S", 0.1)
    followed = Followed(task_in(tmp_path, start_seconds=0.3))
    name = created(cluster)
    expected = expected.format(job=name)
    happens(cluster, name)
    end = followed.wait()
    assert (end.kind, end.code) == ("failed", 75)
    assert end.reason.startswith(f"the TrainJob {name} has not started within 0.3 s: ")
    assert expected in end.reason
    assert any(line.startswith(f"TrainJob {name} waits: ") and expected in line for line in followed.said)
    assert cluster.jobs == {}


def test_a_train_job_given_up_by_its_controller_says_why(cluster: Cluster, task: Task) -> None:
    followed = Followed(task)
    cluster.end(created(cluster), "Failed", "TrainingRuntimeNotSupported", "unsupported runtime: x")
    end = followed.wait()
    assert end.code == 75 and "TrainingRuntimeNotSupported: unsupported runtime: x" in end.reason


def test_a_train_job_over_its_time_limit_fails_permanently(cluster: Cluster, tmp_path: Path) -> None:
    followed = Followed(task_in(tmp_path, restart_seconds=60))
    name = created(cluster)
    running(cluster, name)
    cluster.exceed_deadline(name)
    end = followed.wait()
    assert (end.kind, end.code) == ("failed", 1) and "max_run_seconds" in end.reason
    assert cluster.created == [name]


def test_waiting_in_a_queue_is_allowed(cluster: Cluster, tmp_path: Path) -> None:
    """Kueue suspends a TrainJob as it is made, and lets it run later: that time does not count."""
    followed = Followed(task_in(tmp_path, start_seconds=0.2))
    name = created(cluster)
    cluster.suspend(name)
    looks = len(cluster.requests)
    cluster.wait(lambda: len(cluster.requests) > looks + 100)
    cluster.resume(name)
    for pod in running(cluster, name):
        cluster.end_pod(pod, 0)
    assert followed.wait() == End("done")
    assert f"TrainJob {name} waits: the TrainJob is suspended (Suspended: TrainJob is suspended)" in followed.said


def test_a_queue_may_preempt_and_restart_pods(cluster: Cluster, tmp_path: Path) -> None:
    """As Kueue preempts: the same TrainJob goes on, and the old pods, which still end, are no failure of the new."""
    followed = Followed(task_in(tmp_path, restart_seconds=60))
    name = created(cluster)
    first, _ = running(cluster, name)
    cluster.say(first, "step 1 loss=0.5")
    cluster.wait(lambda: any("all nodes have started" in line for line in followed.said))
    cluster.suspend(name)
    cluster.wait(lambda: any("suspended" in line for line in followed.said))
    cluster.end_pod(first, 75, "stopped by SIGTERM")
    cluster.resume(name)
    others = running(cluster, name)
    cluster.say(others[0], "step 2 loss=0.25")
    for pod in others:
        cluster.end_pod(pod, 0)
    cluster.end(name, "Complete", "AllJobsCompleted", "jobset completed successfully")
    assert followed.wait() == End("done")
    assert followed.log.values == {"loss": 0.25}
    assert cluster.created == [name]


def test_a_deleted_train_job_is_reported(cluster: Cluster, task: Task) -> None:
    followed = Followed(task)
    name = created(cluster)
    cluster.remove(name)
    assert followed.wait() == End("failed", 1, f"the TrainJob {name} was deleted while it was followed")


@pytest.mark.parametrize(("keep", "stays"), [("never", False), ("failed", False), ("always", True)])
def test_a_succeeded_train_job_is_kept_on_request(cluster: Cluster, tmp_path: Path, keep: str, stays: bool) -> None:
    followed = Followed(task_in(tmp_path, keep=keep))
    name = created(cluster)
    trained(cluster, name)
    followed.wait()
    assert (name in cluster.jobs) is stays


@pytest.mark.parametrize(("keep", "stays"), [("never", False), ("failed", True), ("always", True)])
def test_a_failed_train_job_is_kept_on_request(cluster: Cluster, tmp_path: Path, keep: str, stays: bool) -> None:
    followed = Followed(task_in(tmp_path, keep=keep))
    name = created(cluster)
    _, second = running(cluster, name)
    cluster.end_pod(second, 1, "boom")
    cluster.end(name, "Failed", "FailedJobs", "jobset failed")
    assert followed.wait().code == 1
    assert (name in cluster.jobs) is stays
    if stays:  # and another attempt of the task ends with the same reason, without a new TrainJob
        again = Followed(task_in(tmp_path, keep=keep))
        assert again.wait().reason == f"node 1 (pod {second}): boom"
        assert cluster.created == [name]


def test_a_kept_interrupted_train_job_is_replaced_by_the_next(cluster: Cluster, tmp_path: Path) -> None:
    followed = Followed(task_in(tmp_path, keep="failed", repeats=0))
    name = created(cluster)
    _, second = running(cluster, name)
    cluster.end_pod(second, 143, status_reason="Evicted")
    cluster.end(name, "Failed", "FailedJobs", "jobset failed")
    assert followed.wait().code == 75 and name in cluster.jobs
    again = Followed(task_in(tmp_path, keep="failed"))
    trained(cluster, created(cluster, 2))
    assert again.wait() == End("done")
    assert cluster.created == [name, f"{name[:-1]}1"] and cluster.jobs == {}


@pytest.mark.parametrize("fault", [429, 500, 503, "drop"])
def test_a_briefly_unavailable_api_is_retried(cluster: Cluster, task: Task, fault: Any) -> None:
    number = 0

    def weather(method: str, path: str) -> Any:
        nonlocal number
        number += 1
        return fault if number % 2 and not path.endswith("/log") else None

    cluster.weather = weather
    followed = Followed(task)
    trained(cluster, created(cluster))
    assert followed.wait() == End("done")
    assert len(cluster.created) == 1 and cluster.jobs == {}


def test_an_unavailable_api_ends_the_attempt_and_the_next_one_resumes(cluster: Cluster, task: Task) -> None:
    followed = Followed(task)
    name = created(cluster)
    pods = running(cluster, name)
    cluster.weather = lambda method, path: "drop"
    with pytest.raises(RetryError, match=r"the Kubernetes API at http://127\.0\.0\.1:\d+ did not GET .* within"):
        followed.wait()
    assert name in cluster.jobs, "the training itself goes on"
    cluster.weather = lambda method, path: None
    again = Followed(task)
    for pod in pods:
        cluster.end_pod(pod, 0)
    assert again.wait() == End("done")
    assert cluster.created == [name]


def test_a_renewed_token_is_used(cluster: Cluster, task: Task) -> None:
    followed = Followed(task)
    name = created(cluster)
    cluster.renew_token()
    trained(cluster, name)
    assert followed.wait() == End("done")


def test_an_expired_token_is_reported(cluster: Cluster, task: Task) -> None:
    cluster.renew_token(also_in_pods=False)
    with pytest.raises(TaskError, match=r"refuses the token in .*401 Unauthorized.*: it has expired"):
        Followed(task).wait()
    assert cluster.created == []


@pytest.mark.parametrize(
    ("right", "name"),
    [
        (("trainjobs", "create"), "trainjobs"),
        (("trainjobs", "list"), "trainjobs"),
        (("pods", "list"), "pods"),
        (("events", "list"), "events"),
        (("pods/log", "get"), "pods/log"),
    ],
)
def test_a_missing_permission_is_one_line_and_leaves_nothing(
    cluster: Cluster, task: Task, right: tuple[str, str], name: str
) -> None:
    cluster.rights.discard(right)
    followed = Followed(task)
    if right[0] in ("pods/log",):
        running(cluster, created(cluster))
    with pytest.raises(TaskError) as error:
        followed.wait()
    message = str(error.value)
    assert f'cannot {right[1]} resource "{name}"' in message and "\n" not in message
    assert "in namespace 'team-a'" in message and "service_account" in message
    assert cluster.jobs == {}


def test_a_missing_runtime_is_reported(cluster: Cluster, task: Task) -> None:
    cluster.runtimes.clear()
    with pytest.raises(TaskError, match="clusterTrainingRuntime must be created before the TrainJob"):
        Followed(task).wait()


def test_a_cluster_without_trainer_is_reported(cluster: Cluster, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Cluster.answer

    def without(self: Cluster, method: str, path: str, query: Any, body: Any) -> Any:
        if "trainjobs" in path:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        return answer(self, method, path, query, body)

    monkeypatch.setattr(Cluster, "answer", without)
    with pytest.raises(TaskError, match=r"no TrainJobs.* Install Kubeflow Trainer"):
        Followed(task).wait()


def test_a_stopped_task_deletes_its_train_job(cluster: Cluster, task: Task) -> None:
    followed = Followed(task)
    name = created(cluster)
    running(cluster, name)
    assert followed.stop() == End("failed", 143, "stopped by SIGTERM")
    assert cluster.jobs == {}
    assert f"TrainJob {name} is deleted: the task was stopped by SIGTERM" in followed.said


def test_a_task_stopped_during_an_outage_deletes_the_train_job_later(cluster: Cluster, task: Task) -> None:
    followed = Followed(task)
    followed.nodes.api.patience = 60.0
    name = created(cluster)
    running(cluster, name)
    cluster.weather = lambda method, path: "drop"
    known = len(cluster.requests)
    cluster.wait(lambda: len(cluster.requests) > known + 1)
    threading.Timer(0.2, lambda: setattr(cluster, "weather", lambda method, path: None)).start()
    assert followed.stop().code == 143
    assert cluster.jobs == {}


def test_a_rescheduled_task_leaves_its_train_job_to_the_next_attempt(cluster: Cluster, task: Task) -> None:
    followed = Followed(task)
    name = created(cluster)
    pods = running(cluster, name)
    cluster.pods["driver"]["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "Drain"}]
    assert followed.stop().code == 143
    assert list(cluster.jobs) == [name]
    cluster.pods["driver"]["status"]["conditions"] = []
    again = Followed(task)
    for pod in pods:
        cluster.end_pod(pod, 0)
    assert again.wait() == End("done")
    assert cluster.created == [name]


def test_a_terminating_train_job_is_waited_for(cluster: Cluster, task: Task) -> None:
    """The name of an attempt is the same in each attempt of the task."""
    name = Identity.of(task).name(0)
    labels = Identity.of(task).labels(0, "run-7")
    old = {"metadata": {"name": name, "uid": "old", "labels": labels, "deletionTimestamp": "2026-11-25T10:00:00Z"}}
    cluster.jobs[name] = old
    followed = Followed(task)
    cluster.wait(lambda: sum(path.endswith("/pods") for _, path in cluster.requests) >= 2 * nodes.LOOKS)
    assert cluster.created == []
    cluster.remove(name)
    trained(cluster, created(cluster))
    assert followed.wait() == End("done")


def test_the_next_train_job_waits_until_all_old_pods_are_gone(cluster: Cluster, tmp_path: Path) -> None:
    """Trainer starts pods of a deleted TrainJob anew, by what it knew before."""
    beside: list[str] = []
    answer = cluster.answer

    def watched(method: str, path: str, query: Any, body: Any) -> Any:
        if method == "POST":
            beside.extend(name for name in cluster.pods if name != "driver")
        return answer(method, path, query, body)

    cluster.answer = watched  # type: ignore[method-assign]
    followed = Followed(task_in(tmp_path, restart_seconds=60))
    _, second = running(cluster, created(cluster))
    cluster.end_pod(second, 143, status_reason="Evicted")
    trained(cluster, created(cluster, 2))
    assert followed.wait() == End("done")
    assert beside == []


@pytest.mark.parametrize("version", ["v2.0.0", "v2.1.0", "v2.2.1"])
def test_a_trainer_that_would_drop_fields_is_refused(cluster: Cluster, tmp_path: Path, version: str) -> None:
    cluster.trainer = version
    pod = {"spec": {"terminationGracePeriodSeconds": 120}}
    jobs = [{"name": "node", "template": {"spec": {"template": pod}}}]
    patch = {"manager": "drivetrain/task", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    task = task_in(tmp_path)
    task.document["train_job"]["spec"] |= {"activeDeadlineSeconds": 60, "runtimePatches": [patch]}
    with pytest.raises(TaskError) as error:
        Followed(task).wait()
    field = "spec.activeDeadlineSeconds, spec.runtimePatches" if version < "v2.2" else "terminationGracePeriodSeconds"
    message = str(error.value)
    assert message.startswith("this cluster's Kubeflow Trainer is too old: it does not know spec.")
    assert field in message and message.endswith("Install Trainer 2.3 or newer.") and "\n" not in message
    assert cluster.jobs == {}


def test_one_node_is_followed_like_several(cluster: Cluster, task: Task) -> None:
    task.document["train_job"]["spec"]["trainer"]["numNodes"] = 1
    followed = Followed(task)
    pod = cluster.add_pod(created(cluster), 0)["metadata"]["name"]
    cluster.end_pod(pod, 0)
    assert followed.wait() == End("done")


def test_a_pod_with_a_long_name_identifies_itself(
    cluster: Cluster, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host name is cut at 63 characters; the TrainJob of such a pod had no owner, and a drain ended the training."""
    name = f"{'customer-churn-training-' * 3}system-container-impl-12"
    driver = cluster.pods.pop("driver")
    driver["metadata"]["name"] = name
    cluster.pods[name] = driver
    monkeypatch.setenv("KFP_POD_NAME", name)
    monkeypatch.setenv("HOSTNAME", name[:63])
    followed = Followed(task)
    job = cluster.jobs[created(cluster)]
    assert job["metadata"]["labels"]["drivetrain/run"] == "run-7"
    assert [owner["name"] for owner in job["metadata"]["ownerReferences"]] == ["run-7"]
    driver["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "Drain"}]
    assert followed.stop().code == 143
    assert list(cluster.jobs) == [job["metadata"]["name"]]


def test_dollar_expressions_are_escaped_for_kubernetes(task: Task) -> None:
    """`$$` and `$(NAME)` in arguments and in variables; labels and annotations of the settings are added."""
    told = task.document["train_job"]
    told |= {"labels": {"kueue.x-k8s.io/queue-name": "q", "drivetrain/step": "x"}, "annotations": {"a": "b"}}
    task.document["environment"] = {"PRICE": "$$5", "WHO": "$(HOME)"}
    task.executor_input = json.dumps({**json.loads(task.executor_input), "price": "$(HOME) $$"})
    job = manifest(task, 0, began=1.0, run="run-7", owners=[])
    trainer = job["spec"]["trainer"]
    assert "$" not in trainer["args"][-1] + trainer["env"][-1]["value"]
    assert json.loads(trainer["args"][-1])["price"] == "$(HOME) $$"
    assert json.loads(trainer["env"][-1]["value"])["environment"] == {"PRICE": "$$5", "WHO": "$(HOME)"}
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "q"
    assert job["metadata"]["labels"]["drivetrain/step"] == "fit"
    assert job["metadata"]["annotations"] == {"a": "b", "drivetrain/began": "1"}


def test_signals_reach_the_following_process(cluster: Cluster, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler is the main thread's; everything else here runs in another."""
    monkeypatch.setattr(nodes, "LOOKS", 1)
    sent = threading.Thread(target=lambda: (created(cluster), signal.raise_signal(signal.SIGTERM)))
    sent.start()
    before = time.monotonic()
    end = Nodes(task, Log({}, Reporter(task)), lambda text: None, poll=30.0).run()
    sent.join()
    assert end.code == 143 and time.monotonic() - before < 10 and cluster.jobs == {}
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
