"""Kubeflow Model Registry: `kubeflow:http://model-registry-service.kubeflow.svc:8080`, REST API v1alpha3.

    RegisteredModel   a group
    ModelVersion      a version: its name is the number, its externalId GROUP/CONTENT-HASH; all that is known of it is
                      in its customProperties, which come with the request that makes it
    ModelArtifact     where the model lies, for KServe and the pages; made after the version, and again by whoever
                      registers the content next when that did not come to it

Names within a model and external ids are unique in the registry's database, so a second version of a content and a
second version of a number are refused (409), whatever runs at the same time. Should a deployment not refuse an external
id, the lowest number is the version and the other is archived; see _selection.registered_once. Versions whose names are
no numbers are other people's and left alone.

Plain HTTP, without the official client `model-registry`: that contacts the server when it is made, cannot set an
external id when it registers, makes model, version and artifact in three requests of which none is repeated safely, and
brings aiohttp, nest-asyncio and pydantic. The API is documented at
https://www.kubeflow.org/docs/components/model-registry/reference/rest-api/.

A token is read from the file that $KF_PIPELINES_SA_TOKEN_PATH names, as the official client does.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from drivetrain.base.addresses import address_problem
from drivetrain.base.errors import InputError
from drivetrain.registry.backends._selection import Kept, chosen, no_group, registered_once
from drivetrain.registry.backends._tags import CONTENT_HASH, DECIDED, decided, is_untouched, tags_of, version_of
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import (
    ModelEvent,
    ModelGroup,
    ModelVersion,
    RegistryError,
    checked_approval,
    checked_group,
    checked_hash,
    checked_metrics,
    checked_request,
    checked_tag,
    shown,
)

ATTEMPTS = 5
"""Of each request that fails with 429, 5xx or a lost connection. Every request may be repeated: see above."""
FIRST_PAUSE = 0.25
"""Seconds before the second attempt; each later pause is twice the one before."""
ANSWER_SECONDS = 30.0
PAGE = 200
TOKEN_VARIABLE = "KF_PIPELINES_SA_TOKEN_PATH"
_BASE = "/api/model_registry/v1alpha3"
# Numbers that others take between our look and our request; each costs one more attempt.
_MOST_COLLISIONS = 100

Json = dict[str, Any]


def connect(location: str) -> KubeflowRegistry:
    """The registry at an http(s) address."""
    return KubeflowRegistry(location)


class _AnswerError(Exception):
    """The server's answer was not what was asked for."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"{said} ({status})")
        self.status = status


