"""Kubeflow Model Registry: `kubeflow:http://model-registry-service.kubeflow.svc:8080`, REST API v1alpha3.

    RegisteredModel   a group
    ModelVersion      a version: its name is the number, its externalId GROUP/CONTENT-HASH; all that is known of it is
                      in its customProperties, which come with the request that makes it
    ModelArtifact     where the model lies, for KServe, the pages and the official client, which looks for the group's
                      name; made after the version, and by the next registration of the content where a process was
                      killed in between. Those of no version are the revisions of a group's tag: see change_tag

Names within a model and external ids are unique in the registry's database, so a second version of a content and a
second version of a number are refused (409), whatever runs at the same time; those of archived versions, too. The
server finds a content, a number, the newest version and the champion by itself: no question but `versions` and `groups`
reads a group's versions.

Versions whose names are not numbers belong to others and are left alone, and so are archived ones. MySQL ignores the
case of letters, so the name in each answer is compared with the requested name.

Plain HTTP, without the official client `model-registry`: that contacts the server when it is made, cannot set an
external id when it registers, makes model, version and artifact in three requests that cannot be repeated safely, and
brings aiohttp, nest-asyncio and pydantic. The API is documented at
https://www.kubeflow.org/docs/components/model-registry/reference/rest-api/.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterator, Sequence

from drivetrain.base.addresses import address_problem
from drivetrain.base.bounds import is_number
from drivetrain.base.errors import InputError
from drivetrain.registry.backends._backend import NewVersion, Service, no_group, no_version
from drivetrain.registry.backends._kubeflow_rest import (
    BASE,
    NUMBER,
    PAGE,
    AnswerError,
    Json,
    Rest,
    count,
    has_number,
    is_ours,
    properties,
    seconds,
    tags_in,
    texts,
    with_texts,
)
from drivetrain.registry.backends._tags import (
    APPROVED,
    DECIDED,
    METRICS,
    PACKAGE,
    checked_decision,
    decided,
    tags_of,
    version_of,
    warn_once,
)
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import (
    AbsentError,
    ModelVersion,
    RegistryError,
    checked_approval,
    checked_group,
    checked_hash,
    checked_tag,
    shown,
)

_LIVE = "state = 'LIVE'"
# MySQL's TEXT, which the URI of an artifact is; the name of a property is a VARCHAR(255).
_MOST_URI_BYTES, _MOST_PROPERTY_NAME = 65_535, 255
# Numbers that others take between our look and our request; each costs one more attempt.
_MOST_COLLISIONS = 100
# Revisions of a tag after the number in the group, as when that number was removed by another program.
_MOST_REVISIONS = 10_000
_WRITER = "drivetrain.writer"


def connect(location: str) -> KubeflowRegistry:
    """The registry at an http(s) address."""
    return KubeflowRegistry(location)


class KubeflowRegistry(Service):
    """The registry at `address`. One object serves any number of threads."""

    no_history = "Kubeflow Model Registry keeps no history and reports no changes: ask for the champion regularly."

    def __init__(self, address: str) -> None:
        if problem := address_problem(address):
            raise InputError(
                f"registry 'kubeflow:{shown(address)[:80]}' is no address: {problem}. Write kubeflow:http://HOST:PORT "
                "or kubeflow:https://HOST."
            )
        self.address = address.rstrip("/")
        self._rest = Rest(self.address)

    def _register(self, new: NewVersion) -> tuple[int, bool]:
        group, content_hash, record = new.group, new.content_hash, new.record
        if (size := len(record.artifact.encode())) > _MOST_URI_BYTES:
            raise InputError(f"the artifact's URI has {size:,} bytes; the registry keeps at most {_MOST_URI_BYTES:,}.")
        # For the pages; a metric whose name is too long for them stands in the tags alone.
        shown_metrics = {
            name: {"metadataType": "MetadataDoubleValue", "double_value": number}
            for name, number in new.metrics.items()
            if len(name) <= _MOST_PROPERTY_NAME
        }
        body: Json = {
            "externalId": f"{group}/{content_hash}",
            "description": record.description,
            "state": "LIVE",
            "customProperties": {**shown_metrics, **texts(tags_of(new))},
        }
        model = self._model(group) or self._make_model(group)
        if model.get("state") == "ARCHIVED":
            raise InputError(f"group {group!r} is archived at {self.address}. Restore it, or register in another one.")
        version, created = self._with_content(group, content_hash), False
        if version is None:
            version, created = self._make_version(model, group, content_hash, body)
        if version.get("state") == "ARCHIVED":
            raise InputError(
                f"this content is version {version['name']} of {group!r}, which is archived at {self.address}. Restore "
                "that version: a content is registered once."
            )
        self._keep_artifact(version["id"], group, record.artifact)
        return int(version["name"]), created

    def versions(self, group: str) -> list[ModelVersion]:
        model = self._model(group)
        found = self._all(group, model) if model else []
        if not found:
            raise self._no_group(group, model)
        return found

    def version(self, group: str, which: int | str = "latest") -> ModelVersion:
        return self._shown(group, self._one(group, which), alone=True)

    def champion(self, group: str) -> ModelVersion | None:
        found = next(self._approved(group, self._model(group), first=1), None)
        return None if found is None else self._shown(group, found, alone=True)

    def approved(self, group: str) -> list[ModelVersion]:
        return [self._shown(group, each) for each in self._approved(group, self._model(group))]

    def find(self, group: str, content_hash: str) -> ModelVersion | None:
        checked_hash(content_hash)
        found = self._with_content(group, content_hash) if self._model(group) else None
        return self._shown(group, found) if found and is_ours(found) else None

    def set_status(
        self, group: str, version: int, status: str, *, reason: str | None = None, by: str | None = None
    ) -> ModelVersion:
        wanted = checked_approval(status)
        found = self._one(group, version)
        current = self._shown(group, found)
        text = decided(wanted, reason, by, before=current)
        if (current.status, current.reason) == (wanted, reason):
            return current
        path = f"/model_versions/{found['id']}"
        changed = self._rest.done("PATCH", path, {"customProperties": with_texts(found, {DECIDED: text})})
        if tags_in(changed).get(DECIDED) != text:
            raise RegistryError(
                f"{self.address} did not keep the decision on {group!r} version {version}. Remove its property "
                f"{DECIDED!r}, which has another type than a text, and decide again."
            )
        return checked_decision(self._shown(group, changed), wanted)

    def tags(self, group: str) -> dict[str, str]:
        return tags_in(self._model(group) or {})

    def change_tag(self, group: str, name: str, change: Callable[[str], str]) -> None:
        """Keep a text with a group; see Registry.

        Each change replaces all properties of a model, also those that another caller changed meanwhile. So a change is
        first written as an artifact whose external id counts the revisions of the tag. The registry lets only one
        caller make it; another call that comes to the same number reads the text there, and changes that.
        """
        model = self._model(group)
        if model is None or next(self._newest(model), None) is None:
            raise self._no_group(group, model)
        counter, writer = f"{name}.revision", uuid.uuid4().hex
        text, last = tags_in(model).get(name, ""), count(model, counter)
        for revision in range(last + 1, last + _MOST_REVISIONS):
            changed = change(text)
            checked_tag(name, changed)
            key, said = f"{group}/{name}/{revision}", texts({name: changed, _WRITER: writer})
            claim: Json = {"artifactType": "model-artifact", "externalId": key, "customProperties": said}
            try:
                made = self._rest.ask("POST", "/artifacts", claim)
            except AnswerError as error:
                made = self._rest.find("/artifact", externalId=key) if error.status == 409 else None
                if made is None:
                    raise self._rest.refused(error) from None
            kept = tags_in(made)
            if name not in kept:
                raise RegistryError(f"{self.address} ignores case, and has tag {name!r} of {group!r} in another case.")
            if kept.get(_WRITER) == writer:
                said = with_texts(model, {name: changed})
                said[counter] = {"metadataType": "MetadataIntValue", "int_value": str(revision)}
                self._rest.done("PATCH", f"/registered_models/{model['id']}", {"customProperties": said})
                return
            text = kept[name]
        raise RegistryError(f"{self.address}: others took {_MOST_REVISIONS:,} revisions of {name!r}. Try again.")

    def _groups(self) -> Iterator[tuple[str, float, Sequence[ModelVersion]]]:
        for model in self._rest.pages("/registered_models"):
            if versions := self._all(str(model["name"]), model):
                self._warn_archived(model)
                yield str(model["name"]), seconds(model), versions

    def _model(self, group: str) -> Json | None:
        model = self._rest.find("/registered_model", name=checked_group(group))
        if model is None:
            return None
        if model.get("name") != group:
            raise InputError(
                f"{self.address} has a group {str(model.get('name'))[:80]!r}, and its database does not distinguish it "
                f"from {group!r}. Write the name as it is there."
            )
        self._warn_archived(model)
        return model

    def _warn_archived(self, model: Json) -> None:
        if model.get("state") == "ARCHIVED":
            warn_once(f"group {model['name']!r} is archived at {self.address}: its pages do not list it.")

    def _make_model(self, group: str) -> Json:
        try:
            return self._rest.ask("POST", "/registered_models", {"name": group, "state": "LIVE"})
        except AnswerError as error:
            model = self._model(group) if error.status == 409 else None
            if model is None:
                raise self._rest.refused(error) from None
            return model

    def _make_version(self, model: Json, group: str, content_hash: str, body: Json) -> tuple[Json, bool]:
        """The version of a content that was not there, and whether this call made it."""
        number = 0
        for _ in range(_MOST_COLLISIONS):
            versions = self._rest.pages(f"/registered_models/{model['id']}/versions", first=1, newest_first=True)
            newest = next((int(each["name"]) for each in versions if has_number(each)), 0)
            # Numbers that others gave by hand need not count up.
            number = max(newest, number) + 1
            try:
                made = {**body, "name": str(number), "registeredModelId": model["id"]}
                return self._rest.ask("POST", "/model_versions", made), True
            except AnswerError as error:
                if error.status != 409:
                    raise self._rest.refused(error) from None
            if there := self._with_content(group, content_hash):
                return there, False
        raise RegistryError(f"{self.address}: others took {_MOST_COLLISIONS} numbers of {group!r}. Try again.")

    def _with_content(self, group: str, content_hash: str) -> Json | None:
        """The version of a content, an archived one, too."""
        found = self._rest.find("/model_version", externalId=f"{group}/{content_hash}")
        return found if found and has_number(found) else None

    def _newest(self, model: Json, where: str = _LIVE, first: int = 1) -> Iterator[Json]:
        """The versions that were made last; a number is higher than those made before, unless others gave it."""
        pages = self._rest.pages(
            f"/registered_models/{model['id']}/versions", where=where, first=first, newest_first=True
        )
        return filter(is_ours, pages)

    def _approved(self, group: str, model: Json | None, first: int = PAGE) -> Iterator[Json]:
        if model:
            where = f"{_LIVE} AND {DECIDED}.string_value LIKE '{APPROVED}'"
            for each in self._newest(model, where, first):
                if self._shown(group, each).status == "Approved":  # MySQL finds `approved`, too, which is no status
                    yield each

    def _one(self, group: str, which: int | str) -> Json:
        model, wanted = self._model(group), str(which)
        found = None
        if model and wanted == "approved":
            found = next(self._approved(group, model, first=1), None)
        elif model and wanted == "latest":
            found = next(self._newest(model), None)
        elif model and NUMBER.fullmatch(wanted):
            found = self._rest.find("/model_version", name=wanted, parentResourceId=str(model["id"]))
        if found and is_ours(found):
            return found
        if found:
            raise AbsentError(f"version {wanted} of {group!r} is archived at {self.address}. Restore it there first.")
        newest = next(self._newest(model), None) if model else None
        if model is None or newest is None:
            raise self._no_group(group, model)
        shown = (self._shown(group, each) for each in self._newest(model, first=PAGE))
        waits = next((each.version for each in shown if each.status == "PendingManualApproval"), None)
        raise no_version(group, wanted, int(newest["name"]), waits)

    def _no_group(self, group: str, model: Json | None) -> AbsentError:
        if model:
            return AbsentError(
                f"{self.address} has no version of {group!r} whose name is a number and that is not archived."
            )
        return no_group(self.address, group, {str(each["name"]) for each in self._rest.pages("/registered_models")})

    def _all(self, group: str, model: Json) -> list[ModelVersion]:
        pages = self._rest.pages(f"/registered_models/{model['id']}/versions")
        found = [self._shown(group, each) for each in pages if is_ours(each)]
        return sorted(found, key=lambda version: version.version, reverse=True)

    def _shown(self, group: str, version: Json, *, alone: bool = False) -> ModelVersion:
        """A version as we show it. Those of others say their metrics in properties, and where the model lies in an
        artifact, which is asked for where the version stands `alone`."""
        tags = tags_in(version)
        found = version_of(
            tags,
            group=group,
            version=int(version["name"]),
            arn=f"{self.address}{BASE}/model_versions/{version['id']}",
            created_at=seconds(version),
        )
        if METRICS not in tags:
            numbers = {name: value.get("double_value") for name, value in properties(version).items()}
            found = dataclasses.replace(found, metrics={each: n for each, n in numbers.items() if is_number(n)})
        if alone and PACKAGE not in tags:
            artifacts = self._rest.pages(f"/model_versions/{version['id']}/artifacts", first=1, newest_first=True)
            uri = next((str(each["uri"]) for each in artifacts if each.get("uri")), "")
            record = ModelRecord(artifact=uri, description=str(version.get("description") or ""))
            found = dataclasses.replace(found, record=record)
        return found

    def _keep_artifact(self, version: str, group: str, uri: str) -> None:
        """Register the place of the model once: an artifact that is there is not changed."""
        path = f"/model_versions/{version}/artifacts"
        if uri and not any(each.get("uri") == uri for each in self._rest.pages(path)):
            artifact = {"artifactType": "model-artifact", "name": group, "uri": uri, "state": "LIVE"}
            try:
                self._rest.ask("POST", path, artifact)
            except AnswerError as error:
                if error.status != 409:  # another process has just made it
                    raise self._rest.refused(error) from None
