"""Asks the Kubernetes API as a pod may: by plain REST, with its service account's token and the cluster's authority.

The token is read anew for each request, since the kubelet replaces it before it expires. An API that is away or busy
(no connection, 429, 5xx) is asked again until `PATIENCE_S` have passed.

https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from drivetrain.steps.kubeflow.task import Json, RetryError, TaskError

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
# For tests, and for a program outside of a pod (kubectl proxy): an address, and a folder like ACCOUNT.
ADDRESS_VARIABLE, ACCOUNT_VARIABLE = "DRIVETRAIN_KUBERNETES_API", "DRIVETRAIN_SERVICE_ACCOUNT"
TIMEOUT_S = 30.0
PATIENCE_S = 1200.0
REFUSED_TOKEN_S = 60.0
_BUSY = (429, 500, 502, 503, 504)
FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0


class Right(NamedTuple):
    """A right that the service account of a task needs in its own namespace."""

    group: str
    resource: str
    verbs: tuple[str, ...]


RIGHTS = (
    Right("trainer.kubeflow.org", "trainjobs", ("create", "delete", "get", "list")),
    Right("", "pods", ("get", "list")),
    Right("", "pods/log", ("get",)),
    Right("", "events", ("list",)),
)


class ClusterError(TaskError):
    """The API refuses a request for a reason that asking again does not change."""


class AwayError(ClusterError, RetryError):
    """The API did not answer, however often it was asked."""


class ForbiddenError(ClusterError):
    """The service account may not do it."""


class NotThereError(ClusterError):
    """There is no such object, or no such kind of objects."""


class ConflictError(ClusterError):
    """There is an object of that name already."""


class ClusterApi:
    """The API of the cluster that runs this pod.

    Args:
        away: asked between attempts; True ends them (the task is stopped).

    Raises:
        TaskError: this process runs in no pod, or in one without a service account's token.
    """

    def __init__(self, patience: float | None = None, away: Callable[[float], bool] | None = None) -> None:
        self.patience, self._wait = PATIENCE_S if patience is None else patience, away or _sleep
        self.account = Path(os.environ.get(ACCOUNT_VARIABLE, ACCOUNT))
        self.address = os.environ.get(ADDRESS_VARIABLE) or _in_cluster_address()
        self.namespace = self._read("namespace")

    def get(self, path: str, **query: str) -> Json:
        """An object, or a list of them.

        Args:
            path: below the namespace; `TRAINJOBS/NAME`, `pods`.
        """
        return self._asked("GET", path, query=query)

    def create(self, path: str, body: Mapping[str, Any]) -> Json:
        """
        Raises:
            ConflictError: there is one of that name; also where an earlier answer was lost.
            ClusterError: it has a field that the cluster does not know, and would drop.
        """
        return self._asked("POST", path, body=body, query={"fieldValidation": "Strict"})

    def delete(self, path: str) -> bool:
        """Delete an object, and behind it what belongs to it; whether it was there.

        Not in the foreground, where the object stays until the end: Trainer would start the pods of such a one anew.
        """
        try:
            self._asked("DELETE", path, query={"propagationPolicy": "Background"})
        except NotThereError:
            return False
        return True

    @contextmanager
    def lines(self, path: str, timeout: float, **query: str) -> Generator[HTTPResponse]:
        """An answer that goes on, such as a log; tried once.

        Raises:
            OSError, HTTPException: the API is away or busy.
        """
        connection = self._connection(timeout)
        try:
            answer = self._send(connection, "GET", path, None, query)
            if answer.status != 200:
                error = self._refusal("GET", path, answer.status, answer.read())
                raise error or OSError(f"{answer.status} {answer.reason}")
            yield answer
        finally:
            connection.close()

    def _asked(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Mapping[str, str] | None = None
    ) -> Json:
        """
        Raises:
            ClusterError: refused, or not answered.
        """
        began, pause = time.monotonic(), FIRST_PAUSE_S
        while True:
            patience, wanted = self.patience, 0.0
            connection = self._connection(TIMEOUT_S)
            try:
                answer = self._send(connection, method, path, body, query or {})
                content = answer.read()
                if answer.status < 300:
                    return json.loads(content)
                if error := self._refusal(method, path, answer.status, content):
                    raise error
                reason = f"{answer.status} {_message(content) or answer.reason}"
                wanted = _seconds(answer.headers.get("Retry-After"))
                if answer.status == 401:
                    patience = min(patience, REFUSED_TOKEN_S)
            except (OSError, HTTPException, ValueError) as error:
                if isinstance(error, ClusterError):
                    raise
                reason = f"{type(error).__name__}: {error}"
            finally:
                connection.close()
            waited = time.monotonic() - began
            if waited >= patience or self._wait(max(wanted, random.uniform(pause / 2, pause))):
                if reason.startswith("401"):
                    raise ClusterError(
                        f"the Kubernetes API refuses the token in {self.account} ({reason}): it has expired or its "
                        "service account is gone. Let the task run under a service account that exists."
                    )
                raise AwayError(
                    f"the Kubernetes API at {self.address} did not {method} {path} within {waited:.0f} s; the last "
                    f"answer: {reason}."
                )
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _connection(self, timeout: float) -> HTTPConnection:
        where = urlsplit(self.address)
        host = where.hostname or ""
        if where.scheme == "http":
            return HTTPConnection(host, where.port or 80, timeout=timeout)
        import ssl

        context = ssl.create_default_context(cafile=str(self.account / "ca.crt"))
        return HTTPSConnection(host, where.port or 443, timeout=timeout, context=context)

    def _send(
        self,
        connection: HTTPConnection,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str],
    ) -> HTTPResponse:
        prefix = "/api/v1"
        group, _, rest = path.partition(":")
        if rest:
            prefix, path = f"/apis/{group}", rest
        headers = {"Authorization": f"Bearer {self._read('token')}", "Accept": "application/json"}
        content = None
        if body is not None:
            content, headers["Content-Type"] = json.dumps(body), "application/json"
        target = f"{urlsplit(self.address).path.rstrip('/')}{prefix}/namespaces/{self.namespace}/{path}"
        connection.request(method, f"{target}?{urlencode(query)}" if query else target, content, headers)
        return connection.getresponse()

    def _refusal(self, method: str, path: str, status: int, content: bytes) -> ClusterError | None:
        """The error that a refusal means; None if it is worth asking again."""
        if status in _BUSY or status == 401:
            return None
        said = _message(content)
        if status == 403 and "admission webhook" not in said and "quota" not in said:
            rights = "; ".join(f"{right.resource}: {', '.join(right.verbs)}" for right in RIGHTS)
            return ForbiddenError(
                f"the task's service account may not do this in namespace {self.namespace!r}: {said} Give it a Role "
                f"with these rights ({rights}), or set deployment.targets.kubeflow.service_account to one that has "
                "them."
            )
        if status == 400 and "strict decoding error" in said:
            fields = ", ".join(re.findall(r'unknown field "([^"]+)"', said))
            return ClusterError(
                f"this cluster's Kubeflow Trainer is too old: it does not know {fields} of a TrainJob, and would leave "
                "it out. Install Trainer 2.3 or newer."
            )
        if status == 404 and path.endswith(":trainjobs"):
            return ClusterError("this cluster has no TrainJobs. Install Kubeflow Trainer v2 there.")
        if status == 404:
            return NotThereError(f"{method} {path}: {said}")
        if status == 409:
            return ConflictError(f"{method} {path}: {said}")
        return ClusterError(f"the Kubernetes API refuses {method} {path}: {status} {said}")

    def _read(self, name: str) -> str:
        try:
            return (self.account / name).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise TaskError(
                f"this pod has no service account's {name} ({error}). Give it one that is mounted "
                "(automountServiceAccountToken)."
            ) from None


def _in_cluster_address() -> str:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise TaskError(
            "a training on several nodes is started from a pod, and this process does not run in a pod. On one machine "
            "give cluster.count=1, or run the pipeline without --target kubeflow."
        )
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _message(content: bytes) -> str:
    """The message of the API's Status object, in one line."""
    try:
        said = json.loads(content)
        text = str(said["message"])
    except (ValueError, KeyError, TypeError):
        text = content[:300].decode("utf-8", "replace")
    return " ".join(text.split())


def _seconds(text: str | None) -> float:
    """The seconds of a Retry-After header, at most a minute."""
    return min(60.0, float(text)) if text and text.isascii() and text.isdigit() else 0.0


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False
