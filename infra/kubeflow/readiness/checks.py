"""All checks in their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from drivetrain.infra.kubeflow.needs import needs_of
from drivetrain.infra.kubeflow.readiness import namespace, platform, servers
from drivetrain.infra.kubeflow.readiness.place import Check, Finding, Kubectl, Place, UnaskedError, ok

if TYPE_CHECKING:
    from drivetrain.spec.pipeline import Pipeline


def cluster(place: Place) -> Iterator[Finding]:
    """Name the cluster that kubectl asks; the person must see that it is the one of the Pipelines API."""
    yield ok(f"kubectl's context is {place.cluster.context}")


CHECKS: Mapping[str, Check] = {
    "Pipelines API": servers.pipelines,
    "namespace": servers.namespace,
    "object store": servers.object_store,
    "registry": servers.registry,
    "cluster": cluster,
    "labels": namespace.labels,
    "services": servers.services,
    "kfp-launcher": namespace.kfp_launcher,
    "secrets": namespace.secrets,
    "account": namespace.account,
    "rights": namespace.rights,
    "claims": namespace.claims,
    "templateDefaults": platform.template_defaults,
    "lost pods": platform.pod_status,
    "Trainer": platform.trainer,
    "runtimes": platform.runtimes,
}


def check(pipeline: Pipeline, command: str) -> list[tuple[str, Finding]]:
    """Ask the server, the storage and the cluster: (name of the check, finding), in their order.

    Raises:
        UserError: a setting that is wrong, or missing for what the pipeline does.
    """
    from drivetrain.targets.kubeflow.deploy.deployer import Kubeflow
    from drivetrain.targets.kubeflow.deploy.desired import check_place

    needs = needs_of(pipeline)
    check_place(needs.settings)
    deployer = Kubeflow(pipeline.deployment)
    return list(findings(Place(needs, deployer.api, deployer.objects, Kubectl(), command)))


def findings(place: Place) -> Iterator[tuple[str, Finding]]:
    """The finding of each check, also where it could not be asked."""
    for name, each in CHECKS.items():
        try:
            for found in each(place):
                yield name, found
        except UnaskedError as error:
            yield name, Finding("not asked", str(error))
