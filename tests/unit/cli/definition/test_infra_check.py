"""`drivetrain infra kubeflow PIPELINE --check`, beside a stock installation: its API, its storage, its cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drivetrain.infra.kubeflow import launcher
from drivetrain.infra.kubeflow.needs import needs_of
from tests.fixtures.kubectl import CONTEXT, Cluster
from tests.fixtures.kubeflow_infra import one_node
from tests.fixtures.kubeflow_pipelines.server import pipelines_api
from tests.fixtures.s3_server import environment, make_bucket, s3_server, variables

# Pods reach the store by another name than this machine.
STORE = {"s3_endpoint": "http://seaweedfs.kubeflow:9000", "s3_secret": "s3-credentials"}
PIPELINE = """\
from drivetrain import Deployment, Pipeline, fail


def nightly() -> Pipeline:
    target = Deployment(target="kubeflow", targets={"kubeflow": SETTINGS})
    return Pipeline(name="nightly", steps=[fail("no", name="stop")], deployment=target)
"""


@pytest.fixture
def settings() -> Iterator[dict[str, Any]]:
    """Those of a pipeline for one user's installation that answers."""
    with pipelines_api() as api, environment(variables(s3_server())):
        yield {"endpoint": api.endpoint, "root": f"s3://{make_bucket(s3_server())}/pipelines", **STORE}


def use(cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{cluster.write_program(folder / 'bin').parent}:/usr/bin:/bin")


def test_missing_parts_of_an_installation_are_reported_with_the_fix(
    drivetrain: Any, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(Cluster(), drivetrain.folder, monkeypatch)
    file = drivetrain.write("flow.py", PIPELINE.replace("SETTINGS", repr(settings)))
    more = drivetrain.write("more.yaml", "{}")
    said = drivetrain("infra", "kubeflow", file, "-c", more, "--check", code=1)
    table, _, mend = said.partition("\nTo mend:\n")
    states = {line[12:].split("  ")[0]: line[:12].strip() for line in table.splitlines()[1:]}
    assert states == {
        "Pipelines API": "ok",
        "namespace": "ok",
        "object store": "ok",
        "cluster": "ok",
        "labels": "ok",
        "services": "ok",
        "kfp-launcher": "would fail",
        "secrets": "would fail",
    }
    assert CONTEXT in table and "2.17.0, for one user" in table
    assert mend.splitlines() == [
        f"  kfp-launcher: drivetrain infra kubeflow {file} -c {more} -o build/infra && kubectl -n kubeflow patch "
        "configmap kfp-launcher --type json --patch-file build/infra/kfp-launcher-patch.yaml",
        "  secrets: kubectl -n kubeflow create secret generic s3-credentials --from-literal=AWS_ACCESS_KEY_ID=... "
        "--from-literal=AWS_SECRET_ACCESS_KEY=...",
    ]
    told = json.loads(drivetrain("infra", "kubeflow", file, "--check", "--json", code=1))
    assert told["would_fail"] == 2 and len(told["checks"]) == len(states)
    assert told["checks"][-1] == {
        "check": "secrets",
        "state": "would fail",
        "said": "there is no Secret 's3-credentials'",
        "mend": mend.splitlines()[-1].partition(": ")[2],
    }


def test_a_complete_installation_exits_with_0(
    drivetrain: Any, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()
    cluster.patch_data("kfp-launcher", providers=launcher.providers(needs_of(one_node(**STORE))))
    cluster.add("secret", "s3-credentials", data={"AWS_ACCESS_KEY_ID": "eA==", "AWS_SECRET_ACCESS_KEY": "eA=="})
    use(cluster, drivetrain.folder, monkeypatch)
    file = drivetrain.write("flow.py", PIPELINE.replace("SETTINGS", repr(settings)))
    said = drivetrain("infra", "kubeflow", file, "--check")
    assert "would fail" not in said and "To mend" not in said and "not asked" not in said


def test_unanswered_checks_are_reported_without_failing(
    drivetrain: Any, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    file = drivetrain.write("flow.py", PIPELINE.replace("SETTINGS", repr(settings)))
    said = drivetrain("infra", "kubeflow", file, "--check")
    assert [line.split()[:3] for line in said.splitlines() if "kubectl is not on PATH" in line] == [
        ["not", "asked", name] for name in ("cluster", "labels", "services", "kfp-launcher", "secrets")
    ]


def test_a_check_writes_nothing(drivetrain: Any) -> None:
    said = drivetrain.error("infra", "kubeflow", "retraining", "--check", "-o", drivetrain.folder / "out")
    assert "--check writes nothing, so it takes no -o" in said
    assert "deployment.targets.kubeflow.endpoint is not set" in drivetrain.error(
        "infra", "kubeflow", "retraining", "--check"
    )
    assert list(drivetrain.folder.iterdir()) == []
