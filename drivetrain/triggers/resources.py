"""Triggers as resources of an account: the arguments of PutRule, PutTargets and CreateSchedule.

A schedule starts the pipeline directly. An event goes through a rule, a queue and the starter Lambda, since a rule that
targets a pipeline passes no ClientRequestToken: the same event delivered twice would start it twice.

Sources: https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutRule.html and API_PutTargets.html,
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html,
https://docs.aws.amazon.com/scheduler/latest/APIReference/API_CreateSchedule.html.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError
from drivetrain.spec import pipeline as spec
from drivetrain.triggers.event_values import ParameterSource
from drivetrain.triggers.pattern_syntax import compiled
from drivetrain.triggers.patterns import Where, pattern
from drivetrain.triggers.resource_names import OWNER, TRIGGER, description, resource_name
from drivetrain.triggers.starting import Request
from drivetrain.triggers.timing import clock, rate

if TYPE_CHECKING:
    from drivetrain.spec.pipeline import Pipeline
    from drivetrain.spec.values import Scalar

MAX_TEMPLATE_CHARACTERS = 8_192

# The service tries for a day by default; a nightly training that begins the next afternoon helps nobody.
RETRY: Mapping[str, int] = {"MaximumEventAgeInSeconds": 3_600, "MaximumRetryAttempts": 20}


@dataclass(frozen=True)
class TriggerSite:
    """The account in which a pipeline is deployed, with the resources that its triggers use."""

    region: str
    account: str
    pipeline_arn: str
    scheduler_role: str | None = None
    """ARN of the role with which EventBridge Scheduler starts the pipeline."""

    event_queue: str | None = None
    """ARN of the SQS queue from which the starter Lambda reads."""

    dead_letter_queue: str | None = None
    """ARN of the SQS queue for what could not be delivered."""

    partition: str = "aws"


@dataclass(frozen=True)
class Rule:
    """A trigger by events."""

    trigger: str
    rule: Mapping[str, Any]
    """Arguments of PutRule, tags among them (which the service passes over where the rule is there already)."""

    targets: tuple[Mapping[str, Any], ...]
    """Targets of PutTargets."""

    @property
    def name(self) -> str:
        return self.rule["Name"]


@dataclass(frozen=True)
class Schedule:
    """A trigger by the clock."""

    trigger: str
    schedule: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments of CreateSchedule, and of UpdateSchedule."""

    @property
    def name(self) -> str:
        return self.schedule["Name"]


def resources(pipeline: Pipeline, site: TriggerSite) -> tuple[Rule | Schedule, ...]:
    """The resources of the pipeline's triggers, in their order; deterministic for a pipeline and a site.

    Raises:
        UserError: a trigger needs a role or a queue that the site has not, or is larger than the service takes.
    """
    return tuple(
        _schedule(pipeline, trigger, site) if isinstance(trigger, spec.Schedule) else _rule(pipeline, trigger, site)
        for trigger in pipeline.triggers
    )


def request(pipeline: Pipeline, trigger: spec.EventTrigger, pipeline_arn: str) -> Request:
    """The trigger as it travels with each of its events."""
    declared = {parameter.name: parameter for parameter in pipeline.parameters}
    return Request(
        trigger=trigger.name,
        pipeline=pipeline.name,
        pipeline_arn=pipeline_arn,
        parameters={
            name: ParameterSource(declared[name].type, text(value), tuple(map(text, declared[name].choices)))
            for name, value in trigger.parameters.items()
        },
        loop_guard=trigger.loop_guard,
        starts=None if trigger.limit is None else trigger.limit.starts,
        seconds=None if trigger.limit is None else _seconds(trigger.limit.every),
        window_seconds=None if trigger.once_per is None else _seconds(trigger.once_per),
        max_parallel_steps=pipeline.max_parallel_steps,
    )


def text(value: Scalar) -> str:
    """A value as the service takes it at start: as text."""
    return value if isinstance(value, str) else json.dumps(value)


