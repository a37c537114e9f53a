"""The TrainJob (Kubeflow Trainer v2) of a training on several nodes: its name, labels and manifest.

The compiler wrote the spec into the task's document, `train_job`:

    spec                     the TrainJob's spec, without what only the task knows
    start_seconds            how long all nodes may take to start
    restart_seconds          how long the training may take with interruptions, however many there are
    repeats                  how many interruptions there may be otherwise; 3 unless given
    keep                     whether a TrainJob stays after its end: never, failed, always
    labels, annotations      of the TrainJob, beside ours; none unless given

https://github.com/kubeflow/trainer/blob/master/pkg/apis/trainer/v1alpha1/trainjob_types.go
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from drivetrain.steps.kubeflow.task import DOCUMENT, Json, Task, TaskError

API_VERSION, KIND = "trainer.kubeflow.org/v1alpha1", "TrainJob"
TRAINJOBS = f"{API_VERSION}:trainjobs"
TASK, STEP, RUN, ATTEMPT = "drivetrain/task", "drivetrain/step", "drivetrain/run", "drivetrain/attempt"
BEGAN = "drivetrain/began"
MANAGER = "app.kubernetes.io/managed-by"
# A pod's host name is the TrainJob's name, `-node-0-` and its number, and has at most 63 characters.
LONGEST_STEP = 24
LONGEST_ARGUMENT = 65_536
# The replicated job and the container of Trainer's runtimes in which a training runs.
NODE = "node"


@dataclass(frozen=True)
class Identity:
    """The key by which the TrainJobs of a task are known, also to the task's next attempt.

    Args:
        digest: of the step and the place of its outputs, which is another one in each run and each iteration of a
            loop, and the same for all attempts of a task.
    """

    step: str
    digest: str

    @staticmethod
    def of(task: Task) -> Identity:
        """A task's."""
        places = sorted(str(artifact["uri"]) for artifact in task.made.values())
        digest = hashlib.sha256(json.dumps([task.step, places]).encode()).hexdigest()[:16]
        return Identity(task.step, digest)

    @property
    def selector(self) -> str:
        """The selector of all TrainJobs of the task."""
        return f"{TASK}={self.digest}"

    def name(self, attempt: int) -> str:
        """A TrainJob's name: the same each time that the same attempt is created."""
        step = re.sub(r"[^a-z0-9]+", "-", self.step.lower()).strip("-")[:LONGEST_STEP].rstrip("-")
        if not step[:1].isalpha():
            step = f"t-{step}".rstrip("-")
        return f"{step}-{self.digest[:10]}-{attempt}"

    def labels(self, attempt: int, run: str) -> dict[str, str]:
        """A TrainJob's labels.

        Args:
            run: the run's id, for people; empty where it is not known.
        """
        return {
            MANAGER: "drivetrain",
            TASK: self.digest,
            STEP: _label(self.step),
            RUN: _label(run),
            ATTEMPT: str(attempt),
        }


def _label(text: str) -> str:
    """A text as a label's value."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:63].strip("-_.")


def manifest(task: Task, attempt: int, *, began: float, run: str, owners: list[Json]) -> Json:
    """The TrainJob of an attempt, as it is sent to the API.

    Args:
        began: when the first attempt was made (seconds since the epoch); later ones are measured from there.
        run: the run's id.
        owners: references to what the TrainJob ends with, such as the run's Workflow.

    Raises:
        TaskError: the task's executor input is too long for a pod's argument.
    """
    identity = Identity.of(task)
    if len(task.executor_input) > LONGEST_ARGUMENT:
        raise TaskError(
            f"the task's executor input has {len(task.executor_input):,} characters, and an argument of a TrainJob has "
            f"at most {LONGEST_ARGUMENT:,}. Give the step fewer or shorter parameters."
        )
    spec = cast(Json, copy.deepcopy(task.document["train_job"]["spec"]))
    told: Json = task.document["train_job"]
    trainer: Json = spec["trainer"]
    trainer["args"] = [*trainer["args"], _literal(task.executor_input)]
    trainer["env"] = [*trainer.get("env", []), {"name": DOCUMENT, "value": _for_nodes(task.document)}]
    metadata: Json = {
        "name": identity.name(attempt),
        "labels": {**told.get("labels", {}), **identity.labels(attempt, run)},
        "annotations": {**told.get("annotations", {}), BEGAN: f"{began:.0f}"},
    }
    if owners:
        metadata["ownerReferences"] = owners
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def _for_nodes(document: Mapping[str, Any]) -> str:
    """The document as the nodes' programs get it: without what the task alone does."""
    kept = {name: value for name, value in document.items() if name not in ("train_job", "logs", "logged", "retries")}
    return _literal(json.dumps(kept, ensure_ascii=False, sort_keys=True, separators=(",", ":")))


def _literal(text: str) -> str:
    """JSON in which Kubernetes, which expands `$(NAME)` and `$$` in arguments and variables, finds nothing."""
    return text.replace("$", "\\u0024")


def num_nodes(task: Task) -> int:
    """How many nodes the task's TrainJob has."""
    return int(task.document["train_job"]["spec"]["trainer"]["numNodes"])


def attempt_of(job: Mapping[str, Any]) -> int:
    """The number of the attempt of its task that a TrainJob is."""
    return int(job["metadata"]["labels"][ATTEMPT])
