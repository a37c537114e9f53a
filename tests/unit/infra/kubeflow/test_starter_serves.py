"""The starter as its pod runs it: the written command and ConfigMap, a registry, and a stand-in of Pipelines."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.infra.kubeflow.manifests import objects
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import open_registry
from drivetrain.spec.deployment import Deployment
from drivetrain.spec.pipeline import Pipeline, RegistryEvent
from tests.fixtures.kubeflow_server import kubeflow_server
from tests.fixtures.s3_server import environment, s3_server, variables


@pytest.mark.slow
def test_an_approval_starts_the_deployed_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place_of, server = (
        pytest.importorskip(f"tests.fixtures.kubeflow_pipelines.{name}", reason="nothing deploys to Kubeflow here")
        for name in ("place", "server")
    )
    monkeypatch.delenv("KF_PIPELINES_TOKEN", raising=False)
    store = environment(variables(s3_server()))
    with server.pipelines_api() as cluster, store, kubeflow_server() as (address, _):
        place = place_of.Place(tmp_path / "code", cluster)
        place.settings["registry"] = f"kubeflow:{address}"
        place.apply()
        registry = open_registry(place.settings["registry"])
        version = registry.register("champions", hashlib.sha256(b"new").hexdigest(), ModelRecord())[0]

        pipeline = Pipeline(
            name="nightly",
            deployment=Deployment(target="kubeflow", targets={"kubeflow": place.settings}),
            triggers=(RegistryEvent(name="approved", group="champions"),),
        )
        configuration, deployment = objects(pipeline)["starter.yaml"]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        (tmp_path / "pipeline.json").write_text(configuration["data"]["pipeline.json"])
        python, *command = container["command"]
        assert python == "python"
        moved = {"--pipeline": tmp_path / "pipeline.json", "--heartbeat": tmp_path / "polled", "--every": 0.2}
        command = [
            f"{option}={moved[option]}" if (option := word.partition("=")[0]) in moved else word for word in command
        ]
        with subprocess.Popen(
            [sys.executable, *command],
            env={**os.environ, "KF_PIPELINES_SA_TOKEN_PATH": place.settings["token_file"]},
            stdout=subprocess.PIPE,
            text=True,
        ) as running:
            try:
                assert running.stdout is not None
                lines = iter(running.stdout.readline, "")
                assert any("changes count from here on" in line for line in lines)
                registry.set_status("champions", version, "Approved", by="me")
                said = next(line for line in lines if "started" in line)
            finally:
                running.terminate()
                rest, _ = running.communicate()
        assert running.returncode == 0 and rest.endswith("ending\n")
        assert re.fullmatch(r"nightly / approved started (\S+) for champions version 1\n", said)
        assert [each["display_name"] for each in cluster.store.runs.values()] == [said.split()[4]]
        assert (tmp_path / "polled").exists()
