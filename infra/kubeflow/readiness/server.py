"""The Pipelines API: whether it answers, which version it is, whose pipelines it keeps."""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.base.errors import UserError
from drivetrain.infra.kubeflow.readiness.place import Finding, Place, UnaskedError, fails, ok
from drivetrain.targets.kubeflow.deploy.rest import ApiError
from drivetrain.targets.kubeflow.deploy.server import STOCK_NAMESPACE, TRIED
from drivetrain.targets.kubeflow.deploy.service import pipelines as listed
from drivetrain.targets.kubeflow.settings import BLOCK

_FORWARDED = "http://localhost:8888"


def pipelines(place: Place) -> Iterator[Finding]:
    """The address answers, with a version on which steps can run."""
    try:
        server = place.server
    except ApiError as error:
        forward = f"kubectl -n {place.platform} port-forward service/ml-pipeline 8888:8888"
        mend = f"From a machine outside of the cluster: {forward}, and {BLOCK}.endpoint: {_FORWARDED}"
        yield fails(str(error), mend)
        return
    try:
        server.refuse_old(place.needs.settings.endpoint)
    except UserError as error:
        yield fails(str(error), f"Upgrade it; {TRIED} were tried")
        return
    said = f"{server.tag or 'of no version'}, for {'one user' if server.single_user else 'many users'}"
    yield ok("; ".join([said, *server.notes((), STOCK_NAMESPACE)]))


def namespace(place: Place) -> Iterator[Finding]:
    """Runs happen in the namespace of the settings, and who asks may use it."""
    try:
        single_user = place.server.single_user
        next(iter(listed(place.api)), None)
    except ApiError as error:
        if not error.status:
            raise UnaskedError("the Pipelines API does not answer") from None
        yield fails(str(error), f"Set {BLOCK}.namespace to one of yours, and a token that is good for it")
        return
    if single_user and place.namespace != place.platform:
        yield fails(
            f"an installation for one user runs all pods in its own namespace, {place.platform!r}, "
            f"not in {place.namespace!r}",
            f"Set {BLOCK}.namespace: {place.platform} (or infrastructure.platform_namespace to where Pipelines is)",
        )
        return
    yield ok(f"pods run in {place.namespace}")
