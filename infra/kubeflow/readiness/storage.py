"""The object store and the model registry: from this machine, and by the names that pods use."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from drivetrain.base.errors import InputError, UserError
from drivetrain.infra.kubeflow.network import service_namespace
from drivetrain.infra.kubeflow.readiness.place import Finding, Place, UnaskedError, fails, ok
from drivetrain.registry.registry import open_registry
from drivetrain.targets.kubeflow.settings import BLOCK


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
