"""Changes of registered models as the events that EventBridge would deliver, for registries that send none."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from drivetrain.catalog import MODEL_PACKAGE_EVENT
from drivetrain.registry.package_mapping import request_of

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelEvent, ModelVersion

_NAMESPACE = uuid.UUID("5f3a3c1e-8a53-4b0c-9d5c-6a0d7f1f2b11")


def package_event(
    version: ModelVersion,
    change: ModelEvent,
    *,
    region: str | None = None,
    account: str | None = None,
    execution: str | None = None,
) -> dict[str, Any]:
    """`SageMaker Model Package State Change` for a change of a version in a registry that sends no events itself.

    Fields as in https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html; the status
    is that after the change, whatever has come since.

    Args:
        region, account: of the pipeline; those of the version's ARN unless given.
        execution: the ARN of what made the version; what the version says unless given.
    """
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(change.at))
    package = request_of(version.record)
    said: Any = package.get("MetadataProperties")
    maker: dict[str, Any] = dict(cast(Mapping[str, Any], said if isinstance(said, Mapping) else {}))
    if execution is not None:
        maker["GeneratedBy"] = execution
    elif version.execution is not None:
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
        "detail-type": MODEL_PACKAGE_EVENT,
        "source": "aws.sagemaker",
        "account": version.arn.split(":")[4] if account is None else account,
        "time": moment,
        "region": version.arn.split(":")[3] if region is None else region,
        "resources": [version.arn],
        "detail": detail,
    }
