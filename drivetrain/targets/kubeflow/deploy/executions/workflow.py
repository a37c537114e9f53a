"""The Argo Workflow of a run: it alone says what happened to each step.

A task of the platform is several nodes. `make` is a driver (`make-driver`), a DAG (`make`) and below it `executor`,
whose pod runs the program and which is skipped where the result comes from the cache. Where a template may be retried
(with stock 2.17.0 each is) a Retry node stands above its tries, `make(0)` and `make(1)`. In a loop `(2:2)` is an
iteration. A node's name is the path to it: `chain-htljc(0).root(0).make(0).executor(0)`.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from drivetrain.targets.kubeflow.deploy.service import part, seconds

Json = Mapping[str, Any]
DRIVERS = ("system-container-driver", "system-dag-driver")
IMPORTER = "system-importer"
PROGRAM = "system-container-impl"
"""The template of pods that run programs; prefixed with `retry-` if a task has a policy of its own."""
LOG = "executor-logs"
MAX_NODES_BYTES = 64 * 1024 * 1024
_TRY = re.compile(r"\((\d+)\)")
_PHASES = {
    "Succeeded": "Succeeded",
    "Failed": "Failed",
    "Error": "Failed",
    "Skipped": "NotExecuted",
    "Omitted": "NotExecuted",
}
_LAUNCHER_FAILED = "exit code 1)"
"""The launcher hides its program's code: each failure is 1. Other codes come from the cluster."""
_SIGNALS = {
    "exit code 143)": "SIGTERM: the pod was deleted, evicted or preempted, or ran too long",
    "exit code 137)": "SIGKILL: often out of memory",
}
# Says nothing that the last try does not say.
_NO_MORE = "No more retries left"


@dataclass(frozen=True)
class Attempt:
    """One pod of a step."""

    pod: str
    node: str
    """Its node's id, by which the log address knows it."""
    number: int
    """Among the tries of its program, from 0 on."""
    is_over: bool
    pending: str | None = None
    """Why it has not begun: for which node, volume or image it waits."""
    log: str | None = None
    """URI of the program's output; `-NUMBER` follows it from 2.17.0 on."""
    namespace: str = ""
    """The namespace in which it runs."""


@dataclass(frozen=True)
class Seen:
    """The fate of a step; of a step in a loop, in one iteration. Times are seconds since the epoch."""

    status: str
    started: float | None = None
    ended: float | None = None
    messages: tuple[str, ...] = ()
    """Messages of the platform about its failure: of its last pod, then why no other came."""
    by_program: bool = False
    """The program's last lines say why it failed."""
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True)
class Workflow:
    """The parts of a Workflow that are read."""

    steps: Mapping[str, list[Seen]]
    """By the name of their task."""
    failure: str | None = None
    """The first pod that failed, also one of the platform's own, and its message; else that of the Workflow."""
    pending: str | None = None
    """A pod that has not begun, and for what it waits."""


@dataclass
class _Task:
    """The nodes of one task, without regard to how often it was tried."""

    nodes: list[Json] = field(default_factory=list[Json])
    drivers: list[Json] = field(default_factory=list[Json])
    programs: list[Json] = field(default_factory=list[Json])


def read_workflow(manifest: Json) -> Workflow | None:
    """Read a Workflow; None where it does not say what happened (it has not begun, or keeps its nodes elsewhere)."""
    status = part(manifest, "status")
    nodes = _nodes(status)
    if not nodes and not status.get("message"):
        return None
    about = part(manifest, "metadata")
    tasks: dict[str, _Task] = {}
    for node in nodes:
        _sort_in(node, tasks)
    steps: dict[str, list[Seen]] = {}
    for path, task in tasks.items():
        # The first two parts are the Workflow and its root.
        if path.count(".") > 1 and (seen := _seen(about, task)):
            steps.setdefault(path.rpartition(".")[2], []).append(seen)
    pods = [node for node in nodes if node.get("type") == "Pod"]
    failed = [node for node in pods if _status(node) == "Failed"]
    first = min(failed, key=lambda node: str(node.get("finishedAt")), default=None)
    waiting = next((node for node in pods if _pending(node)), None)
    return Workflow(
        steps,
        failure=status.get("message") if first is None else f"{_pod_of(first)}: {first.get('message') or 'failed'}",
        pending=None if waiting is None else f"{_pod_of(waiting)} is pending: {_pending(waiting)}",
    )


def _pod_of(node: Json) -> str:
    return _TRY.sub("", str(node.get("displayName")))


def _pending(node: Json) -> str | None:
    return str(node.get("message") or "no node has taken it yet") if node.get("phase") == "Pending" else None


