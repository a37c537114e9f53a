"""The places that the checks ask, and the finding of a check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import yaml

from drivetrain.infra.kubeflow.needs import Needs

if TYPE_CHECKING:
    from drivetrain.targets.kubeflow.deploy.objects import Objects
    from drivetrain.targets.kubeflow.deploy.rest import Api
    from drivetrain.targets.kubeflow.deploy.server import Server

Json = dict[str, Any]
State = Literal["ok", "would fail", "not asked"]


class UnaskedError(Exception):
    """The cluster did not say; the text is why."""


@dataclass(frozen=True)
class Finding:
    """One fact of a check."""

    state: State
    said: str
    mend: str = ""
    """The remedy, a command where one does it."""


def ok(said: str) -> Finding:
    """It is as the pipeline needs it."""
    return Finding("ok", said)


def fails(said: str, mend: str) -> Finding:
    """A run would fail, or not do what its pipeline says."""
    return Finding("would fail", said, mend)


def mapping(value: Any) -> Json:
    """The mapping in an entry of a ConfigMap, as YAML text or read already; empty for anything else.

    Raises:
        UnaskedError: it is no YAML.
    """
    try:
        read = yaml.safe_load(value) if isinstance(value, str) else value
    except yaml.YAMLError as error:
        raise UnaskedError(f"an entry of the ConfigMap is no YAML: {' '.join(str(error).split())}") from None
    return cast("Json", read) if isinstance(read, dict) else {}


class Cluster(Protocol):
    """The cluster's objects; kubectl.py."""

    @property
    def context(self) -> str: ...

    def get(self, kind: str, name: str = "", namespace: str | None = None) -> Json | None: ...

    def may(self, account: str, namespace: str, verb: str, resource: str) -> bool: ...


@dataclass(frozen=True)
class Place:
    """A pipeline, and where it is to run."""

    needs: Needs
    api: Api
    objects: Objects
    cluster: Cluster
    command: str
    """Prints the manifests."""

    @property
    def namespace(self) -> str:
        """The pipeline's."""
        return self.needs.settings.namespace

    @property
    def platform(self) -> str:
        """The namespace of Kubeflow itself."""
        return self.needs.settings.infrastructure.platform_namespace

    @property
    def write(self) -> str:
        """The command that writes the manifests."""
        return f"{self.command} -o build/infra"

    @cached_property
    def server(self) -> Server:
        """Its version, and whether it has many users.

        Raises:
            ApiError: it did not answer.
        """
        from drivetrain.targets.kubeflow.deploy.server import read

        return read(self.api)

    def there(self, kind: str, name: str) -> Json | None:
        """An object of the pipeline's namespace."""
        return self.cluster.get(kind, name, self.namespace)


Check = Callable[[Place], Iterator[Finding]]
