"""SageMaker Model Registry: `sagemaker`, or `sagemaker:eu-west-1`. Needs boto3 (pip install 'drivetrain[s3]').

A content has one version because

1. an existing version is looked for first. The hash is a property of a version and also ends its description, which
   lists show: a group costs one request per hundred versions, and one more for each version that was registered without
   it (by a step of a pipeline, say);
2. a request to make one carries a ClientToken that depends on group and hash alone: the service makes one of any
   number of such requests;
3. should the service have forgotten the token between two that come at the same time, the lowest number is the
   version, and the other is taken back; see _backend.registered_once.

The request is one, and holds all that is kept: nothing is half registered. Metrics stand in the model card; those of a
version that a pipeline's step registered lie in S3, where its package says, and are not fetched. The service keeps no
history that can be read: changes are told by EventBridge ("SageMaker Model Package State Change"), and who decided by
CloudTrail.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, NamedTuple

from drivetrain.aws.session import client, open_session
from drivetrain.registry import model_package
from drivetrain.registry.approvers import person_of
from drivetrain.registry.backends._backend import Kept, NewVersion, Service, chosen, no_group, registered_once
from drivetrain.registry.backends._sagemaker_errors import told
from drivetrain.registry.model_card import as_package_card, with_metrics
from drivetrain.registry.package_mapping import record_of
from drivetrain.registry.registry import (
    ModelVersion,
    RegistryError,
    checked_approval,
    checked_group,
    checked_hash,
    checked_tag,
)

# Says of a version that this file made it, and so may take it back.
_MADE_BY = "drivetrain-registered-by"
_GONE = ("Failed", "Deleting")


def connect(location: str) -> SageMakerRegistry:
    """The registry of a region; without one of AWS's configuration, which gives endpoint and credentials, too."""
    return SageMakerRegistry(location or None)


class _Listed(NamedTuple):
    """An entry of a version in a list."""

    version: int
    arn: str
    status: str
    content_hash: str