def _nodes(status: Json) -> list[Json]:
    """The nodes, which Argo packs when the Workflow has more than 1 MB."""
    nodes: Any = status.get("nodes")
    if packed := status.get("compressedNodes"):
        try:
            unpacking = zlib.decompressobj(wbits=31)  # gzip
            text = unpacking.decompress(base64.b64decode(str(packed), validate=True), MAX_NODES_BYTES)
            nodes = json.loads(text) if unpacking.eof else None
        except (ValueError, zlib.error, RecursionError):
            nodes = None
    if not isinstance(nodes, dict):
        return []
    found = [cast("Json", node) for node in cast("dict[str, Any]", nodes).values() if isinstance(node, dict)]
    return sorted(found, key=lambda node: (str(node.get("startedAt") or ""), str(node.get("name"))))


def _sort_in(node: Json, tasks: dict[str, _Task]) -> None:
    template = str(node.get("templateName") or "")
    path = _TRY.sub("", str(node.get("name") or ""))
    if template == IMPORTER:
        return
    if template in DRIVERS:
        tasks.setdefault(path.removesuffix("-driver"), _Task()).drivers.append(node)
    elif template.endswith(PROGRAM):
        tasks.setdefault(path.rpartition(".")[0], _Task()).programs.append(node)
    elif not _is_try(node):
        tasks.setdefault(path, _Task()).nodes.append(node)


def _is_try(node: Json) -> bool:
    """True where a Retry node stands above it, which says the same and more."""
    return _TRY.sub("", str(node.get("name")).rpartition(".")[2]) != str(node.get("name")).rpartition(".")[2]


def _seen(workflow: Json, task: _Task) -> Seen | None:
    """The fate of a task; None where it has not begun."""
    # A DAG above it may have been tried again, and this task left out of that try.
    tried = [node for node in task.nodes if _status(node) != "NotExecuted"]
    if not tried and (broken := [each for each in task.drivers if _status(each) == "Failed"]):
        attempts = tuple(_attempt(workflow, each) for each in broken if each.get("type") == "Pod")
        messages = (f"its driver: {broken[-1].get('message') or 'failed'}",)
        began, ended = seconds(broken[0].get("startedAt")), seconds(broken[-1].get("finishedAt"))
        return Seen("Failed", began, ended, messages, bool(attempts), attempts)
    if not task.nodes:
        return None
    node = (tried or task.nodes)[-1]
    status = _status(node)
    pods = [each for each in task.programs if each.get("type") == "Pod"]
    if status == "Succeeded" and task.programs and not pods:
        status = "Cached"
    last = [*pods[-1:], *(each for each in task.programs[::-1] if each not in pods), node]
    told = [_plain(str(each["message"])) for each in last if each.get("message") not in (None, "", _NO_MORE)]
    return Seen(
        status,
        seconds((tried or task.nodes)[0].get("startedAt")),
        seconds(node.get("finishedAt")) if status != "Executing" else None,
        tuple(dict.fromkeys(told))[:2] if status == "Failed" else (),
        by_program=bool(pods) and str(pods[-1].get("message")).endswith(_LAUNCHER_FAILED),
        attempts=tuple(_attempt(workflow, each) for each in pods),
    )


def _plain(message: str) -> str:
    """A pod's message, with what its exit code means. `main` is the container of the program in each."""
    text = message.removeprefix("main: ")
    return next((f"{text}: {why}" for ending, why in _SIGNALS.items() if text.endswith(ending)), text)


def _status(node: Json) -> str:
    return _PHASES.get(str(node.get("phase") or ""), "Executing")


def _attempt(workflow: Json, node: Json) -> Attempt:
    id = str(node.get("id") or "")
    tries = _TRY.findall(str(node.get("name")).rpartition(".")[2])
    # As Argo names pods: https://github.com/argoproj/argo-workflows/blob/v4.0.5/workflow/util/pod_name.go
    pod = f"{workflow.get('name') or ''}-{node.get('templateName')}-{id.rpartition('-')[2]}"
    number, is_over = int(tries[-1]) if tries else 0, _status(node) != "Executing"
    namespace = str(workflow.get("namespace") or "")
    return Attempt(pod, id, number, is_over, _pending(node), _log_of(node), namespace)


def _log_of(node: Json) -> str | None:
    """The URI of the output `executor-logs`, from the executor input in the command of a pod's launcher."""
    try:
        parameters: Iterable[Json] = part(node, "inputs").get("parameters") or ()
        patch = next(each["value"] for each in parameters if each["name"] == "pod-spec-patch")
        command: list[str] = json.loads(patch)["containers"][0]["command"]
        given = json.loads(command[command.index("--executor_input") + 1])
        return str(given["outputs"]["artifacts"][LOG]["artifacts"][0]["uri"])
    except (StopIteration, ValueError, LookupError, TypeError):
        return None  # a version before 2.5.0, or one that hands it over in another way
