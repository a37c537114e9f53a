"""Identities and permissions of pods: a service account a part, a Role only for those that call something.

`tests/unit/infra/kubeflow/test_access.py` plays the calls through: it fails for a permission that is missing, and for
one that is not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drivetrain.infra.kubeflow.needs import Needs
from drivetrain.infra.kubeflow.objects import Json, name_of, part_object
from drivetrain.steps.kubeflow.cluster_api import RIGHTS

RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Permission:
    """Verbs on a kind of objects in the pipeline's own namespace; on those of `names` alone, where there are any."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def to_dict(self) -> Json:
        """A rule of a Role."""
        rule: Json = {"apiGroups": [self.group], "resources": [self.resource], "verbs": list(self.verbs)}
        if self.names:
            rule["resourceNames"] = list(self.names)
        return rule


# What Kubeflow Pipelines' own containers call in each step's pod, under the step's account.
STEP = (
    # Argo's executor: https://argo-workflows.readthedocs.io/en/latest/workflow-rbac/
    Permission("argoproj.io", "workflowtaskresults", ("create", "patch")),
    # The launcher of Pipelines: https://github.com/kubeflow/pipelines/blob/master/backend/src/v2/config/env.go
    Permission("", "configmaps", ("get",), names=("kfp-launcher",)),
)
# What a step with several nodes calls: it creates a TrainJob, follows its pods, reads their logs and why they failed,
# and deletes it.
TRAIN_JOB = tuple(Permission(*right) for right in RIGHTS)
# What the starter asks of the Pipelines API, which in a cluster of many users looks these verbs up in the namespace: it
# finds the pipeline and its newest version, makes the experiment where it is not there, looks whether a run of its own
# registered the model, and starts a run once. Of two that were started for one event it stops and deletes the second.
# https://github.com/kubeflow/pipelines/tree/master/backend/src/apiserver/server
_PIPELINES = "pipelines.kubeflow.org"
STARTER = (
    Permission(_PIPELINES, "pipelines", ("get", "list")),
    Permission(_PIPELINES, "experiments", ("create", "list")),
    Permission(_PIPELINES, "runs", ("create", "delete", "get", "list", "terminate")),
)
# Accounts that are there before us, and are not ours to write.
PLATFORM_ACCOUNTS = ("default", "default-editor", "default-viewer", "pipeline-runner")
# Of these, the ones to which Kubeflow gives what Pipelines' own containers call.
_WITH_RIGHTS = ("default-editor", "pipeline-runner")


def step_permissions(needs: Needs) -> tuple[Permission, ...]:
    """Permissions of the account under which steps run."""
    train_job = TRAIN_JOB if needs.makes_train_jobs else ()
    if needs.settings.service_account in _WITH_RIGHTS:
        return train_job
    # Named in the launcher's configuration (docs/kubeflow_infrastructure.md).
    secret = needs.settings.s3_secret
    keys = () if secret is None else (Permission("", "secrets", ("get",), names=(secret,)),)
    return (*STEP, *keys, *train_job)


def step_account(needs: Needs) -> Iterator[Json]:
    """The service account of the steps, where the settings name one that Kubeflow does not make."""
    steps = needs.settings.service_account
    if steps is not None and steps not in PLATFORM_ACCOUNTS:
        yield _account(needs, "steps", name=steps)


def accounts(needs: Needs) -> Iterator[Json]:
    """The service accounts of what runs beside the pipeline."""
    if needs.events:
        yield _account(needs, "starter")
    if needs.trains:
        yield _account(needs, "tensorboard")


def roles(needs: Needs) -> Iterator[Json]:
    """A Role and its binding for each account that calls an API."""
    steps = needs.settings.service_account
    if steps is not None and (permissions := step_permissions(needs)):
        yield from _role(needs, "steps", steps, permissions)
    if needs.events:
        yield from _role(needs, "starter", name_of(needs, "starter"), STARTER)


def _account(needs: Needs, part: str, *, name: str | None = None) -> Json:
    """The account of a part; pods of steps alone call the API of Kubernetes."""
    fields: Json = {"automountServiceAccountToken": part == "steps"}
    if needs.settings.image_pull_secret is not None:
        fields["imagePullSecrets"] = [{"name": needs.settings.image_pull_secret}]
    return part_object(needs, part, "v1", "ServiceAccount", fields, name=name)


def _role(needs: Needs, part: str, account: str, permissions: Sequence[Permission]) -> Iterator[Json]:
    rules = [permission.to_dict() for permission in permissions]
    yield part_object(needs, part, f"{RBAC}/v1", "Role", {"rules": rules})
    binding: Json = {
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name_of(needs, part)},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": needs.settings.namespace}],
    }
    yield part_object(needs, part, f"{RBAC}/v1", "RoleBinding", binding)