class KubeflowRegistry:
    """The registry at `address`. One object serves any number of threads."""

    keeps_history = False

    def __init__(self, address: str) -> None:
        if problem := address_problem(address):
            raise InputError(
                f"registry 'kubeflow:{shown(address)[:80]}' is no address: {problem}. Write kubeflow:http://HOST:PORT "
                "or kubeflow:https://HOST."
            )
        self.address = address.rstrip("/")

    def register(
        self,
        group: str,
        content_hash: str,
        record: ModelRecord,
        *,
        metrics: Mapping[str, float] | None = None,
        execution: str | None = None,
        approval: str = "PendingManualApproval",
    ) -> tuple[int, bool]:
        """The version of this content in the group, and whether this call made it; see Registry."""
        checked_group(group)
        checked_hash(content_hash)
        numbers = checked_metrics(metrics)
        request = checked_request(group, record)
        tags = tags_of(content_hash, request, numbers, execution, checked_approval(approval))
        properties = {name: {"metadataType": "MetadataDoubleValue", "double_value": n} for name, n in numbers.items()}
        body: Json = {
            "externalId": f"{group}/{content_hash}",
            "description": record.description,
            "state": "LIVE",
            "customProperties": {**properties, **_texts(tags)},
        }
        ids: dict[int, str] = {}

        def holding() -> list[Kept]:
            model = self._model(group)
            found: list[Kept] = []
            for version in self._versions(model["id"]) if model else ():
                texts = _tags(version)
                if texts.get(CONTENT_HASH) == content_hash and version.get("state") != "ARCHIVED":
                    ids[int(version["name"])] = version["id"]
                    found.append(Kept(int(version["name"]), is_untouched(texts)))
            return found

        def create() -> int:
            model = self._model(group) or self._make_model(group)
            for _ in range(_MOST_COLLISIONS):
                taken = [int(version["name"]) for version in self._versions(model["id"])]
                made = {**body, "name": str(max(taken, default=0) + 1), "registeredModelId": model["id"]}
                try:
                    version = self._ask("POST", "/model_versions", made)
                except _AnswerError as error:
                    if error.status == 409 and not holding():
                        continue  # the number is somebody else's now
                    raise self._not_taken(error) from None
                ids[int(version["name"])] = version["id"]
                return int(version["name"])
            raise RegistryError(f"{self.address}: others took {_MOST_COLLISIONS} numbers of {group!r}. Try again.")

        def archive(number: int) -> None:
            self._done("PATCH", f"/model_versions/{ids[number]}", {"state": "ARCHIVED"})

        number, created = registered_once(holding, create, archive)
        self._keep_artifact(ids[number], group, number, record.artifact)
        return number, created

    def groups(self) -> list[ModelGroup]:
        """Every group that has a version, by name."""
        found: list[ModelGroup] = []
        for model in self._pages("/registered_models"):
            versions = self._read(str(model["name"]), model)
            if versions:
                found.append(
                    ModelGroup(
                        name=str(model["name"]),
                        num_versions=len(versions),
                        latest=versions[0],
                        approved=next((each.version for each in versions if each.status == "Approved"), None),
                        created_at=_seconds(model),
                    )
                )
        return sorted(found, key=lambda group: group.name)

    def versions(self, group: str) -> list[ModelVersion]:
        """Every version of a group, the newest first."""
        found = self._read(group, self._model(group))
        if not found:
            there = {str(model["name"]) for model in self._pages("/registered_models")} - {group}
            raise no_group(self.address, group, there)
        return found

    def version(self, group: str, which: int | str = "latest") -> ModelVersion:
        """One version: a number, `latest`, or `approved` (the newest approved one)."""
        return chosen(group, which, self.versions(group))

    def champion(self, group: str) -> ModelVersion | None:
        """The newest approved version; None where there is none."""
        return next((each for each in self._read(group, self._model(group)) if each.status == "Approved"), None)

    def find(self, group: str, content_hash: str) -> ModelVersion | None:
        """The version of a content; None where it is not registered."""
        checked_hash(content_hash)
        found = [each for each in self._read(group, self._model(group)) if each.content_hash == content_hash]
        return found[-1] if found else None

    def set_status(
        self, group: str, version: int, status: str, *, reason: str | None = None, by: str | None = None
    ) -> ModelVersion:
        """Approve, reject or put back a version; see Registry."""
        wanted = checked_approval(status)
        current = self.version(group, version)
        if (current.status, current.reason) == (wanted, reason):
            return current
        path = f"/model_versions/{current.arn.rpartition('/')[2]}"
        # All properties, since some releases replace them and some add to them.
        properties = self._done("GET", path).get("customProperties", {})
        said = {DECIDED: decided(wanted, reason, by)}
        self._done("PATCH", path, {"customProperties": {**properties, **_texts(said)}})
        return self.version(group, version)

    def tags(self, group: str) -> dict[str, str]:
        """What is kept with a group; see Registry."""
        return _tags(self._model(group) or {})

    def change_tag(self, group: str, name: str, change: Callable[[str], str]) -> None:
        """Keep a text with a group; see Registry."""
        text = change(self.tags(group).get(name, ""))
        checked_tag(name, text)
        self.versions(group)  # says what is wrong before anything is written
        model = self._model(group) or {}
        # All properties, since some releases replace them and some add to them.
        properties = {**model.get("customProperties", {}), **_texts({name: text})}
        self._done("PATCH", f"/registered_models/{model['id']}", {"customProperties": properties})

    def events(self, group: str | None = None, *, after: int = 0) -> list[ModelEvent]:
        """Always an error: see Registry."""
        raise InputError(
            "Kubeflow Model Registry keeps no history and tells nobody of changes: ask for the champion now and then."
        )

    def _model(self, group: str) -> Json | None:
        checked_group(group)
        try:
            return self._ask("GET", f"/registered_model?{urllib.parse.urlencode({'name': group})}")
        except _AnswerError as error:
            if error.status != 404:
                raise self._not_taken(error) from None
        # Whatever else answers at a wrong address says 404, too; only a registry lists its models.
        self._done("GET", "/registered_models?pageSize=1", has="pageSize")
        return None

    def _make_model(self, group: str) -> Json:
        try:
            return self._ask("POST", "/registered_models", {"name": group, "state": "LIVE"})
        except _AnswerError as error:
            model = self._model(group) if error.status == 409 else None
            if model is None:
                raise self._not_taken(error) from None
            return model

    def _versions(self, model: str) -> Iterator[Json]:
        """The versions of a model that have numbers, archived ones too."""
        for version in self._pages(f"/registered_models/{model}/versions"):
            if str(version.get("name")).isdecimal():
                yield version

    def _read(self, group: str, model: Json | None) -> list[ModelVersion]:
        found = [
            version_of(
                _tags(version),
                group=group,
                version=int(version["name"]),
                arn=f"{self.address}{_BASE}/model_versions/{version['id']}",
                created_at=_seconds(version),
            )
            for version in (self._versions(model["id"]) if model else ())
            if version.get("state") != "ARCHIVED"
        ]
        return sorted(found, key=lambda version: version.version, reverse=True)

    def _keep_artifact(self, version: str, group: str, number: int, uri: str) -> None:
        """Where the model lies, once: of what is there under the name nothing is changed."""
        path = f"/model_versions/{version}/artifacts"
        if uri and not any(each.get("uri") == uri for each in self._pages(path)):
            artifact = {"artifactType": "model-artifact", "name": f"{group}-{number}", "uri": uri, "state": "LIVE"}
            try:
                self._ask("POST", path, artifact)
            except _AnswerError as error:
                if error.status != 409:  # another process has just made it
                    raise self._not_taken(error) from None

    def _pages(self, path: str) -> Iterator[Json]:
        query = {"pageSize": str(PAGE), "orderBy": "ID", "sortOrder": "ASC"}
        while True:
            page = self._done("GET", f"{path}?{urllib.parse.urlencode(query)}", has="pageSize")
            for resource in cast("list[Any]", page.get("items") or []):
                if not isinstance(resource, dict) or "id" not in resource:
                    raise self._foreign("GET", path)
                yield cast("Json", resource)
            token = page.get("nextPageToken")
            if not token:
                return
            query["nextPageToken"] = str(token)

    def _done(self, method: str, path: str, body: Json | None = None, *, has: str = "id") -> Json:
        try:
            return self._ask(method, path, body, has=has)
        except _AnswerError as error:
            raise self._not_taken(error) from None

    def _not_taken(self, error: _AnswerError) -> InputError:
        if error.status in (401, 403):
            return RegistryError(
                f"{self.address} refuses: {error}. Name a file with a token that may use it in ${TOKEN_VARIABLE}."
            )
        if error.status == 404:  # what we ask for has just been there, or is always
            return RegistryError(f"{self.address} has no such path or resource: {error}. Check the address.")
        return InputError(f"{self.address} does not take it: {error}.")

    def _foreign(self, method: str, path: str) -> RegistryError:
        return RegistryError(
            f"{self.address} did not answer as Kubeflow Model Registry does, {method} {path.partition('?')[0]}. "
            "Check the address."
        )

    def _ask(self, method: str, path: str, body: Json | None = None, *, has: str = "id") -> Json:
        """The answer to a request.

        Args:
            has: a field that the registry's own answers always have: `id` of a resource, `pageSize` of a list.

        Raises:
            _AnswerError: the server answers with a status that is not worth another attempt.
            RegistryError: no answer, none but failures, or one of something else than the registry.
        """
        problem = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(FIRST_PAUSE * 2 ** (attempt - 1))
            try:
                answer = self._send(method, path, body)
                if has not in answer:
                    raise self._foreign(method, path)
                return answer
            except _AnswerError as error:
                if error.status < 500 and error.status != 429:
                    raise
                problem = f"failed, {method} {path.partition('?')[0]}, in {ATTEMPTS} attempts: {error}"
            except InputError:
                raise  # the token, or another server: no other attempt mends it
            except (OSError, EOFError, ValueError) as error:  # URLError and lost connections; an answer that is no JSON
                reason = " ".join(str(getattr(error, "reason", error)).split())[:160] or type(error).__name__
                problem = f"cannot be reached in {ATTEMPTS} attempts: {reason}"
        raise RegistryError(f"{self.address} {problem}. Check the address and the network, and try again.")

    def _send(self, method: str, path: str, body: Json | None) -> Json:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if file := os.environ.get(TOKEN_VARIABLE):
            headers["Authorization"] = f"Bearer {_token(file)}"
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        request = urllib.request.Request(f"{self.address}{_BASE}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # http and https alone  # nosec B310
                content: Any = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise _AnswerError(error.code, _reason(error)) from None
        except Exception as error:
            import http.client

            if isinstance(error, http.client.HTTPException):  # an answer that broke off
                raise ConnectionError(str(error) or type(error).__name__) from None
            raise
        if not isinstance(content, dict):
            raise ValueError("the answer is no JSON object")
        return cast("Json", content)


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        content: Any = json.loads(error.read())
        said = str(content["message"])
    except (OSError, ValueError, KeyError, TypeError):
        said = str(error.reason)
    return " ".join(said.split())[:160].rstrip(".") or "no reason given"


def _token(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise RegistryError(f"the token of ${TOKEN_VARIABLE} cannot be read: {error}.") from None


def _texts(tags: Mapping[str, str]) -> Json:
    return {name: {"metadataType": "MetadataStringValue", "string_value": text} for name, text in tags.items()}


def _tags(version: Mapping[str, Any]) -> dict[str, str]:
    properties = cast("Mapping[str, Mapping[str, Any]]", version.get("customProperties") or {})
    return {name: str(value["string_value"]) for name, value in properties.items() if "string_value" in value}


def _seconds(resource: Mapping[str, Any]) -> float:
    return int(resource.get("createTimeSinceEpoch") or 0) / 1000
