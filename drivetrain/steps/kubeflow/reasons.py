"""Put the state of a TrainJob's objects in words: whether it ended, why it failed, why it does not start.

Pure functions of the API's JSON: TrainJob, its pods, events of its namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from drivetrain.base.errors import FAILED, RETRY
from drivetrain.steps.kubeflow.train_job import NODE

_INDEX = "batch.kubernetes.io/job-completion-index"
# Why the kubelet or a controller ended a pod, as `status.reason` has it.
_TAKEN = ("Evicted", "Preempted", "Preempting", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "NodeAffinity")
_SIGNALS = {137: "SIGKILL", 143: "SIGTERM", 130: "SIGINT", 139: "SIGSEGV", 134: "SIGABRT"}
_KILLED = (130, 137, 143)
# Waiting for these is the usual course, and without a reason for so long.
USUAL_S = 30.0
_USUAL = ("ContainerCreating", "PodInitializing")

Json = Mapping[str, Any]


@dataclass(frozen=True)
class End:
    """How an attempt ended. `interrupted`: another attempt goes on from the checkpoints."""

    kind: Literal["done", "failed", "interrupted"]
    code: int = 0
    reason: str = ""


def condition(thing: Json, kind: str, status: str = "True") -> Json | None:
    """A condition of an object with that status."""
    found = thing.get("status", {}).get("conditions") or ()
    return next((each for each in found if each["type"] == kind and each["status"] == status), None)


def rank_of(pod: Json) -> int:
    """The node's rank, from 0."""
    metadata = pod["metadata"]
    found = metadata.get("labels", {}).get(_INDEX) or metadata.get("annotations", {}).get(_INDEX)
    return int(found) if found else 0


def state_of(pod: Json, kind: Literal["waiting", "running", "terminated"]) -> Json | None:
    """The state of the container in which the training runs, if it is of that kind.

    A container that was started again in its pod counts as ended: JobSet lets runtimes without a restartPolicy, such as
    Trainer's own, restart OnFailure, which would hide for minutes why a program fails.
    """
    for status in pod.get("status", {}).get("containerStatuses") or ():
        if status["name"] == NODE:
            last: Json = status.get("lastState") or {}
            states = last if status.get("restartCount") and last else status.get("state", {})
            return states.get(kind)
    return None


def has_started(pod: Json) -> bool:
    """Return True if the program has begun in the pod."""
    return state_of(pod, "running") is not None or state_of(pod, "terminated") is not None


def is_over(pod: Json) -> bool:
    """Return True if the pod has ended."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def has_ended(pod: Json) -> bool:
    """True where the program has ended, though it may have been started again."""
    return is_over(pod) or state_of(pod, "terminated") is not None


def is_taken(pod: Json) -> bool:
    """Return True if the cluster took the pod's node or room away before its program had ended by itself."""
    if pod.get("status", {}).get("phase") == "Succeeded":
        return False
    disrupted = condition(pod, "DisruptionTarget") is not None or pod.get("status", {}).get("reason") in _TAKEN
    return disrupted or "deletionTimestamp" in pod["metadata"]


def failed(pods: Iterable[Json]) -> list[Json]:
    """Pods that ended otherwise than by success, or are being taken away."""
    return [pod for pod in pods if pod.get("status", {}).get("phase") == "Failed" or _code(pod) > 0 or is_taken(pod)]


def _code(pod: Json) -> int:
    """The program's exit code; -1 where it has none."""
    return int((state_of(pod, "terminated") or {}).get("exitCode", -1))


def is_suspended(job: Json) -> bool:
    """True where a queue, such as Kueue, holds the TrainJob back, or has taken its pods away to start them later."""
    return bool(job.get("spec", {}).get("suspend")) or condition(job, "Suspended") is not None


