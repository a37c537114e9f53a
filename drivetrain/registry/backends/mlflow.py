"""MLflow: `mlflow:http://host:5000`, `mlflow:sqlite:///runs/mlflow.db`, or `mlflow` for what $MLFLOW_REGISTRY_URI or
$MLFLOW_TRACKING_URI names. Needs the package mlflow (pip install 'drivetrain[mlflow]').

A group is a registered model, a version a model version, and what is known of it stands in its tags, which come with
the one request that makes it; the alias `champion` follows the newest approved version, for those who load by alias.

MLflow does not refuse a second version of a content: what is there is looked for first, and of two that were made at
the same moment the lowest number is the version, and the other is taken back; see _backend.registered_once.
"""

from __future__ import annotations

import importlib
import os
import re
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.base.markup import page_in
from drivetrain.registry.backends._backend import (
    Kept,
    NewVersion,
    Service,
    chosen,
    no_group,
    registered_once,
    without_header,
)
from drivetrain.registry.backends._mlflow_user import user_of
from drivetrain.registry.backends._tags import (
    APPROVED,
    CONTENT_HASH,
    DECIDED,
    checked_decision,
    decided,
    is_untouched,
    tags_of,
    version_of,
)
from drivetrain.registry.registry import (
    ModelVersion,
    RegistryError,
    checked_approval,
    checked_group,
    checked_hash,
    checked_tag,
    shown,
)

CHAMPION = "champion"
# MLflow's own settings, unless they are set: its 7 attempts take more than four minutes.
HTTP_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "4",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
PAGE = 200
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_URL = re.compile(r"[\w+.-]+://[^\s'\"]+")
# Its SQL store gives up after 3 collisions with others that register at the same time.
_MOST_COLLISIONS = 100


def connect(location: str) -> MlflowRegistry:
    """The registry at a URI of MLflow's."""
    return MlflowRegistry(location or None)


