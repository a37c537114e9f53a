"""The Pipelines API, the object store and the model registry: from this machine, and by the names that pods use."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from drivetrain.base.errors import InputError, UserError
from drivetrain.infra.kubeflow.network import service_namespace
from drivetrain.infra.kubeflow.readiness.place import Finding, Place, UnaskedError, fails, ok
from drivetrain.registry.registry import open_registry
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


def object_store(place: Place) -> Iterator[Finding]:
    """This machine lists what lies below root."""
    settings = place.needs.settings
    try:
        place.objects.listed(f"{place.needs.root}/owner/")
    except UserError as error:
        bucket = settings.root.removeprefix("s3://").partition("/")[0]
        yield fails(
            str(error),
            f"Make the bucket {bucket}, or name one that is there; AWS_ENDPOINT_URL_S3 is the store's address for "
            "this machine where pods use another",
        )
        return
    yield ok(f"{settings.root} at {place.objects.endpoint or 'AWS'}")


def services(place: Place) -> Iterator[Finding]:
    """Names of the cluster's services that the settings have are those of services."""
    settings = place.needs.settings
    registry = (settings.registry or "").partition(":")[2]
    for field, address in (("s3_endpoint", settings.s3_endpoint or ""), ("registry", registry)):
        host = urlsplit(address).hostname or ""
        if (there := service_namespace(host, place.needs)) is None:
            continue
        name = host.partition(".")[0]
        if place.cluster.get("service", name, there) is None:
            stock = f"; the store that Pipelines brings is http://seaweedfs.{place.platform}:9000"
            yield fails(
                f"{address}: there is no service {name!r} in namespace {there!r}",
                f"Set {BLOCK}.{field} to one of: kubectl -n {there} get services"
                + (stock if field == "s3_endpoint" else ""),
            )
        else:
            yield ok(f"{address} is a service of the cluster")


def registry(place: Place) -> Iterator[Finding]:
    """The model registry answers."""
    url = place.needs.settings.registry
    if url is None or not url.partition(":")[2].startswith(("http://", "https://")):
        return
    try:
        open_registry(url).find("drivetrain-check", "0" * 64)
    except InputError as error:
        host = urlsplit(url.partition(":")[2]).hostname or ""
        if service_namespace(host, place.needs) is not None:
            raise UnaskedError(f"{url} is for pods; from this machine: {error}") from None
        yield fails(str(error), f"Set {BLOCK}.registry to an address that answers, as pods reach it")
        return
    yield ok(url)
