"""A model to register, the ways to do it, and processes that do it and are killed: at the nth line of Python that they
run, wherever that is, or after some time, which also hits what is no Python (a commit, an answer on its way)."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import random
import signal
import sys
import tarfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

from drivetrain.components.register_model import register_model
from drivetrain.registry import model_package
from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.package_mapping import request_of
from drivetrain.registry.registry import open_registry
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from drivetrain.training.launch.processes.parent import follows_parent
from tests.fixtures.local_runs import BUCKET, LocalRuns
from tests.fixtures.mlflow_server import VARIABLES as MLFLOW_VARIABLES
from tests.fixtures.reports import hashed
from tests.fixtures.sagemaker_server import new_region, sagemaker_variables

# Imported once for all forks: else nearly every instant of a registration would be one of an import.
for _name in ("botocore.config", "boto3.session", "mlflow.tracking", "mlflow.store.model_registry.rest_store"):
    importlib.import_module(_name)

GROUP = "digits"
METRICS = {"accuracy": 0.98, "loss": 1 / 3, **{f"accuracy_class_{n}": n / 7 for n in range(10)}}
WAYS = ("component", "step", "sagemaker", "kubeflow", "mlflow")


@dataclass(frozen=True)
class Files:
    """A model as a folder and packed, and what was found out about it."""

    folder: Path
    content_hash: str

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def decision(self) -> dict[str, Any]:
        return json.loads((self.folder / "decision" / "decision.json").read_text())


@dataclass(frozen=True)
class Place:
    """Where one trial registers, and how."""

    way: str
    url: str
    environment: dict[str, str]
    register: Callable[[], None]
    """What is killed."""
    beside: Callable[[], None]
    """What registers the same content at the same time."""


def make_files(folder: Path) -> Files:
    model, report, decision = folder / "model", folder / "report", folder / "decision"
    for each in (model / "code", report, decision):
        each.mkdir(parents=True)
    description = {"format": 1, "recipe": "digits_cnn", "training": {"epochs": 3}, "data": {"content_hash": "d" * 64}}
    (model / "model.json").write_text(json.dumps(description))
    (model / "model.safetensors").write_bytes(bytes(range(256)) * 400)
    (model / "code" / "inference.py").write_text("def model_fn(folder): ...\n")
    known = content_hash(model)
    metrics = {name: {"value": value} for name, value in METRICS.items()}
    data = {"content_hash": "e" * 64}
    measured = hashed({"num_samples": 360, "model": {"content_hash": known}, "data": data, "metrics": metrics})
    (report / "evaluation.json").write_text(json.dumps(measured))
    (report / "model_quality.json").write_text('{"multiclass_classification_metrics": {}}')
    decided = {"format": 1, "verdict": "register", "why": ["it is better"] * 50, "candidate": {"content_hash": known}}
    (decision / "decision.json").write_text(json.dumps(decided))
    with tarfile.open(folder / "model.tar.gz", "w:gz") as archive:
        archive.add(model, arcname=".")
    return Files(folder, known)


def local_place(way: str, files: Files, folder: Path) -> Place:
    """A home of this trial's own."""
    runs = LocalRuns(folder)
    runs.home.root.mkdir(parents=True)
    url = f"local:{runs.home.ledger}"
    if way == "component":
        return Place(way, url, {}, lambda: _by_component(files, url, GROUP), lambda: _by_component(files, url, GROUP))
    text = _definition(runs, files)
    return Place(way, url, {}, lambda: _by_step(runs, text), lambda: _by_component(files, url, GROUP))


def served_place(way: str, files: Files, address: str, draw: random.Random) -> Place:
    """A region, or a group, of this trial's own on a server of this process."""
    if way == "sagemaker":
        environment = sagemaker_variables(address)
        url = f"sagemaker:{new_region(forgets_tokens=draw.random() < 0.5)}"
    else:
        environment, url = dict(MLFLOW_VARIABLES), f"{way}:{address}"
    group = GROUP if way == "sagemaker" else f"{GROUP}-{os.urandom(6).hex()}"

    def register() -> None:
        _by_component(files, url, group)

    return Place(way, f"{url}#{group}", environment, register, register)


def _by_component(files: Files, url: str, group: str) -> None:
    register_model(
        files.model,
        None,
        files.folder / "report",
        files.folder / "decision",
        group=group,
        registry=url,
        artifact="s3://models/model.tar.gz",
        execution="run-1",
    )


def _definition(runs: LocalRuns, files: Files) -> str:
    uris = {
        name: runs.put(f"run/{name}", (files.folder / name).read_bytes())
        for name in ("model.tar.gz", "report/evaluation.json", "report/model_quality.json", "decision/decision.json")
    }
    statistics = {"ContentType": "application/json", "S3Uri": uris["report/model_quality.json"]}
    step = {
        "Name": "register",
        "Type": "RegisterModel",
        "Arguments": {
            "ModelPackageGroupName": GROUP,
            "InferenceSpecification": {"Containers": [{"Image": "i", "ModelDataUrl": uris["model.tar.gz"]}]},
            "ModelMetrics": {"ModelQuality": {"Statistics": statistics}},
            "CustomerMetadataProperties": {
                model_package.CONTENT_HASH: files.content_hash,
                model_package.DECISION_URI: f"{BUCKET}/run/decision/decision.json",
            },
        },
    }
    return runs.text([step])


