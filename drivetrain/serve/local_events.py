"""What happened here, as the events that EventBridge would deliver: registered models, ended executions."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from drivetrain.spec.triggers import PipelineFinished, RegistryEvent, Schedule, Trigger
from drivetrain.triggers.detail_types import MODEL_PACKAGE

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelEvent, ModelVersion, Registry
    from drivetrain.targets.local.home import Home
    from drivetrain.targets.local.ledger.reader import Ledger

_NAMESPACE = uuid.UUID("5f3a3c1e-8a53-4b0c-9d5c-6a0d7f1f2b11")
CHANGES = frozenset(("ModelApprovalStatus", "ApprovalDescription"))
"""What a decision in the local registry changes of a version."""


class Watch:
    """The events since it was made, each once. Not for several threads.

    They are known by their numbers: a clock may be set back, and what is ended now may have begun long ago.
    """

    def __init__(self, registry: Registry, home: Home) -> None:
        self._registry = registry
        self._home = home
        self._last_model = max((event.id for event in registry.events()), default=0)
        with self._ledger() as ledger:
            self._last_execution = ledger.last_event()

    def events(self) -> Iterator[Mapping[str, Any]]:
        """What is new since the last time: models first, then executions, each in their order.

        An event is told when the next one is asked for: one on which the caller raises comes again.
        """
        for change in self._registry.events(after=self._last_model):
            yield package_event(self._registry.version(change.group, change.version), change)
            self._last_model = change.id
        with self._ledger() as ledger:
            ended = ledger.execution_events(after=self._last_execution)
        for told in ended:
            yield told.event
            self._last_execution = told.number

    def _ledger(self) -> Ledger:
        from drivetrain.targets.local.ledger.reader import Ledger

        return Ledger(self._home)


def is_seen(trigger: Trigger) -> bool:
    """Whether what a trigger waits for can happen here."""
    if isinstance(trigger, RegistryEvent):
        wanted = trigger.changes()
        return not wanted or not CHANGES.isdisjoint(wanted)
    return isinstance(trigger, Schedule | PipelineFinished)


def package_event(version: ModelVersion, change: ModelEvent) -> dict[str, Any]:
    """`SageMaker Model Package State Change` for a change of a version in a local registry.

    Fields as in https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html; the status
    is that after the change, whatever has come since.
    """
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(change.at))
    package: Mapping[str, Any] = version.package
    said: Any = package.get("MetadataProperties")
    maker: dict[str, Any] = dict(cast(Mapping[str, Any], said if isinstance(said, Mapping) else {}))
    if version.execution is not None:
        maker.setdefault("GeneratedBy", version.execution)
    detail: dict[str, Any] = {
        "ModelPackageGroupName": version.group,
        "ModelPackageVersion": version.version,
        "ModelPackageArn": version.arn,
        "CreationTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(version.created_at)),
        "ModelPackageStatus": "Completed",
        "ModelApprovalStatus": change.status,
        "MetadataProperties": maker,
        "UpdatedModelPackageFields": list(change.updated_fields),
        # To the microsecond: two decisions within a second are two changes.
        "LastModifiedTime": f"{change.at:.6f}",
    }
    for name in ("InferenceSpecification", "ModelLifeCycle", "CustomerMetadataProperties"):
        if name in package:
            detail[name] = package[name]
    return {
        "version": "0",
        "id": str(uuid.uuid5(_NAMESPACE, f"{version.arn}/{change.id}/{change.at!r}")),
        "detail-type": MODEL_PACKAGE,
        "source": "aws.sagemaker",
        "account": version.arn.split(":")[4],
        "time": moment,
        "region": version.arn.split(":")[3],
        "resources": [version.arn],
        "detail": detail,
    }
