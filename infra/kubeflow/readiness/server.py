"""The Pipelines API: whether it answers, which version it is, whose pipelines it keeps."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from drivetrain.infra.kubeflow.readiness.place import Finding, Place, UnaskedError, fails, ok
from drivetrain.targets.kubeflow.deploy.rest import ApiError
from drivetrain.targets.kubeflow.deploy.service import pipelines as listed

OLDEST, NEWEST = "2.15.0", "2.17.0"
_FORWARDED = "http://localhost:8888"
_SETTING = "deployment.targets.kubeflow"


def pipelines(place: Place) -> Iterator[Finding]:
    """The address answers, with a version on which steps can run."""
    try:
        health = place.health
    except ApiError as error:
        forward = f"kubectl -n {place.platform} port-forward service/ml-pipeline 8888:8888"
        yield fails(
            str(error), f"From a machine outside of the cluster: {forward}, and {_SETTING}.endpoint: {_FORWARDED}"
        )
        return
    tag = str(health.get("tag_name", ""))
    said = f"{tag or 'of no version'}, for {'many users' if health.get('multi_user') else 'one user'}"
    try:
        version = Version(tag)
    except InvalidVersion:
        yield ok(f"{said}: whether it is {OLDEST} or newer is not known")
        return
    if version < Version(OLDEST):
        yield fails(said, f"Upgrade to {OLDEST} or newer; {OLDEST} and {NEWEST} were tried")
        return
    yield ok(said + (f"; newer than {NEWEST}, the newest that was tried" if version > Version(NEWEST) else ""))


def namespace(place: Place) -> Iterator[Finding]:
    """Runs happen in the namespace of the settings, and who asks may use it."""
    try:
        many = bool(place.health.get("multi_user"))
        next(iter(listed(place.api)), None)
    except ApiError as error:
        if not error.status:
            raise UnaskedError("the Pipelines API does not answer") from None
        yield fails(str(error), f"Set {_SETTING}.namespace to one of yours, and a token that is good for it")
        return
    if not many and place.namespace != place.platform:
        yield fails(
            f"an installation for one user runs all pods in its own namespace, {place.platform!r}, "
            f"not in {place.namespace!r}",
            f"Set {_SETTING}.namespace: {place.platform} (or infrastructure.platform_namespace to where Pipelines is)",
        )
        return
    yield ok(f"pods run in {place.namespace}")