def _by_step(runs: LocalRuns, text: str) -> None:
    options = Options(pipeline="registration", max_parallel=1)
    runner = Runner(runs.home)
    interrupted = runner.find_interrupted(text, {}, options)
    summary = runner.start(text, {}, options) if interrupted is None else runner.resume(interrupted)
    assert summary.status == "Succeeded", summary.reason


def found_wrong(place: Place, files: Files) -> list[str]:
    """What is not as exactly one whole registration leaves it."""
    url, _, group = place.url.partition("#")
    with mock.patch.dict(os.environ, place.environment):
        registry = open_registry(url)
        versions = registry.versions(group or GROUP)
        events = (
            [(event.version, event.previous_status) for event in registry.events()] if registry.keeps_history else None
        )
    said: list[str] = []
    if events not in (None, [(1, None)]):
        said.append(f"events {events}")
    if len(versions) != 1:
        said.append(f"{len(versions)} versions: {[version.version for version in versions]}")
    for version in versions:
        if {version.content_hash, model_package.content_hash(request_of(version.record))} != {files.content_hash}:
            said.append(f"version {version.version} has content {version.content_hash}")
        expected = {**METRICS, "num_samples": 360}
        if not version.metrics == model_package.metrics(request_of(version.record)) == expected:
            said.append(f"version {version.version} has metrics {version.metrics}")
        if version.decision != files.decision:
            said.append(f"version {version.version} has decision {version.decision}")
        if version.lineage.get("test-data") != "e" * 64 or not version.artifact:
            said.append(f"version {version.version} has lineage {version.lineage}, artifact {version.artifact!r}")
    return said


class Process:
    """A fork that does `work` and is killed by itself at line `line`, or by us after `seconds`; 0: never."""

    def __init__(
        self, work: Callable[[], None], place: Place, log: Path, *, line: int = 0, seconds: float = 0.0
    ) -> None:
        self.log, self.line, self.seconds = log, line, seconds
        self.began = time.monotonic()
        follow = follows_parent(signal.SIGKILL)
        self.pid = os.fork()
        if self.pid == 0:
            follow()
            _child(work, place, log, line)

    def wait(self) -> bool:
        """Whether it was killed.

        Raises:
            AssertionError: it ended in another way than well.
        """
        if self.seconds:
            time.sleep(max(0.0, self.began + self.seconds - time.monotonic()))
            os.kill(self.pid, signal.SIGKILL)
        status = os.waitpid(self.pid, 0)[1]
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return True
        assert status == 0, f"a registration that was not killed ended with {status}: {self.log.read_text()[-1500:]}"
        return False


def _child(work: Callable[[], None], place: Place, log: Path, line: int) -> None:
    code = 1
    try:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ.update(place.environment)
        if line:
            trace = _tracing(place.way, lambda count: os.kill(os.getpid(), signal.SIGKILL) if count == line else None)
            threading.settrace(trace)
            sys.settrace(trace)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.settrace(None)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _tracing(way: str, at: Callable[[int], None]) -> Callable[[FrameType, str, Any], Any]:
    """Tells of each line, by its number from 1. Where there is a server, of those that ask it and that wait for it: the
    rest, in which a client is made ready, is hundreds of thousands of lines in which nothing can go wrong."""
    counter = itertools.count(1)
    counted = ("",) if way in ("component", "step") else ("/drivetrain/registry/", "/http/client.py")

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "call":
            return trace if any(part in frame.f_code.co_filename for part in counted) else None
        if event == "line":
            at(next(counter))
        return trace

    return trace


def measured(work: Callable[[], None], place: Place, log: Path) -> tuple[int, float]:
    """How many lines of Python a registration runs through, and how many seconds it takes without counting."""
    began = time.monotonic()
    Process(work, place, log).wait()
    seconds = time.monotonic() - began
    reader, writer = os.pipe()

    def counted() -> None:
        lines: list[int] = [0]
        trace = _tracing(place.way, lambda count: lines.__setitem__(0, count))
        threading.settrace(trace)
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(None)
            os.write(writer, str(lines[0]).encode())

    Process(counted, place, log).wait()
    os.close(writer)
    lines = int(os.read(reader, 100))
    os.close(reader)
    return lines, seconds


class Servers:
    """The servers of this process, each in a process of its own that ends with it; started when they are needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._addresses: dict[str, str] = {}
        self._held: list[int] = []

    def address(self, way: str) -> str:
        if way not in self._addresses:
            told, tell = os.pipe()
            until, lifeline = os.pipe()
            if os.fork() == 0:
                try:
                    os.setsid()
                    os.close(lifeline)
                    for descriptor in self._held:
                        os.close(descriptor)
                    _serve(way, self.folder, tell, until)
                finally:
                    os._exit(1)
            os.close(tell)
            os.close(until)
            self._held.append(lifeline)
            self._addresses[way] = os.read(told, 1000).decode()
            os.close(told)
            assert self._addresses[way], f"the server for {way} did not start"
        return self._addresses[way]


def _serve(way: str, folder: Path, tell: int, until: int) -> None:
    import contextlib

    from tests.fixtures import kubeflow_server, mlflow_server, sagemaker_server

    with contextlib.ExitStack() as stack:
        if way == "sagemaker":
            address = sagemaker_server.sagemaker_server()
        elif way == "kubeflow":
            address = stack.enter_context(kubeflow_server.kubeflow_server())[0]
        else:
            database = mlflow_server.new_database(folder)
            address = stack.enter_context(mlflow_server.mlflow_server(database, folder / "artifacts"))
        os.write(tell, address.encode())
        os.read(until, 1)  # to its end, which is that of the process that needs the server
