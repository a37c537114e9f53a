"""The installation that answers: its version, and whether it is for several users."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from drivetrain.base.errors import UserError
from drivetrain.targets.kubeflow.compile import retries
from drivetrain.targets.kubeflow.deploy import service
from drivetrain.targets.kubeflow.deploy.rest import AbsentError, Api

OLDEST, NEWEST = (2, 14, 0), (2, 17, 0)
"""Below the oldest, steps or destroying fail; the newest is the newest that was tried."""
RETRIES_CHANGED = (2, 17, 0)
RETRIES_BEFORE = (
    "Kubeflow Pipelines before 2.17 does not retry a step whose pod is gone before its end was seen. An administrator "
    "sets this once for the workflow controller: ARGO_POD_STATUS_CAPTURE_FINALIZER=true (docs/kubeflow_pipelines.md)."
)
"""In place of `retries.NOTE`, which holds from 2.17 on."""
TRIED = "2.5.0, 2.15.0 and 2.17.0"
STOCK_NAMESPACE = "kubeflow"
_VERSION = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})(-rc\.[0-9]+)?")


@dataclass(frozen=True)
class Server:
    """An installation of Kubeflow Pipelines as it describes itself.

    Attributes:
        tag: the name of its version; "" where it does not say.
        single_user: whether it ignores namespaces.
    """

    tag: str
    single_user: bool

    @property
    def version(self) -> tuple[int, ...] | None:
        """None for a fork's own name of a version."""
        found = _VERSION.fullmatch(self.tag)
        return tuple(int(each) for each in found.groups()[:3]) if found else None

    @property
    def cascades(self) -> bool:
        """True where a pipeline is deleted with its versions."""
        return self.version is None or self.version >= OLDEST

    def refuse_old(self, endpoint: str) -> None:
        """
        Raises:
            UserError: steps would fail there.
        """
        if self.version is not None and self.version < OLDEST:
            raise UserError(
                f"{endpoint} is Kubeflow Pipelines {self.tag}; {_text(OLDEST)} or newer is needed. Ask its "
                "administrator to upgrade it."
            )

    def notes(self, compiled: Iterable[str], namespace: str) -> Iterator[str]:
        """Lines to read before something is deployed there: those of the compiler, and those about this server."""
        is_older = self.version is not None and self.version < RETRIES_CHANGED
        yield from (RETRIES_BEFORE if note == retries.NOTE and is_older else note for note in compiled)
        if self.version is None:
            says = f"says {self.tag!r} for" if self.tag else "does not say"
            yield f"the server {says} its version; of Kubeflow Pipelines, {TRIED} were tried"
        elif self.version[:2] > NEWEST[:2]:
            yield f"Kubeflow Pipelines {self.tag} is newer than {_text(NEWEST)}, the newest that was tried"
        if self.single_user and namespace != STOCK_NAMESPACE:
            yield (
                f"Kubeflow Pipelines is installed for a single user there: it ignores namespace {namespace!r}. Pods, "
                f"Secrets and accounts are those of its own namespace ({STOCK_NAMESPACE} in a stock installation)"
            )


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def read(api: Api) -> Server:
    """
    Raises:
        ApiError: the API cannot be asked, or refuses.
    """
    try:
        said = service.health(api)
    except AbsentError:
        return Server("", single_user=False)
    return Server(str(said.get("tag_name") or ""), single_user=said.get("multi_user") is False)