class SageMakerRegistry(Service):
    """The registry of an account in a region. One object serves any number of threads."""

    no_history = (
        "SageMaker keeps no readable history of model versions. EventBridge reports changes as "
        "'SageMaker Model Package State Change'; CloudTrail records who made them."
    )

    def __init__(self, region: str | None = None) -> None:
        self.region = region
        self._hashes: dict[str, str] = {}  # of versions whose description does not say it
        self._guard = threading.Lock()

    @property
    def caller(self) -> str | None:
        """The user or role whose credentials are in use; None where STS cannot be asked."""
        try:
            with self._told("asking STS whose credentials are in use"):
                sts: Any = self._opened("sts")
                return person_of(str(sts.get_caller_identity()["Arn"]))
        except RegistryError as error:
            print(f"warning: who approves is not verified: {error}", file=sys.stderr)
            return None

    def _register(self, new: NewVersion) -> tuple[int, bool]:
        group, content_hash, request = new.group, new.content_hash, _request(new)
        arns: dict[int, str] = {}

        def holding() -> list[Kept]:
            found: list[Kept] = []
            for listed in self._list(group):
                if listed.content_hash == content_hash:
                    arns[listed.version] = listed.arn
                    found.append(Kept(listed.version, untouched=False))
            if len(found) > 1:  # and one that is gone by now was taken back by who made it
                there = [each for kept in found if (each := self._find_version(arns[kept.version]))]
                found = [Kept(each.version, _is_untouched(each)) for each in there]
            return found

        def create() -> int:
            self._make_group(group)
            with self._told(f"registering in {group!r}"):
                arn = str(self._client.create_model_package(**request)["ModelPackageArn"])
                number = int(arn.rpartition("/")[2])
            arns[number] = arn
            self._describe(arn)  # a token that the service remembers may be that of a version deleted since
            return number

        def delete(version: int) -> None:
            with self._told(f"taking back {group!r} version {version}", absent=True):
                self._client.delete_model_package(ModelPackageName=arns[version])

        return registered_once(holding, create, delete)

    def versions(self, group: str) -> list[ModelVersion]:
        """Every version of a group, the newest first: one request for each, and one for a hundred."""
        return [found for listed in self._existing(group) if (found := self._find_version(listed.arn))]

    def version(self, group: str, which: int | str = "latest") -> ModelVersion:
        return self._describe(chosen(group, which, self._existing(group)).arn)

    def champion(self, group: str) -> ModelVersion | None:
        approved = self._list(group, ModelApprovalStatus="Approved")
        return self._describe(approved[0].arn) if approved else None

    def approved(self, group: str) -> list[ModelVersion]:
        """Every approved version, the newest first: one request for each."""
        listed = self._list(group, ModelApprovalStatus="Approved")
        return [found for each in listed if (found := self._find_version(each.arn))]

    def find(self, group: str, content_hash: str) -> ModelVersion | None:
        checked_hash(content_hash)
        found = [listed for listed in self._list(group) if listed.content_hash == content_hash]
        return self._describe(found[-1].arn) if found else None

    def set_status(
        self, group: str, version: int, status: str, *, reason: str | None = None, by: str | None = None
    ) -> ModelVersion:
        """Approve, reject or put back a version; see Registry. The service knows itself who calls: `by` is not kept."""
        wanted = checked_approval(status)
        current = self.version(group, version)
        if (current.status, current.reason) == (wanted, reason):
            return current
        with self._told(f"deciding on {group!r} version {version}"):
            self._client.update_model_package(
                ModelPackageArn=current.arn, ModelApprovalStatus=wanted, ApprovalDescription=reason or ""
            )
        return self._describe(current.arn)

    def tags(self, group: str) -> dict[str, str]:
        found: dict[str, str] = {}
        if arn := self._group_arn(checked_group(group)):
            with self._told(f"reading the tags of {group!r}"):
                for page in self._client.get_paginator("list_tags").paginate(ResourceArn=arn):
                    found |= {str(tag["Key"]): str(tag["Value"]) for tag in page["Tags"]}
        return found

    def change_tag(self, group: str, name: str, change: Callable[[str], str]) -> None:
        text = change(self.tags(group).get(name, ""))
        checked_tag(name, text)
        self._existing(group)  # says what is wrong before anything is written
        with self._told(f"tagging {group!r}"):
            self._client.add_tags(ResourceArn=self._group_arn(group), Tags=[{"Key": name, "Value": text}])

    def _groups(self) -> Iterator[tuple[str, float, Sequence[Any]]]:
        for summary in self._summaries():
            name = str(summary["ModelPackageGroupName"])
            if listed := self._list(name):
                yield name, summary["CreationTime"].timestamp(), [self._describe(listed[0].arn), *listed[1:]]

    def _summaries(self) -> list[Any]:
        with self._told("listing groups"):
            pages = self._client.get_paginator("list_model_package_groups").paginate()
            return [each for page in pages for each in page["ModelPackageGroupSummaryList"]]

    @cached_property
    def _client(self) -> Any:
        with self._told("connecting"):
            return self._opened("sagemaker")

    @cached_property
    def _session(self) -> Any:
        return open_session("the registry sagemaker needs", RegistryError)

    def _opened(self, service: str) -> Any:
        with self._guard:
            return client(self._session, service, region=self.region, connect_seconds=5, answer_seconds=30)

    def _list(self, group: str, **filters: str) -> list[_Listed]:
        """The versions of a group, the newest first; none where there is no such group."""
        found: list[_Listed] = []
        with self._told(f"listing the versions of {group!r}", absent=True):
            pages = self._client.get_paginator("list_model_packages").paginate(
                ModelPackageGroupName=group,
                SortBy="CreationTime",
                SortOrder="Descending",
                PaginationConfig={"PageSize": 100},
                **filters,
            )
            for page in pages:
                for summary in page["ModelPackageSummaryList"]:
                    if summary.get("ModelPackageStatus") not in _GONE and (listed := self._listed(summary)):
                        found.append(listed)
        return sorted(found, reverse=True)

    def _listed(self, summary: Mapping[str, Any]) -> _Listed | None:
        """None where the version is gone by now."""
        arn = str(summary["ModelPackageArn"])
        _, content_hash = model_package.description_without(summary.get("ModelPackageDescription"))
        content_hash = content_hash or self._hashes.get(arn)
        if content_hash is None:
            if not (version := self._find_version(arn)):
                return None
            content_hash = self._hashes[arn] = version.content_hash
        status = str(summary.get("ModelApprovalStatus") or "PendingManualApproval")
        return _Listed(int(summary["ModelPackageVersion"]), arn, status, content_hash)

    def _existing(self, group: str) -> list[_Listed]:
        listed = self._list(group)
        if not listed:
            there = [str(each["ModelPackageGroupName"]) for each in self._summaries()]
            raise no_group(self._name, group, [name for name in there if name != group])
        return listed

    def _describe(self, arn: str) -> ModelVersion:
        with self._told(f"reading {arn}"):
            return self._read(self._client.describe_model_package(ModelPackageName=arn), arn)

    def _find_version(self, arn: str) -> ModelVersion | None:
        """As `_describe`; None where there is no such version."""
        with self._told(f"reading {arn}", absent=True):
            return self._read(self._client.describe_model_package(ModelPackageName=arn), arn)
        return None

    def _read(self, said: Mapping[str, Any], arn: str) -> ModelVersion:
        created, changed = said["CreationTime"], said.get("LastModifiedTime")
        words = self._client.meta.service_model.operation_model("CreateModelPackage").input_shape.members
        # The status is no part of the request any more: it is what was decided last.
        package = {name: value for name, value in said.items() if name in words and name != "ModelApprovalStatus"}
        description, in_description = model_package.description_without(package.pop("ModelPackageDescription", None))
        if description:
            package["ModelPackageDescription"] = description
        record = record_of(package)
        return ModelVersion(
            group=str(said.get("ModelPackageGroupName", "")),
            version=int(said.get("ModelPackageVersion", 0)),
            arn=arn,
            content_hash=model_package.content_hash(package) or in_description,
            status=checked_approval(str(said.get("ModelApprovalStatus") or "PendingManualApproval")),
            reason=said.get("ApprovalDescription") or None,
            record=record,
            metrics=model_package.metrics(package),
            execution=record.lineage.get("execution") or record.made_by or None,
            created_at=created.timestamp(),
            modified_at=(changed or created).timestamp(),
        )

    def _group_arn(self, group: str) -> str:
        """ "" where there is no such group."""
        with self._told(f"reading group {group!r}", absent=True):
            return str(self._client.describe_model_package_group(ModelPackageGroupName=group)["ModelPackageGroupArn"])
        return ""

    def _make_group(self, group: str) -> None:
        """A group; another process may make it at the same time."""
        if not self._group_arn(group):
            with self._told(f"making group {group!r}", there=True):
                self._client.create_model_package_group(ModelPackageGroupName=group)

    @property
    def _name(self) -> str:
        return f"SageMaker{f' in {self.region}' if self.region else ''}"

    def _told(self, doing: str, *, absent: bool = False, there: bool = False) -> AbstractContextManager[None]:
        return told(self._name, doing, absent=absent, there=there)


def _request(new: NewVersion) -> dict[str, Any]:
    """CreateModelPackage's input: the package, and what the registry keeps in it."""
    package = new.request
    request = {name: value for name, value in package.items() if name != "ModelPackageName"}
    request["ModelPackageGroupName"] = new.group
    request["ClientToken"] = str(uuid.UUID(hashlib.sha256(f"{new.group}/{new.content_hash}".encode()).hexdigest()[:32]))
    description = str(request.get("ModelPackageDescription") or "")
    request["ModelPackageDescription"] = model_package.description_with(description, new.content_hash)
    request["CustomerMetadataProperties"] = {
        **model_package.properties(package),
        model_package.CONTENT_HASH: new.content_hash,
        _MADE_BY: "register_model",
    }
    if new.execution is not None:
        request["MetadataProperties"] = {**request.get("MetadataProperties", {}), "GeneratedBy": new.execution}
    if new.metrics:
        request["ModelCard"] = as_package_card(with_metrics(model_package.card(package), new.metrics))
    request["ModelApprovalStatus"] = new.status
    return request


def _is_untouched(version: ModelVersion) -> bool:
    return _MADE_BY in version.record.properties and version.modified_at == version.created_at
