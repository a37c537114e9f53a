"""A training on several nodes, seen from its task: a TrainJob is created, followed to its end, and cleaned up after.

The first run of the task creates the TrainJob. Another run of it (KFP retries a task whose pod was lost) finds the
TrainJob by its labels and goes on following it. Failures are handled here and not by the runtime, because a TrainJob
cannot set the restart policy of its JobSet and Job: the first pod that does not succeed ends the attempt. The TrainJob
is deleted with all its pods. If the cluster is the reason (a node was taken away), the next attempt goes on from the
checkpoints. That is done here, since Kubeflow Pipelines by default does not retry a program.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import cast

from drivetrain.base.errors import FAILED, RETRY
from drivetrain.steps.kubeflow.cluster_api import ClusterApi, ConflictError, ForbiddenError, NotThereError
from drivetrain.steps.kubeflow.own_pod import OwnPod
from drivetrain.steps.kubeflow.pod_log import PodLog
from drivetrain.steps.kubeflow.program import Log, tell
from drivetrain.steps.kubeflow.reasons import (
    End,
    condition,
    failed,
    has_ended,
    has_started,
    is_over,
    is_suspended,
    judge,
    rank_of,
    why_waiting,
)
from drivetrain.steps.kubeflow.task import Json, RetryError, Task, TaskError
from drivetrain.steps.kubeflow.train_job import BEGAN, NODE, TRAINJOBS, Identity, attempt_of, manifest, num_nodes

POLL_S = 3.0
# After a pod has failed: for the others to say why, which may know better.
SETTLE_S = 15.0
LOG_S = 60.0
# A cancelled task has 30 s until it is killed.
CANCEL_S = 15.0
# Beside the pods' own grace: until a pod of a lost node counts as gone. The checkpoints' lock fences it off.
GONE_S = 60.0
# Looks without a pod of a deleted TrainJob, a pause apart: Trainer may start them anew by what it knew before.
LOOKS = 2
REPEATS = 3
_JOBSET = "jobset.sigs.k8s.io/jobset-name"
_PODS = f"jobset.sigs.k8s.io/replicatedjob-name={NODE}"


class StoppedError(Exception):
    """The task was told to stop."""


class Nodes:
    """The training of a task, on the nodes of a TrainJob.

    Args:
        log: takes the lines of rank 0's log.
        say: takes what happens, a line each.
        poll: seconds between two looks; POLL_S unless given.
        settle: seconds after a failure until it is judged; SETTLE_S unless given.
    """

    def __init__(
        self,
        task: Task,
        log: Log,
        say: Callable[[str], None],
        *,
        poll: float | None = None,
        settle: float | None = None,
    ) -> None:
        self.task, self.log, self.say = task, log, say
        self.poll = POLL_S if poll is None else poll
        self.settle = SETTLE_S if settle is None else settle
        self.told: Json = task.document["train_job"]
        self.identity = Identity.of(task)
        self.repeats = int(self.told.get("repeats", REPEATS))
        self.stop = threading.Event()
        self.stopped_by = signal.SIGTERM
        self.api = ClusterApi(away=self.stop.wait)
        self.own_pod = OwnPod(self.api)

    def run(self) -> End:
        """From the first TrainJob, or the existing one, to the end.

        Raises:
            TaskError: the cluster refuses what the training needs; nothing is left behind.
            RetryError: the API is away, and the TrainJob goes on: another attempt of the task follows it.
        """
        before = {each: signal.signal(each, self._told_to_stop) for each in (signal.SIGTERM, signal.SIGINT)}
        try:
            return self.followed_to_its_end()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def followed_to_its_end(self) -> End:
        """The same without signals; `stop` stops it."""
        try:
            return self._run()
        except StoppedError:
            return self._cancel()
        except RetryError:
            if self.stop.is_set():
                return self._cancel()
            raise
        except TaskError:
            self._leave_nothing()
            raise

    def _run(self) -> End:
        self.own_pod.look()
        self.api.get("events", limit="1")  # a missing right is told before anything is made
        job, attempt, began = self._found(), 0, time.time()
        if job is not None:
            attempt, began = attempt_of(job), float(job["metadata"]["annotations"][BEGAN])
            if condition(job, "Failed") and judge(job, self._pods(_name(job)), ()).code == RETRY:
                # Its end was told by the task's attempt that followed it; this one is to try again.
                self._clean_up(job, End("interrupted"), again=True)
                job, attempt = None, attempt + 1
            else:
                self.say(f"TrainJob {_name(job)} is there already: following it")
        while True:
            if job is None:
                job = self._created(attempt, began)
                self.say(f"TrainJob {_name(job)} is created: numNodes {num_nodes(self.task)}")
            end = self._followed(job)
            limit: float | None = self.told.get("restart_seconds")
            again = end.kind == "interrupted" and (self.repeats > 0 if limit is None else time.time() < began + limit)
            self.repeats -= again
            if end.kind == "interrupted" and limit is not None and not again:
                end = End("failed", FAILED, f"{end.reason}; the training has taken {limit} s with interruptions")
            self._clean_up(job, end, again=again)
            if not again:
                return end
            self.say(f"interrupted: {end.reason}. All nodes start again from the newest checkpoint")
            job, attempt = None, attempt + 1

    def _jobs(self) -> list[Json]:
        return cast("list[Json]", self.api.get(TRAINJOBS, labelSelector=self.identity.selector)["items"])

    def _found(self) -> Json | None:
        """The newest TrainJob that an earlier attempt of the task has made; none that is being deleted."""
        there = [job for job in self._jobs() if "deletionTimestamp" not in job["metadata"]]
        return max(there, key=attempt_of, default=None)

    def _created(self, attempt: int, began: float) -> Json:
        """A new TrainJob; the existing one if the answer to an earlier request was lost."""
        self._wait_until_gone()
        made = manifest(self.task, attempt, began=began, run=self.own_pod.run, owners=self.own_pod.owners)
        while True:
            try:
                return self.api.create(TRAINJOBS, made)
            except ConflictError:
                there = self._again(made)
                if "uid" in there["metadata"] and "deletionTimestamp" not in there["metadata"]:
                    return there
            self._pause()

    def _followed(self, job: Json) -> End:
        """Look at a TrainJob until it has ended, or something of it has failed."""
        name, nodes = _name(job), num_nodes(self.task)
        begun = time.monotonic()
        seen: dict[str, Json] = {}
        preempted: set[str] = set()
        started, said, settled_at, log = False, "", 0.0, None
        try:
            while True:
                try:
                    job = self.api.get(f"{TRAINJOBS}/{name}")
                except NotThereError:
                    return End("failed", FAILED, f"the TrainJob {name} was deleted while it was followed")
                pods = [pod for pod in self._pods(name) if pod["metadata"]["uid"] not in preempted]
                if is_suspended(job):  # its pods are taken away, and others come
                    preempted |= {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" in pod["metadata"]}
                    seen, started, settled_at, begun = {}, False, 0.0, time.monotonic()
                    if log is not None:  # reads on by itself to the end of the pod
                        log.finish(0)
                        log = None
                    said = self._say_why(job, why_waiting(job, (), (), nodes, 0.0), said)
                    self._pause()
                    continue
                there = {pod["metadata"]["uid"] for pod in pods}
                vanished = [pod for uid, pod in seen.items() if uid not in there and not has_ended(pod)]
                seen |= {pod["metadata"]["uid"]: pod for pod in pods}
                first = next((pod for pod in pods if rank_of(pod) == 0 and has_started(pod)), None)
                if log is None and first is not None:
                    log = PodLog(self.api, first["metadata"]["name"], self.log.take)
                    log.start()
                if log is not None and log.error is not None:
                    raise log.error
                if condition(job, "Complete") is not None:
                    return self._complete(log)
                if failed(pods) or vanished or condition(job, "Failed") is not None:
                    is_first, settled_at = not settled_at, settled_at or time.monotonic() + self.settle
                    if not is_first and (time.monotonic() >= settled_at or (pods and all(map(has_ended, pods)))):
                        if log is not None and first is not None and is_over(first):
                            log.finish(LOG_S)
                        if not is_suspended(job := self._again(job)):
                            return judge(job, pods, vanished)
                elif not started:
                    started = len(pods) >= nodes and all(map(has_started, pods))
                    waited, most = time.monotonic() - begun, self.told["start_seconds"]
                    if started:
                        self.say(f"TrainJob {name}: all nodes have started")
                    elif waited >= float(most):
                        why = why_waiting(job, pods, self._warnings(), nodes, math.inf)
                        return End("failed", RETRY, f"the TrainJob {name} has not started within {most} s: {why}")
                    else:
                        said = self._say_why(job, why_waiting(job, pods, self._warnings(), nodes, waited), said)
                self._pause()
        finally:
            if log is not None:
                log.finish(0)

    def _say_why(self, job: Json, why: str, said: str) -> str:
        """Say why a TrainJob waits, where that is not what was said before; gives what is said now."""
        if why and why != said:
            self.say(f"TrainJob {_name(job)} waits: {why}")
        return why or said

    def _complete(self, log: PodLog | None) -> End:
        if log is not None and not log.finish(LOG_S):
            self.say(f"warning: the end of rank 0's log did not come within {LOG_S:.0f} s")
        return End("done")

    def _pods(self, name: str) -> list[Json]:
        return cast("list[Json]", self.api.get("pods", labelSelector=f"{_JOBSET}={name},{_PODS}")["items"])

    def _warnings(self) -> list[Json]:
        return cast("list[Json]", self.api.get("events", fieldSelector="type=Warning", limit="500")["items"])

    def _clean_up(self, job: Json, end: End, *, again: bool) -> None:
        """Delete a TrainJob that has ended, unless it is to be kept; one that another follows in any case."""
        keep = self.told.get("keep", "never")
        ended = condition(job := self._again(job), "Complete") or condition(job, "Failed")
        if not again and ended is not None and (keep == "always" or (keep == "failed" and end.kind != "done")):
            self.say(f"TrainJob {_name(job)} is kept")
            return
        self.api.delete(f"{TRAINJOBS}/{_name(job)}")

    def _again(self, job: Json) -> Json:
        try:
            return self.api.get(f"{TRAINJOBS}/{_name(job)}")
        except NotThereError:
            return job

    def _wait_until_gone(self) -> None:
        """Until the task has no TrainJob and no pod of one any more, for the pods' own grace and a little more."""
        deadline = time.monotonic() + self._grace() + GONE_S
        ours, looks = self.identity.name(0).removesuffix("0"), 0
        while looks < LOOKS and time.monotonic() < deadline:
            pods = cast("list[Json]", self.api.get("pods", labelSelector=_PODS)["items"])
            left = any(pod["metadata"]["labels"].get(_JOBSET, "").startswith(ours) for pod in pods) or self._jobs()
            looks = 0 if left else looks + 1
            if looks < LOOKS:
                self._pause()

    def _grace(self) -> float:
        for patch in self.told["spec"].get("runtimePatches", ()):
            for job in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
                pod: Json = job["template"]["spec"]["template"]["spec"]
                return float(pod.get("terminationGracePeriodSeconds", 30))
        return 30.0

    def _cancel(self) -> End:
        """Delete what was made, unless the task itself is only moved to another node."""
        number = self.stopped_by
        self.api = ClusterApi(patience=CANCEL_S)
        if OwnPod(self.api).is_taken():
            self.say("this pod is taken away: the TrainJob goes on, and the task's next attempt follows it")
            return End("failed", 128 + number, f"its pod was taken away by {number.name}")
        self._delete_all(f"the task was stopped by {number.name}")
        return End("failed", 128 + number, f"stopped by {number.name}")

    def _leave_nothing(self) -> None:
        """After a refusal; what may not even be deleted is named by the refusal that follows."""
        try:
            self._delete_all("what the training needs is refused")
        except ForbiddenError as error:
            self.say(f"warning: the TrainJobs with the label {self.identity.selector} could not be deleted: {error}")

    def _delete_all(self, why: str) -> None:
        for job in self._jobs():
            self.api.delete(f"{TRAINJOBS}/{_name(job)}")
            self.say(f"TrainJob {_name(job)} is deleted: {why}")

    def _told_to_stop(self, number: int, frame: FrameType | None) -> None:
        self.stopped_by = signal.Signals(number)
        self.stop.set()

    def _pause(self) -> None:
        if self.stop.wait(self.poll):
            raise StoppedError


def _name(job: Json) -> str:
    return str(job["metadata"]["name"])


def train_on_nodes(task: Task, log: Log) -> End:
    """Run the task's training on the nodes of a TrainJob; see `Nodes`."""
    return Nodes(task, log, lambda text: tell(f"trainjob: {text}")).run()