class MlflowRegistry(Service):
    """The registry at `uri`. One object serves any number of threads."""

    no_history = (
        "MLflow keeps no readable history of model versions. Give the server a webhook for changes "
        "(model_version_tag.set), or ask for the champion regularly."
    )

    def __init__(self, uri: str | None = None) -> None:
        self.uri = uri
        self._guard = threading.Lock()

    @property
    def caller(self) -> str | None:
        """The user whom a server with MLflow's own login lets in; None of any other."""
        with self._told("asking who asks"):
            return user_of(self.uri)

    def _register(self, new: NewVersion) -> tuple[int, bool]:
        group, content_hash, uri = new.group, new.content_hash, new.record.artifact
        tags = tags_of(new)

        def holding() -> list[Kept]:
            return [
                Kept(int(version.version), is_untouched(version.tags))
                for version in self._with_content(group, content_hash)
            ]

        def create() -> int:
            self._make_model(group)
            for _ in range(_MOST_COLLISIONS):
                try:
                    with self._told(f"registering in {group!r}"):
                        version = self._client.create_model_version(
                            group,
                            # A server takes no path of our machine for a source; it stands in the tags.
                            source=uri
                            if uri and not uri.startswith("file:")
                            else f"drivetrain://content/{content_hash}",
                            tags=tags,
                            description=new.record.description or None,
                        )
                        return int(version.version)
                except _CollisionError:
                    if holding():
                        raise InputError("registered by another") from None
            raise RegistryError(f"{self._name}: others took {_MOST_COLLISIONS} numbers of {group!r}. Try again.")

        def delete(version: int) -> None:
            with self._told(f"taking back {group!r} version {version}", absent=True):
                self._client.delete_model_version(group, str(version))

        number, created = registered_once(holding, create, delete)
        if new.status == "Approved":
            self._move_alias(group)
        return number, created

    def versions(self, group: str) -> list[ModelVersion]:
        found = list(self._read(group))
        if not found:
            raise no_group(self._name, group, {str(model.name) for model in self._models()} - {group})
        return found

    def version(self, group: str, which: int | str = "latest") -> ModelVersion:
        wanted = str(which)
        found = None
        if wanted == "latest" or _NUMBER.fullmatch(wanted):
            only = "" if wanted == "latest" else f" and version_number = {wanted}"
            found = next(self._read(group, only, first=1), None)
        elif wanted == "approved":
            found = self.champion(group)
        return found or chosen(group, wanted, self.versions(group))

    def champion(self, group: str) -> ModelVersion | None:
        return next(self._approved(group, first=1), None)

    def approved(self, group: str) -> list[ModelVersion]:
        return list(self._approved(group))

    def find(self, group: str, content_hash: str) -> ModelVersion | None:
        checked_group(group)
        checked_hash(content_hash)
        found = [_version(each) for each in self._with_content(group, content_hash)]
        if not found:
            self._has(group)
        return min(found, key=lambda version: version.version, default=None)

    def set_status(
        self, group: str, version: int, status: str, *, reason: str | None = None, by: str | None = None
    ) -> ModelVersion:
        wanted = checked_approval(status)
        current = self.version(group, version)
        if (current.status, current.reason) != (wanted, reason):
            with self._told(f"deciding on {group!r} version {version}"):
                self._client.set_model_version_tag(
                    group, str(current.version), DECIDED, decided(wanted, reason, by, before=current)
                )
        self._move_alias(group)
        return checked_decision(self.version(group, version), wanted)

    def tags(self, group: str) -> dict[str, str]:
        checked_group(group)
        if not self._has(group):
            return {}
        with self._told(f"reading the tags of {group!r}"):
            return {str(name): str(text) for name, text in self._client.get_registered_model(group).tags.items()}

    def change_tag(self, group: str, name: str, change: Callable[[str], str]) -> None:
        text = change(self.tags(group).get(name, ""))
        checked_tag(name, text)
        self.versions(group)  # says what is wrong before anything is written
        with self._told(f"tagging {group!r}"):
            self._client.set_registered_model_tag(group, name, text)

    def _groups(self) -> Iterator[tuple[str, float, Sequence[ModelVersion]]]:
        for model in self._models():
            yield str(model.name), model.creation_timestamp / 1000, list(self._read(str(model.name)))

    @cached_property
    def _client(self) -> Any:
        with self._guard:
            for name, value in HTTP_SETTINGS.items():
                os.environ.setdefault(name, value)
            # No usage report leaves a job that registers a model.
            os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
            try:
                tracking: Any = importlib.import_module("mlflow.tracking")
            except ModuleNotFoundError:
                raise RegistryError(
                    "the registry mlflow needs the package mlflow. Install it with: pip install 'drivetrain[mlflow]'."
                ) from None
            importlib.import_module("logging").getLogger("mlflow").setLevel("WARNING")
            _check_database(self.uri or "")
            with self._told("connecting"):
                return tracking.MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)

    def _make_model(self, group: str) -> None:
        if not self._has(group):
            # Another process may make it at the same time.
            with self._told(f"making {group!r}", there=True):
                self._client.create_registered_model(group)

    def _has(self, group: str) -> bool:
        """Return True if there is such a group. MLflow answers `{}` where a search finds nothing, and reads what any
        other server answers as that: so who finds nothing asks for one model, which MLflow must name, or say that it
        is not there."""
        try:
            with self._told(f"reading {group!r}"):
                named = str(self._client.get_registered_model(group).name)
        except _AbsentError:
            return False
        if named != group:
            raise RegistryError(f"{self._name} did not answer as MLflow does, reading {group!r}. Check the address.")
        return True

    def _models(self) -> Iterator[Any]:
        token = None
        while True:
            with self._told("listing models"):
                page = self._client.search_registered_models(max_results=PAGE, page_token=token)
            if not page and token is None:
                self._has("drivetrain")  # any name will do
            yield from page
            token = page.token
            if not token:
                return

    def _search(self, condition: str, first: int = PAGE) -> Iterator[Any]:
        """The versions that fulfil a condition, the newest first, read as far as they are asked for."""
        token, most = None, first
        while True:
            with self._told("listing versions"):
                page = self._client.search_model_versions(
                    condition, max_results=most, order_by=["version_number DESC"], page_token=token
                )
            yield from page
            token, most = page.token, PAGE
            if not token:
                return

    def _with_content(self, group: str, content_hash: str) -> Iterator[Any]:
        return self._search(f"name = '{group}' and tags.`{CONTENT_HASH}` = '{content_hash}'")

    def _read(self, group: str, only: str = "", first: int = PAGE) -> Iterator[ModelVersion]:
        checked_group(group)
        number = -1
        for number, version in enumerate(self._search(f"name = '{group}'{only}", first)):  # noqa: B007
            yield _version(version)
        if number < 0:
            self._has(group)

    def _approved(self, group: str, first: int = PAGE) -> Iterator[ModelVersion]:
        found = self._read(group, f" and tags.`{DECIDED}` LIKE '{APPROVED}'", first)
        return (version for version in found if version.status == "Approved")  # not one that was edited by hand

    def _move_alias(self, group: str) -> None:
        """A convenience for others: decisions are read from the versions."""
        champion = self.champion(group)
        with self._told(f"moving the alias of {group!r}", absent=True):
            if champion is None:
                self._client.delete_registered_model_alias(group, CHAMPION)
            else:
                self._client.set_registered_model_alias(group, CHAMPION, str(champion.version))

    @property
    def _name(self) -> str:
        return f"MLflow at {shown(self.uri)}" if self.uri else "MLflow"

    @contextmanager
    def _told(self, doing: str, *, absent: bool = False, there: bool = False) -> Generator[None]:
        """Raise errors of MLflow, or of the way to it, in words that say what to do.

        Args:
            absent: whether it is fine that the thing is not there.
            there: whether it is fine that the thing is there already.
        """
        exceptions: Any = importlib.import_module("mlflow.exceptions")
        try:
            yield
        except exceptions.MlflowException as error:
            code, said = str(error.error_code), _line(error)
            if code == "RESOURCE_DOES_NOT_EXIST":
                if absent:
                    return
                raise _AbsentError(f"{self._name} has no such thing, {doing}: {said}.") from None
            if code == "RESOURCE_ALREADY_EXISTS" and there:
                return
            if "Model Version creation error" in said:
                raise _CollisionError(said) from None
            if code in ("PERMISSION_DENIED", "UNAUTHENTICATED", "UNAUTHORIZED", "CUSTOMER_UNAUTHORIZED"):
                raise RegistryError(
                    f"{self._name} refuses, {doing}: {said}. Set MLFLOW_TRACKING_USERNAME and "
                    "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, of a user who is allowed to."
                ) from None
            if code in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST", "RESOURCE_ALREADY_EXISTS"):
                raise InputError(f"{self._name} does not take it, {doing}: {said}.") from None
            raise RegistryError(
                f"{self._name} cannot be reached or fails, {doing}: {said}. Check the address, and try again."
            ) from None
        except ModuleNotFoundError as error:
            raise RegistryError(f"{self._name} needs the package {error.name} for its database. Install it.") from None
        except OSError as error:
            raise RegistryError(f"{self._name} cannot be opened: {error.strerror or _line(error)}.") from None
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in ("sqlalchemy", "sqlite3", "alembic", "requests"):
                raise
            raise RegistryError(f"{self._name} cannot be opened: {_line(error)}. Check the database.") from None


class _AbsentError(InputError):
    """There is no such model or version."""


class _CollisionError(Exception):
    """Others took the number."""


def _line(error: Exception) -> str:
    """The text of an error, without the passwords of the URLs in it."""
    text = " ".join(str(error).split())
    if (title := page_in(text)) is not None:
        text = f"{text.partition(' Response body')[0]} It answered with a page of HTML, {title!r}"
    return _URL.sub(lambda found: shown(found[0]), without_header(text))[:240].rstrip(".")


def _check_database(uri: str) -> None:
    """MLflow itself would try for minutes to open a file that cannot be one."""
    if uri.startswith("sqlite:///"):
        path = Path(uri.removeprefix("sqlite:///"))
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise RegistryError(
                f"MLflow's database {shown(str(path))} cannot be opened: it is a folder, or in a missing folder. Check "
                "the URI."
            )


def _version(version: Any) -> ModelVersion:
    number = int(version.version)
    return version_of(
        version.tags,
        group=str(version.name),
        version=number,
        arn=f"models:/{version.name}/{number}",
        created_at=version.creation_timestamp / 1000,
    )
