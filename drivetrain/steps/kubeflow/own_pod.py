"""The pod that runs the task: what it belongs to, and whether it is being taken away."""

from __future__ import annotations

import os
from typing import cast

from drivetrain.steps.kubeflow.cluster_api import ClusterApi, NotThereError
from drivetrain.steps.kubeflow.reasons import condition
from drivetrain.steps.kubeflow.task import Json

# A host name has at most 63 characters, and a pod's name may have more.
NAME_VARIABLE = "KFP_POD_NAME"
# Of the pods of Kubeflow Pipelines.
RUN_LABEL = "pipeline/runid"


class OwnPod:
    """This pod, asked for once; nothing where this process runs in none."""

    def __init__(self, api: ClusterApi) -> None:
        self.api = api
        self.owners: list[Json] = []
        self.run = ""

    def look(self) -> None:
        """Find the run's id, and what a TrainJob is to end with: the run's Workflow, not the pod, since the task's next
        attempt has another one."""
        metadata: Json = self._pod().get("metadata", {})
        self.run = str(metadata.get("labels", {}).get(RUN_LABEL, ""))
        for owner in metadata.get("ownerReferences") or ():
            if owner["kind"] == "Workflow":
                names = ("apiVersion", "kind", "name", "uid")
                self.owners = [{name: owner[name] for name in names}]

    def is_taken(self) -> bool:
        """True if the cluster moves this pod away (its node is drained), and nobody has stopped the run."""
        return condition(self._pod(), "DisruptionTarget") is not None

    def _pod(self) -> Json:
        name = os.environ.get(NAME_VARIABLE)
        if not name:
            return {}
        try:
            return self.api.get(f"pods/{name}")
        except NotThereError:
            return cast(Json, {})