def judge(job: Json, pods: Sequence[Json], vanished: Sequence[Json]) -> End:
    """How a failed attempt ended.

    The rank that explains the others comes first: one whose program failed before one that lost its peers or was
    killed, then the earliest.

    Args:
        job: as it is now: Trainer takes the pods away before it says that the time is up.
        vanished: pods that were at work and are not there any more.
    """
    said = condition(job, "Failed")
    if said is not None and said.get("reason") == "DeadlineExceeded":
        return End("failed", FAILED, f"the TrainJob ran for longer than max_run_seconds allows ({said['message']})")
    ends = [_end_of(pod) for pod in failed(pods)] + [_taken(pod, "is gone") for pod in vanished]
    ranked = sorted(zip(ends, (*failed(pods), *vanished), strict=True), key=lambda each: _order(*each))
    if ranked:
        return ranked[0][0]
    what = f"{said.get('reason')}: {said.get('message')}" if said is not None else "it says nothing of why"
    return End("failed", RETRY, f"the TrainJob failed, and none of its pods did ({what})")


def _order(end: End, pod: Json) -> tuple[bool, str, int]:
    ended = state_of(pod, "terminated") or {}
    return end.kind != "failed", str(ended.get("finishedAt") or "9"), rank_of(pod)


def _end_of(pod: Json) -> End:
    """How a pod ended that did not succeed."""
    ended = state_of(pod, "terminated") or {}
    code = _code(pod)
    said = str(ended.get("message") or "").strip()
    where = _where(pod)
    if ended.get("reason") == "OOMKilled":
        return End("failed", FAILED, f"{where}: out of memory (OOMKilled). Ask for more: cluster.resources.memory_gib.")
    if code > 0 and code != RETRY and code not in _KILLED:
        by = f"ended by {_SIGNALS[code]}" if code in _SIGNALS else f"exit code {code}"
        return End("failed", code, f"{where}: {said or by}")
    if is_taken(pod):
        return _taken(pod, "was taken away")
    if code in _KILLED:
        return End("interrupted", RETRY, f"{where}: ended by {_SIGNALS[code]}{f' ({said})' if said else ''}")
    return End("interrupted", RETRY, f"{where}: {said or pod.get('status', {}).get('message') or 'ended by nobody'}")


def _taken(pod: Json, how: str) -> End:
    disrupted = condition(pod, "DisruptionTarget") or {}
    why = pod.get("status", {}).get("reason") or disrupted.get("reason") or ""
    message = pod.get("status", {}).get("message") or disrupted.get("message") or ""
    words = ": ".join(word for word in (why, message) if word)
    return End("interrupted", RETRY, f"{_where(pod)} {how}{f' ({words})' if words else ''}")


def _where(pod: Json) -> str:
    return f"node {rank_of(pod)} (pod {pod['metadata']['name']})"


def why_waiting(job: Json, pods: Sequence[Json], events: Sequence[Json], nodes: int, seconds: float) -> str:
    """Why not all nodes have started, as far as anything says it.

    Args:
        seconds: since the TrainJob was made: at first it is usual that there are no pods, or that they are pending.
    """
    found: list[str] = []
    for kind in ("Failed", "Suspended"):
        if said := condition(job, kind):
            found.append(f"the TrainJob is {kind.lower()} ({said.get('reason')}: {said.get('message')})")
    if not found and is_suspended(job):
        found.append("the TrainJob is suspended")
    for pod in sorted(pods, key=rank_of):
        scheduled = condition(pod, "PodScheduled", "False")
        waiting = state_of(pod, "waiting")
        if scheduled is not None:
            found.append(f"{_where(pod)}: {scheduled.get('reason')}: {scheduled.get('message')}")
        elif waiting is not None and waiting.get("reason") not in _USUAL:
            found.append(f"{_where(pod)}: {waiting.get('reason')}: {waiting.get('message')}")
    mine = str(job["metadata"]["name"])
    latest: dict[str, str] = {}
    for event in events:
        name = str(event.get("involvedObject", {}).get("name", ""))
        if event.get("type") == "Warning" and (name == mine or name.startswith(f"{mine}-")):
            latest[f"{event['involvedObject'].get('kind')} {name}: {event.get('reason')}"] = str(event.get("message"))
    found += [f"{about}: {message}" for about, message in latest.items()]
    if not found and seconds >= USUAL_S:
        if len(pods) < nodes:
            hint = "" if pods else ". Does the Trainer's controller run?"
            found.append(f"{len(pods)} of {nodes} pods are there{hint}")
        found += [f"{_where(pod)} is Pending" for pod in pods if pod.get("status", {}).get("phase") == "Pending"]
    return "; ".join(dict.fromkeys(" ".join(each.split()).rstrip(".") for each in found))
