"""A training step on the nodes of a TrainJob, whose pods really run: code, inputs and outputs by S3, two nodes.

The task is the real one but for its start; the Kubernetes API is a stand-in.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from drivetrain import Cluster, Pipeline, Spot, step
from drivetrain.components.train import train
from drivetrain.spec.deployment import Deployment
from drivetrain.steps.kubeflow import objects
from drivetrain.steps.kubeflow.nodes import Nodes
from drivetrain.steps.kubeflow.program import Log, Reporter
from drivetrain.steps.kubeflow.reasons import End
from drivetrain.steps.kubeflow.task import Task
from tests.fixtures.kubeflow_tasks import compiled, document_of, executor_input, put_assets
from tests.fixtures.kubernetes_server import Cluster as StandIn
from tests.fixtures.kubernetes_server import kubernetes
from tests.fixtures.local_pods import LocalPods, pods_can_run
from tests.fixtures.s3_server import make_bucket, s3_server, variables

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not pods_can_run(), reason="this machine allows no private /etc/hosts"),
]
SETTINGS = {
    "recipe": "digits_cnn",
    "recipe_options": '{"channels": 4, "hidden": 16}',
    "epochs": 12,
    "global_batch": 16,
    "precision": "fp64",
    "strategy": "ddp",
}


@dataclass(frozen=True)
class Trained:
    """A training that has ended, and what it left."""

    log: str
    values: dict[str, float]
    history: Any
    model: list[str]
    cluster: StandIn
    jobs: list[Any]
    at_work: list[str]


@pytest.fixture(scope="module")
def data(prepared_data: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_data.write_prepared(tmp_path_factory.mktemp("data"), prepared_data.digit_columns(50))


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Two nodes of which the second is taken away, once the first checkpoint is there."""

    def evict(cluster: StandIn, pods: LocalPods) -> None:
        def saved() -> bool:
            if cluster.created and not cluster.jobs:  # it has ended
                return True
            return any(line.startswith("epoch 2/") for lines in cluster.logs.values() for _, line in lines)

        cluster.wait(saved, 120)
        with cluster.lock:
            [second] = [name for name in pods.at_work if "-node-0-1-" in name]
            pods.evict(second)

    return train_on_pods(data, tmp_path_factory.mktemp("trained"), evict, checkpoint_every="epoch")


def train_on_pods(data: Path, folder: Path, happens: Callable[[StandIn, LocalPods], None], **settings: Any) -> Trained:
    """Train on two nodes, while something happens to them."""
    s3 = variables(s3_server())
    with pytest.MonkeyPatch.context() as patch, kubernetes() as cluster:
        for name, value in {**s3, **cluster.variables}.items():
            patch.setenv(name, value)
        bucket = make_bucket(s3["AWS_ENDPOINT_URL_S3"])
        digits = f"s3://{bucket}/digits"
        objects.upload(data, digits)
        kubeflow = {"root": f"s3://{bucket}/pipelines", "s3_endpoint": s3["AWS_ENDPOINT_URL_S3"], "s3_secret": "s3"}
        spot = Spot(max_wait_seconds=86_400)
        folders = {"train": digits, "validation": digits}
        fit = step(train, name="fit", cluster=Cluster(count=2, spot=spot), **folders, **{**SETTINGS, **settings})
        found = compiled(Pipeline(name="nodes", steps=[fit], deployment=Deployment(targets={"kubeflow": kubeflow})))
        given = executor_input(found, "fit", {"code": put_assets(found), **folders}, f"s3://{bucket}/run/fit", folder)
        task = Task(given, json.dumps(document_of(found, "fit")))
        log = Log(task.document["logs"], Reporter(task))
        pods = LocalPods(cluster, folder, s3)
        jobs: list[Any] = []
        try:
            nodes = Nodes(task, log, print, poll=0.2, settle=5.0)
            create = nodes.api.create
            patch.setattr(nodes.api, "create", lambda path, body: jobs.append(body) or create(path, body))
            with ThreadPoolExecutor(1) as beside:
                happening = beside.submit(happens, cluster, pods)
                end = nodes.run()
                happening.result()
            logs = sorted(cluster.logs.items(), key=lambda each: each[0].rpartition("-node-")[0])
            text = "\n".join(
                "\n".join([f"=== attempt {name.rpartition('-node-')[0][-1]}", *(line for _, line in lines)])
                for name, lines in logs
            )
            assert end == End("done"), (end, text)
            cluster.wait(lambda: not cluster.jobs)
            for name in ("output", "model"):
                objects.download(f"s3://{bucket}/run/fit/{name}", folder / name)
            history = json.loads((folder / "output" / "history.json").read_text())
            model = sorted(path.name for path in (folder / "model").iterdir())
            return Trained(text, log.values, history, model, cluster, jobs, pods.at_work)
        finally:
            pods.close()


@pytest.fixture(scope="module")
def one_process(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The history of one process without launcher, pods or S3."""
    base = tmp_path_factory.mktemp("one")
    folders = {"train": data, "validation": data, "model": base / "model", "output": base / "output"}
    words = {**folders, **SETTINGS, "strategy": "single"}
    subprocess.run(
        [
            *(sys.executable, "-m", "drivetrain.training_scripts.train"),
            *(f"--{name.replace('_', '-')}={value}" for name, value in words.items()),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return json.loads((base / "output" / "history.json").read_text())


def test_evicted_nodes_resume_and_give_the_model_of_one_process(trained: Trained, one_process: Any) -> None:
    """Each sample counts once: the losses are those of a run that nothing happened to."""
    assert [job["metadata"]["labels"]["drivetrain/attempt"] for job in trained.jobs] == ["0", "1"]
    first, *_ = re.findall(r"^epoch (\d+)/12 ", trained.log.partition("=== attempt 1")[2], re.MULTILINE)
    assert 2 <= int(first) <= 12
    names = ("train_loss", "validation_loss")
    found = [epoch[name] for epoch in trained.history for name in names]
    assert found == pytest.approx([epoch[name] for epoch in one_process for name in names], abs=1e-10)
    assert len(found) == 24


def test_both_nodes_were_found_by_their_names(trained: Trained) -> None:
    for job in trained.jobs:
        name = job["metadata"]["name"]
        assert f"this is 1 ({name}-node-0-1.{name})" in trained.log
    assert trained.log.count("from PET_* (Kubeflow Trainer): 2 hosts x 1 process") >= 2


def test_the_model_is_where_the_platform_expects_it(trained: Trained) -> None:
    assert {"model.json", "model.safetensors"} <= set(trained.model)


def test_metrics_come_from_the_first_nodes_log(trained: Trained) -> None:
    assert trained.values["validation_loss"] == pytest.approx(trained.history[-1]["validation_loss"], rel=1e-3)


def test_nothing_is_left_behind(trained: Trained) -> None:
    assert trained.at_work == [] and trained.cluster.jobs == {} and trained.cluster.pods == {}