def _rule(pipeline: Pipeline, trigger: spec.EventTrigger, site: TriggerSite) -> Rule:
    if site.event_queue is None:
        raise UserError(
            f"Trigger {trigger.name!r} is by events, which need the queue and the starter Lambda of infra/. Deploy "
            "them, and give the queue's ARN: deployment.targets.sagemaker.event_queue."
        )
    where = Where(site.region, site.account, site.partition)
    looked_for = pattern(trigger, site.pipeline_arn, where)
    compiled(looked_for)
    target: dict[str, Any] = {
        "Id": "starter",
        "Arn": site.event_queue,
        "InputTransformer": {"InputTemplate": _template(trigger, request(pipeline, trigger, site.pipeline_arn))},
    }
    if site.event_queue.endswith(".fifo"):
        target["SqsParameters"] = {"MessageGroupId": hashlib.sha256(pipeline.name.encode()).hexdigest()}
    if trigger.dead_letter and site.dead_letter_queue is not None:
        target["DeadLetterConfig"] = {"Arn": site.dead_letter_queue}
    return Rule(
        trigger=trigger.name,
        rule={
            "Name": resource_name(pipeline.name, trigger.name),
            "EventPattern": json.dumps(looked_for, separators=(",", ":"), sort_keys=True, ensure_ascii=False),
            "State": _state(trigger),
            "Description": description(pipeline.name, trigger.name),
            "Tags": [{"Key": OWNER, "Value": pipeline.name}, {"Key": TRIGGER, "Value": trigger.name}],
        },
        targets=(target,),
    )


def _schedule(pipeline: Pipeline, trigger: spec.Schedule, site: TriggerSite) -> Schedule:
    if site.scheduler_role is None:
        raise UserError(
            f"Trigger {trigger.name!r} is a schedule, which needs a role that may start the pipeline. Deploy infra/, "
            "and give its ARN: deployment.targets.sagemaker.scheduler_role."
        )
    read = clock(trigger)
    target: dict[str, Any] = {"Arn": site.pipeline_arn, "RoleArn": site.scheduler_role, "RetryPolicy": dict(RETRY)}
    if trigger.parameters:
        target["SageMakerPipelineParameters"] = {
            "PipelineParameterList": [
                {"Name": name, "Value": text(value)} for name, value in sorted(trigger.parameters.items())
            ]
        }
    if trigger.dead_letter and site.dead_letter_queue is not None:
        target["DeadLetterConfig"] = {"Arn": site.dead_letter_queue}
    window: dict[str, Any] = {"Mode": "OFF"}
    if trigger.flexible_minutes is not None:
        window = {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": trigger.flexible_minutes}
    made: dict[str, Any] = {
        "Name": resource_name(pipeline.name, trigger.name),
        "ScheduleExpression": read.timing.expression,
        "ScheduleExpressionTimezone": trigger.timezone,
        "State": _state(trigger),
        "Description": description(pipeline.name, trigger.name),
        "FlexibleTimeWindow": window,
        "Target": target,
    }
    for name, value in (("StartDate", read.start), ("EndDate", read.end)):
        if value is not None:
            made[name] = value.astimezone(UTC)
    return Schedule(trigger.name, made)


def _template(trigger: spec.EventTrigger, made: Request) -> str:
    """The message of an event. The service puts the event where `<...>` stands, so no other `<` may be left."""
    given = json.dumps(made.to_json(), separators=(",", ":"), sort_keys=True)
    given = given.replace("<", "\\u003c").replace(">", "\\u003e")
    template = f'{{"trigger":{given},"event":<aws.events.event.json>}}'
    if len(template) > MAX_TEMPLATE_CHARACTERS:
        raise UserError(
            f"Trigger {trigger.name!r}: its parameters take {len(template):,} characters of a target's template; at "
            f"most {MAX_TEMPLATE_CHARACTERS:,}. Give fewer or shorter values; the pipeline's defaults need none."
        )
    return template


def _state(trigger: spec.EventTrigger | spec.Schedule) -> str:
    return "ENABLED" if trigger.enabled else "DISABLED"


def _seconds(period: str) -> int:
    return int(rate(period).period.total_seconds())
