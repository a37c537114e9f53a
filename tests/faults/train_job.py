"""A training on two nodes whose pods, task, token and Kubernetes API fail: each sample once, nothing left behind.

The pods really run, and so does the task; the API is a stand-in. The program takes samples one after the other and
commits each, as a training commits checkpoints, and notices another process of its rank that is at work beside it.
Violations: a sample that is missing or taken twice in what was committed, two pods of one rank at once, a TrainJob or a
process that stays, a second TrainJob while one is there, an end that is not the one to expect, or tells no reason; an
attempt after one that failed for good that trains once more.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.steps import FRESH_PARAMETER, NOT_FRESH
from drivetrain.training.launch.processes.parent import follows_parent
from tests.faults.harness.families import Found, Trial
from tests.faults.harness.killing import ROOT

if TYPE_CHECKING:
    from tests.fixtures.kubernetes_server import Cluster
    from tests.fixtures.local_pods import LocalPods

FAULT = "pods evicted, task killed, API 5xx/429/away, token renewed, cancelled: each sample once, nothing left"
TRIALS, QUICK, AT_ONCE = 60, 1, 2
PATIENCE_S = 180.0
SAMPLES = 12
_WINDOW_S = 90.0
_STATUS = (500, 503, 429, "drop", "lost")

PROGRAM = """
import fcntl, json, os, pathlib, signal, sys, time
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
rank, place = os.environ["PET_NODE_RANK"], pathlib.Path(words["--place"])
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
lock = open(place / f"lock-{rank}", "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    (place / "two-at-once").write_text(rank)
    sys.exit(3)
def committed(rank):
    state = place / f"rank-{rank}.json"
    return json.loads(state.read_text()) if state.exists() else []
state = place / f"rank-{rank}.json"
taken = committed(rank)
for sample in range(len(taken), int(words["--samples"])):
    if words["--fails"] == f"{rank}:{sample}":
        pathlib.Path(os.environ["DRIVETRAIN_FAILURE_FILE"]).write_text("the sample is bad")
        sys.exit(1)
    time.sleep(0.02)
    while not stopped and len(committed(1 - int(rank))) < sample:  # as ranks wait in a collective
        time.sleep(0.01)
    taken.append(sample)
    part = state.with_suffix(".part")
    part.write_text(json.dumps(taken))
    part.replace(state)
    print(f"done={len(taken)}", flush=True)
    if stopped:
        time.sleep(float(words["--saves"]))  # as a save takes
        sys.exit(75)
pathlib.Path(words["--model"], "taken.json").write_text(json.dumps(taken))
"""


@dataclass(frozen=True)
class Shared:
    """What all trials have: the compiled task and its code in storage."""

    bucket: str
    code: str
    document: dict[str, Any]
    s3: dict[str, str]


def prepare(folder: Path) -> Shared:
    from drivetrain import Cluster, Pipeline, Spot, step
    from drivetrain.components.train import train
    from drivetrain.spec.deployment import Deployment
    from tests.fixtures.kubeflow_tasks import compiled, document_of, put_assets
    from tests.fixtures.s3_server import make_bucket, s3_server, variables

    s3 = variables(s3_server())
    os.environ.update(s3)
    bucket = make_bucket(s3["AWS_ENDPOINT_URL_S3"])
    source = folder / "source"
    source.mkdir()
    (source / "own.py").write_text(PROGRAM)
    settings = {"root": f"s3://{bucket}/pipelines", "s3_endpoint": s3["AWS_ENDPOINT_URL_S3"]}
    fit = step(
        train,
        name="fit",
        train=f"s3://{bucket}/none",
        recipe="own.py",  # so that it is in the archive, from where the task starts it
        cluster=Cluster(count=2, spot=Spot(max_wait_seconds=86_400)),
    )
    found = compiled(
        Pipeline(name="faults", steps=[fit], deployment=Deployment(targets={"kubeflow": settings})), source
    )
    return Shared(bucket, put_assets(found), document_of(found, "fit"), s3)


def trial(given: Trial, shared: Shared) -> Found:
    from tests.fixtures.kubernetes_server import kubernetes
    from tests.fixtures.local_pods import LocalPods

    with kubernetes() as cluster:
        pods = LocalPods(cluster, _made(given.folder / "pods"), shared.s3, grace_s=5.0)
        try:
            return _Trial(given, shared, cluster, pods).run()
        finally:
            pods.close()


class _Trial:
    def __init__(self, given: Trial, shared: Shared, cluster: Cluster, pods: LocalPods) -> None:
        self.given, self.shared, self.cluster, self.pods = given, shared, cluster, pods
        self.draw = given.draw
        self.place = _made(given.folder / "place")
        self.did: Counter[str] = Counter()
        self.violations: list[str] = []
        # The end of the training: as a rule it succeeds.
        self.ending = self.draw.choice(("done", "done", "done", "cancelled", "fails"))
        self.fails = f"{self.draw.randrange(2)}:{self.draw.randrange(SAMPLES)}" if self.ending == "fails" else ""
        self.saves = self.draw.choice(("0", "3"))
        self.attempt = 0

    def run(self) -> Found:
        self._change_the_weather()
        task = self._start()
        try:
            for _ in range(self.draw.randrange(1, 4)):
                kind = self.draw.choice(("evicted", "evicted", "task killed", "away", "token"))
                if not self._reaches(self.draw.randrange(SAMPLES - 2), task):
                    break
                task = getattr(self, f"_{kind.replace(' ', '_')}")(task)
                self.did[kind] += 1
            if self.ending == "cancelled" and self._reaches(self.draw.randrange(SAMPLES - 1), task):
                task.send_signal(signal.SIGTERM)
                self.did["cancelled"] += 1
            self._judge(self._end_of(task))
        finally:
            task.kill()
            task.wait()
        return Found(self.violations, dict(self.did))

    def _judge(self, code: int | None) -> None:
        stopped = self.did["cancelled"] > 0
        expected = {143, 0} if stopped else {1} if self.fails else {0}
        said = self._said()
        if code not in expected:
            self.violations.append(f"ended with {code} and not with {expected}: {said[-600:]}")
        if code == 1 and "the sample is bad" not in said:
            self.violations.append(f"no reason: {said[-300:]}")
        if (self.place / "two-at-once").exists():
            self.violations.append("two pods of one rank were at work at once")
        self._look_at_samples(code)
        self._look_for_leftovers()
        made = len(self.cluster.created)
        if code == 1:  # the platform tries it again, whatever it failed of
            again = self._end_of(self._start())
            if again != 2 or "an earlier attempt failed" not in self._said() or len(self.cluster.created) != made:
                self.violations.append(f"what cannot succeed was tried again: {again}")
        self.did["restarts"] += made - 1

    def _look_at_samples(self, code: int | None) -> None:
        from drivetrain.steps.kubeflow import objects

        for rank in range(2):
            state = self.place / f"rank-{rank}.json"
            taken = json.loads(state.read_text()) if state.exists() else []
            if taken != list(range(len(taken))) or (code == 0 and len(taken) != SAMPLES):
                self.violations.append(f"rank {rank} has taken {taken}")
        model = objects.read(f"{self._outputs}/model/taken.json")
        if code == 0 and model != json.dumps(list(range(SAMPLES))).encode():
            self.violations.append(f"the model is {model!r}")

    def _look_for_leftovers(self) -> None:
        try:
            self.cluster.wait(lambda: not self.cluster.jobs and not self.pods.at_work, 30)
        except AssertionError:
            self.violations.append(f"left behind: {list(self.cluster.jobs)}, {self.pods.at_work}")

    @property
    def _outputs(self) -> str:
        return f"s3://{self.shared.bucket}/run/{self.given.seed}-{self.given.number}/fit"

    def _start(self) -> subprocess.Popen[bytes]:
        """The task, as KFP starts it and starts it again."""
        words = [{"option": ["--model", {"output": "model"}]}, "--place", str(self.place)]
        words += ["--samples", str(SAMPLES), "--fails", self.fails or "none", "--saves", self.saves]
        told = {**self.shared.document, "program": "script:own.py", "arguments": words}
        uris = {name: f"{self._outputs}/{name}" for name in ("model", "output")}
        given = {
            "inputs": {
                "artifacts": {"code": {"artifacts": [{"uri": self.shared.code}]}},
                "parameterValues": {FRESH_PARAMETER: NOT_FRESH},
            },
            "outputs": {
                "artifacts": {name: {"artifacts": [{"name": name, "uri": uri}]} for name, uri in uris.items()},
                "outputFile": str(self.given.folder / "executor_output.json"),
            },
        }
        self.attempt += 1
        own = {"DRIVETRAIN_TASK": json.dumps(told), "DRIVETRAIN_COPIES": str(_made(self.given.folder / "copies"))}
        own |= {"PYTHONPATH": str(ROOT), "KFP_POD_NAME": ""}
        with (self.given.folder / f"task-{self.attempt}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.faults.harness.kubeflow_task", json.dumps(given)],
                env={"PATH": os.environ["PATH"], **self.shared.s3, **self.cluster.variables, **own},
                cwd=ROOT,
                stdout=log,
                stderr=log,
                preexec_fn=follows_parent(signal.SIGKILL),
            )

    def _said(self) -> str:
        return (self.given.folder / f"task-{self.attempt}.log").read_text(errors="replace")

    def _end_of(self, task: subprocess.Popen[bytes]) -> int | None:
        """Its exit code; KFP starts it again where it says that another attempt may help."""
        while True:
            try:
                code = task.wait(_WINDOW_S)
            except subprocess.TimeoutExpired:
                return None
            if code != 75 or self.attempt > 6:
                return code
            self.did["tried again"] += 1
            task = self._start()

    def _reaches(self, sample: int, task: subprocess.Popen[bytes]) -> bool:
        """Wait until either rank has committed so many samples; False where the task ended before."""
        ended = threading.Event()

        def look() -> None:
            task.wait()
            ended.set()
            self.cluster.changes()

        threading.Thread(target=look, daemon=True).start()

        def reached() -> bool:
            if ended.is_set() or sample == 0:
                return True
            lines = (line for lines in self.cluster.logs.values() for _, line in lines)
            return any(line.startswith("done=") and int(line[5:]) >= sample for line in lines)

        self.cluster.wait(reached, _WINDOW_S)
        return not ended.is_set()

    def _evicted(self, task: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        with self.cluster.lock:
            at_work = self.pods.at_work
            if at_work:
                number = self.draw.choice((signal.SIGKILL, signal.SIGTERM))
                self.pods.evict(self.draw.choice(at_work), number)
        return task

    def _task_killed(self, task: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        task.kill()
        task.wait()
        task, known = self._start(), len(self.cluster.requests)
        # One that is stopped before it has begun leaves the TrainJob to the run's end, of which it is a part.
        self.cluster.wait(lambda: len(self.cluster.requests) > known or task.poll() is not None)
        return task

    def _away(self, task: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """The API is away for a while: for longer, now and then, than the task waits for one request."""
        before, self.cluster.weather = self.cluster.weather, lambda method, path: "drop"
        asked = len(self.cluster.requests) + self.draw.randrange(2, 8)
        self.cluster.wait(lambda: len(self.cluster.requests) >= asked or task.poll() is not None)
        self.cluster.weather = before
        return task

    def _token(self, task: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        self.cluster.renew_token()
        return task

    def _change_the_weather(self) -> None:
        rate, draw, lock = self.draw.choice((0.0, 0.05, 0.3)), random.Random(self.draw.random()), threading.Lock()

        def weather(method: str, path: str) -> Any:
            with lock:
                if draw.random() >= rate:
                    return None
                fault = draw.choice((*_STATUS, "cut") if path.endswith("/log") else _STATUS)
            self.did[f"API {fault}"] += 1
            return fault

        self.cluster.weather = weather


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
