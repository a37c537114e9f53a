"""What an administrator sets once for all pipelines."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.infra.kubeflow import manifests
from drivetrain.infra.kubeflow.readiness import platform
from drivetrain.infra.kubeflow.readiness.place import UnaskedError
from tests.fixtures.kubectl import TEMPLATE_DEFAULTS, Cluster
from tests.fixtures.kubeflow_infra import full

REMOVE = (
    "kubectl -n kubeflow patch configmap workflow-controller-configmap --type json "
    """-p '[{"op": "remove", "path": "/data/templateDefaults"}]'"""
)
KEEP = "kubectl -n kubeflow set env deployment/workflow-controller ARGO_POD_STATUS_CAPTURE_FINALIZER=true"


@pytest.mark.parametrize("check", [platform.template_defaults, platform.pod_status, platform.trainer])
def test_a_pipeline_without_retries_needs_no_controller_settings(found: Any, check: Any) -> None:
    assert found(check) == []


def test_stock_2_17_does_not_retry_failed_programs(found: Any) -> None:
    ((state, said, mend),) = found(platform.template_defaults, full())
    assert (state, mend) == ("would fail", REMOVE)
    assert "has retryStrategy {'limit': '2', 'retryPolicy': 'OnError'}" in said


def test_without_the_stock_default_pipelines_define_retries(cluster: Cluster, found: Any) -> None:
    cluster.patch_data("workflow-controller-configmap", templateDefaults=None)
    assert found(platform.template_defaults, full())[0][0] == "ok"
    cluster.patch_data(
        "workflow-controller-configmap", config="templateDefaults:\n  " + TEMPLATE_DEFAULTS.replace("\n", "\n  ")
    )
    assert found(platform.template_defaults, full())[0][0] == "would fail", "all settings in one entry"
    cluster.patch_data("workflow-controller-configmap", config="broken: [")
    with pytest.raises(UnaskedError, match="is no YAML"):
        found(platform.template_defaults, full())


def test_a_pod_that_is_lost_counts_as_failed(cluster: Cluster, found: Any) -> None:
    ((state, _, mend),) = found(platform.pod_status, full())
    assert (state, mend) == ("would fail", KEEP)
    container = cluster.objects["deployment", "kubeflow", "workflow-controller"]["spec"]["template"]["spec"][
        "containers"
    ][0]
    container["env"].append({"name": "ARGO_POD_STATUS_CAPTURE_FINALIZER", "value": "true"})
    assert found(platform.pod_status, full())[0][0] == "ok"


def test_another_installation_s_controller(found: Any) -> None:
    elsewhere = full(infrastructure={"platform_namespace": "kfp"})
    assert found(platform.pod_status, elsewhere)[0][:2] == (
        "would fail",
        "there is no Deployment workflow-controller in kfp",
    )


@pytest.mark.parametrize(("version", "state"), [("2.2.1", "would fail"), ("2.3.0", "ok")])
def test_trainer_keeps_all_fields_of_a_train_job(cluster: Cluster, found: Any, version: str, state: str) -> None:
    cluster.add_trainer(version)
    ((found_state, said, _),) = found(platform.trainer, full())
    assert found_state == state
    assert state == "ok" or "terminationGracePeriodSeconds" in said


def test_trainer_is_not_installed(found: Any) -> None:
    assert found(platform.trainer, full())[0][:2] == ("would fail", "Kubeflow Trainer v2 is not installed")


def test_the_runtimes_of_a_pipeline(cluster: Cluster, found: Any) -> None:
    pipeline = full(trainer={"torch": "torch-distributed"})
    cluster.add_runtime("drivetrain-mpi")
    states = {said: (state, mend) for state, said, mend in found(platform.runtimes, pipeline)}
    assert states["drivetrain-mpi is there"] == ("ok", "")
    assert states["there is no ClusterTrainingRuntime 'drivetrain-tensorflow'"] == (
        "would fail",
        "drivetrain infra kubeflow flow.py -o build/infra && kubectl apply -f build/infra/runtimes.yaml",
    )
    state, mend = states["there is no ClusterTrainingRuntime 'torch-distributed'"]
    assert state == "would fail" and mend.startswith("kubectl apply --server-side -k")


def test_the_notes_say_the_same_lines() -> None:
    (note,) = [note for note in manifests.notes(full()) if REMOVE in note]
    assert KEEP in note
