"""A task of Kubeflow Pipelines as a process that looks often: `python -m tests.faults.harness.kubeflow_task INPUT`."""

from __future__ import annotations

from drivetrain.steps.kubeflow import cluster_api, nodes, pod_log
from drivetrain.steps.kubeflow.__main__ import main

if __name__ == "__main__":
    nodes.POLL_S, nodes.SETTLE_S, nodes.GONE_S = 0.05, 1.0, 5.0
    cluster_api.FIRST_PAUSE_S = 0.02
    cluster_api.PATIENCE_S = 20.0
    pod_log._PAUSE_S = 0.05
    main()
