"""The places that the checks ask, and the finding of a check."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import yaml

from drivetrain.infra.kubeflow.needs import Needs

if TYPE_CHECKING:
    from drivetrain.targets.kubeflow.deploy.objects import Objects
    from drivetrain.targets.kubeflow.deploy.rest import Api
    from drivetrain.targets.kubeflow.deploy.server import Server

Json = dict[str, Any]
State = Literal["ok", "would fail", "not asked"]
_ANSWER_SECONDS, _WHOLE_SECONDS = 15, 60
_MAX_SAID = 120
_OF_ONE_OBJECT = "Error from server (Forbidden)"


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


class Kubectl:
    """Objects of the cluster, read by the program kubectl: with the context, the rights and the log-in of the person
    who asks."""

    def __init__(self) -> None:
        self._away = ""

    @property
    def context(self) -> str:
        """Its name in the kubeconfig.

        Raises:
            UnaskedError: there is no kubectl, or no context.
        """
        return self._output("config", "current-context").strip()

    def get(self, kind: str, name: str = "", namespace: str | None = None) -> Json | None:
        """An object, or without a name the list of all; None if it or its kind does not exist.

        Raises:
            UnaskedError: why the cluster did not say.
        """
        where = [] if namespace is None else ["--namespace", namespace]
        names = [name] if name else []
        try:
            text = self._output("get", kind, *names, *where, "-o", "json", f"--request-timeout={_ANSWER_SECONDS}s")
        except _AbsentError:
            return None
        try:
            found: Any = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            said = " ".join(text.split())[:_MAX_SAID] or "nothing"
            raise UnaskedError(f"kubectl did not answer with JSON, it printed: {said}")
        return cast("Json", found)

    def may(self, account: str, namespace: str, verb: str, resource: str) -> bool:
        """Ask whether a service account may do something in its namespace.

        Args:
            resource: `NAME[/SUBRESOURCE][.GROUP]`, as a Role has it.

        Raises:
            UnaskedError: why the cluster did not say; also that who asks may not speak for accounts.
        """
        name, _, sub = resource.partition("/")
        part = [f"--subresource={sub}"] if sub else []
        who = f"--as=system:serviceaccount:{namespace}:{account}"
        try:
            said = self._output("auth", "can-i", verb, name, *part, who, "--namespace", namespace, no_is_said=True)
        except _AbsentError:
            return False
        return said.startswith("yes")

    def _output(self, *words: str, no_is_said: bool = False) -> str:
        if self._away:  # not each check waits for it
            raise UnaskedError(self._away)
        try:
            done = subprocess.run(
                ["kubectl", *words], capture_output=True, text=True, timeout=_WHOLE_SECONDS, check=False
            )
        except FileNotFoundError:
            self._away = "kubectl is not on PATH"
        except subprocess.TimeoutExpired:
            self._away = f"kubectl did not answer within {_WHOLE_SECONDS} s"
        else:
            if done.returncode == 0 or (no_is_said and done.stdout.startswith("no")):
                return done.stdout
            said = (done.stderr.strip().splitlines() or ["kubectl failed"])[-1]
            if "(NotFound)" in said or "doesn't have a resource type" in said:
                raise _AbsentError(said)
            if said.startswith(_OF_ONE_OBJECT):
                raise UnaskedError(said)
            self._away = said
        raise UnaskedError(self._away)


class _AbsentError(Exception):
    pass


@dataclass(frozen=True)
class Place:
    """A pipeline, and where it is to run."""

    needs: Needs
    api: Api
    objects: Objects
    cluster: Kubectl
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
