"""The EventBridge pattern of each kind of trigger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drivetrain import catalog
from drivetrain.decision.served_findings import DATA_DRIFT, QUALITY_DROP, SOURCE
from drivetrain.spec.pipeline import (
    Alarm,
    DataDrift,
    EventTrigger,
    PipelineFinished,
    QualityDrop,
    RegistryEvent,
    Upload,
)


@dataclass(frozen=True)
class Where:
    """The account and region whose events are looked at."""

    region: str
    account: str
    partition: str = "aws"

    def pipeline_arn(self, name: str) -> str:
        return f"arn:{self.partition}:sagemaker:{self.region}:{self.account}:pipeline/{name}"


def pattern(trigger: EventTrigger, pipeline_arn: str, where: Where) -> dict[str, Any]:
    """The event pattern of a trigger of the pipeline with that ARN: of one account's events, since buses may forward
    those of others."""
    return {**_pattern(trigger, pipeline_arn, where), "account": [_account(trigger) or where.account]}


def _account(trigger: EventTrigger) -> str | None:
    """The account that a trigger names; None where it is the pipeline's."""
    if isinstance(trigger, Upload):
        return trigger.account
    named = trigger.group if isinstance(trigger, RegistryEvent) else trigger.alarm if isinstance(trigger, Alarm) else ""
    return named.split(":")[4] if named.startswith("arn:") else None


def _pattern(trigger: EventTrigger, pipeline_arn: str, where: Where) -> dict[str, Any]:
    if isinstance(trigger, RegistryEvent):
        return _registry(trigger, pipeline_arn)
    if isinstance(trigger, DataDrift):
        return _finding(DATA_DRIFT, trigger.group, columns=trigger.columns)
    if isinstance(trigger, QualityDrop):
        return _finding(QUALITY_DROP, trigger.group, metric=() if trigger.metric is None else (trigger.metric,))
    if isinstance(trigger, Upload):
        return _upload(trigger)
    if isinstance(trigger, PipelineFinished):
        return {
            "source": ["aws.sagemaker"],
            "detail-type": [catalog.EXECUTION_EVENT],
            "detail": {
                "currentPipelineExecutionStatus": [trigger.outcome],
                # SageMaker writes some ARNs in lower case, whatever the pipeline was called.
                "pipelineArn": [{"equals-ignore-case": where.pipeline_arn(trigger.pipeline)}],
            },
        }
    assert isinstance(trigger, Alarm)
    return {
        "source": ["aws.cloudwatch"],
        "detail-type": [catalog.ALARM_EVENT],
        "detail": {"alarmName": [_name(trigger.alarm, ":")], "state": {"value": ["ALARM"]}},
    }


def _name(given: str, before: str) -> str:
    """The name in an ARN, after `before`; what is no ARN is the name."""
    return given.rpartition(before)[2] if given.startswith("arn:") else given


def _registry(trigger: RegistryEvent, pipeline_arn: str) -> dict[str, Any]:
    detail: dict[str, Any] = {"ModelPackageGroupName": [_name(trigger.group, "/")]}
    if trigger.status is not None:
        detail["ModelApprovalStatus"] = [trigger.status]
    stage = {"Stage": trigger.stage, "StageStatus": trigger.stage_status}
    if given := {name: [value] for name, value in stage.items() if value is not None}:
        detail["ModelLifeCycle"] = given
    if changes := trigger.changes():
        detail["UpdatedModelPackageFields"] = list(changes)
    if trigger.loop_guard:
        # The Lambda guards too, in any spelling; here it is for not calling it at all.
        own = [f"{arn}/execution/" for arn in dict.fromkeys((pipeline_arn, pipeline_arn.lower()))]
        detail["MetadataProperties"] = {"GeneratedBy": [{"exists": False}, {"anything-but": {"prefix": own}}]}
    return {"source": ["aws.sagemaker"], "detail-type": [catalog.MODEL_PACKAGE_EVENT], "detail": detail}


def _finding(kind: str, group: str, **wanted: tuple[str, ...]) -> dict[str, Any]:
    """The pattern of a finding of check_served."""
    detail = {"group": [group], **{name: list(values) for name, values in wanted.items() if values}}
    return {"source": [SOURCE], "detail-type": [kind], "detail": detail}


def _upload(trigger: Upload) -> dict[str, Any]:
    found: Mapping[str, Any] = {}
    if trigger.prefix and trigger.suffix:
        found = {"object": {"key": [{"wildcard": f"{_plain(trigger.prefix)}*{_plain(trigger.suffix)}"}]}}
    elif trigger.prefix:
        found = {"object": {"key": [{"prefix": trigger.prefix}]}}
    elif trigger.suffix:
        found = {"object": {"key": [{"suffix": trigger.suffix}]}}
    return {
        "source": ["aws.s3"],
        "detail-type": [catalog.OBJECT_EVENT],
        "detail": {"bucket": {"name": [trigger.bucket]}, **found},
    }


def _plain(text: str) -> str:
    """A text in which a wildcard pattern takes every character for itself."""
    return text.replace("\\", "\\\\").replace("*", "\\*")
