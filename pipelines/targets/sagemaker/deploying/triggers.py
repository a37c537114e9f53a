"""The rules and schedules that start a pipeline: read, compared, written and taken away in the account.

A rule is ours when its tag `drivetrain:pipeline` names the pipeline. Schedules have no tags: one is ours when it
starts the pipeline and its name has the form of those that apply gives, with a hash at the end.
Sources: the API reference of EventBridge (PutRule, PutTargets) and of EventBridge Scheduler (CreateSchedule).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, cast

from drivetrain.pipelines.targets.sagemaker.deploying.account import Account, members
from drivetrain.pipelines.targets.sagemaker.deploying.refusals import AbsentError, ServiceError

if TYPE_CHECKING:
    from drivetrain.pipelines.spec.pipeline import Pipeline

OWNER = "drivetrain:pipeline"
# What follows the pipeline's beginning (triggers/resources.py: resource_name).
_GIVEN_NAME = re.compile(r"-.{1,32}-[0-9a-f]{8}")
MAX_TARGETS_AT_ONCE = 10
Json = dict[str, Any]

# What the services answer for what was not given.
_RULE_DEFAULTS: Json = {"State": "ENABLED", "EventBusName": "default", "Description": ""}
_SCHEDULE_DEFAULTS: Json = {
    "State": "ENABLED",
    "GroupName": "default",
    "Description": "",
    "ScheduleExpressionTimezone": "UTC",
    "ActionAfterCompletion": "NONE",
}
_RETRY_DEFAULT: Json = {"MaximumEventAgeInSeconds": 86_400, "MaximumRetryAttempts": 185}
_RULE_FIELDS = ("EventPattern", "ScheduleExpression", "State", "Description", "RoleArn", "EventBusName")
_SCHEDULE_FIELDS = (
    "GroupName",
    "ScheduleExpression",
    "StartDate",
    "EndDate",
    "Description",
    "ScheduleExpressionTimezone",
    "State",
    "KmsKeyArn",
    "Target",
    "FlexibleTimeWindow",
    "ActionAfterCompletion",
)


@dataclass(frozen=True)
class Trigger:
    """One rule or schedule. `arguments` are those of PutRule or CreateSchedule without the name, `targets` those of
    PutTargets, `tags` of the rule; all without what is the service's default, so that equal ones are equal."""

    kind: Literal["rule", "schedule"]
    name: str
    arguments: Json = field(default_factory=dict[str, Any])
    targets: tuple[Json, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict[str, str])

    @staticmethod
    def rule(arguments: Mapping[str, Any], targets: Iterator[Any] | list[Any] | tuple[Any, ...]) -> Trigger:
        """Of PutRule's arguments (tags among them) and PutTargets' targets."""
        given = dict(arguments)
        name = str(given.pop("Name"))
        tags = {str(tag["Key"]): str(tag["Value"]) for tag in given.pop("Tags", None) or ()}
        kept = {key: given[key] for key in _RULE_FIELDS if given.get(key) not in (None, _RULE_DEFAULTS.get(key))}
        ordered = sorted((cast("Json", _plain(target)) for target in targets), key=lambda target: str(target["Id"]))
        return Trigger("rule", name, cast("Json", _plain(kept)), tuple(ordered), tags)

    @staticmethod
    def schedule(arguments: Mapping[str, Any]) -> Trigger:
        """Of CreateSchedule's arguments, or of GetSchedule's answer."""
        kept = {
            key: arguments[key]
            for key in _SCHEDULE_FIELDS
            if arguments.get(key) not in (None, _SCHEDULE_DEFAULTS.get(key))
        }
        plain = cast("Json", _plain(kept))
        target: Json = dict(plain.get("Target") or {})
        retry = {**_RETRY_DEFAULT, **members(target.get("RetryPolicy"))}
        target.pop("RetryPolicy", None)
        plain["Target"] = target if retry == _RETRY_DEFAULT else {**target, "RetryPolicy": retry}
        return Trigger("schedule", str(arguments["Name"]), plain)

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.name

    @property
    def described(self) -> str:
        return f"{self.kind} {self.name!r}"

    def to_json(self) -> Json:
        return {
            "kind": self.kind,
            "name": self.name,
            "arguments": self.arguments,
            "targets": list(self.targets),
            "tags": dict(self.tags),
        }

    @staticmethod
    def from_json(said: Mapping[str, Any]) -> Trigger:
        return Trigger(said["kind"], said["name"], dict(said["arguments"]), tuple(said["targets"]), dict(said["tags"]))


def _plain(value: Any) -> Any:
    """As JSON, keys sorted: a time as seconds since the epoch, an event pattern in one spelling."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value)
        return {key: _pattern(items[key]) if key == "EventPattern" else _plain(items[key]) for key in sorted(items)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("list[Any]", value)]
    return value


def _pattern(text: Any) -> Any:
    """A pattern's text in one spelling: the service may answer with other spaces."""
    return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) if isinstance(text, str) else text


def desired_triggers(pipeline: Pipeline, account: Account, arn: str) -> tuple[Trigger, ...]:
    """What the pipeline's declared triggers become, by kind and name.

    Args:
        arn: the pipeline's.

    Raises:
        UserError: a trigger needs a role or queue that the settings do not name.
    """
    if not pipeline.triggers:
        return ()
    from drivetrain.pipelines.triggers.resources import Rule, Site, resources

    place = pipeline.deployment
    site = Site(
        region=account.region,
        account=account.number,
        pipeline_arn=arn,
        scheduler_role=place.scheduler_role,
        event_queue=place.event_queue,
        dead_letter_queue=place.dead_letter_queue,
        partition=account.partition,
    )
    found = [
        Trigger.rule(item.rule, item.targets) if isinstance(item, Rule) else Trigger.schedule(item.schedule)
        for item in resources(pipeline, site)
    ]
    return tuple(sorted(found, key=lambda trigger: trigger.key))


def stray_triggers(account: Account, pipeline: str) -> tuple[Trigger, ...]:
    """Those of a pipeline that is gone: deleting a pipeline leaves its schedules behind."""
    return read_triggers(account, pipeline, account.arn("sagemaker", f"pipeline/{pipeline}"))


def read_triggers(account: Account, pipeline: str, arn: str) -> tuple[Trigger, ...]:
    """The rules and schedules that are the pipeline's, by kind and name."""
    found = [*_rules(account, pipeline), *_schedules(account, pipeline, arn)]
    return tuple(sorted(found, key=lambda trigger: trigger.key))


def _rules(account: Account, pipeline: str) -> Iterator[Trigger]:
    about = f"rules of pipeline {pipeline!r}"
    for rule in account.pages("events", "list_rules", "Rules", about=about, NamePrefix=name_prefix(pipeline)):
        said = account.find("events", "list_tags_for_resource", about=about, ResourceARN=rule["Arn"])
        tags = [] if said is None else list(said["Tags"])
        if {"Key": OWNER, "Value": pipeline} in tags:
            targets = account.pages("events", "list_targets_by_rule", "Targets", about=about, Rule=rule["Name"])
            yield Trigger.rule({**rule, "Tags": tags}, targets)


def _schedules(account: Account, pipeline: str, arn: str) -> Iterator[Trigger]:
    about = f"schedules of pipeline {pipeline!r}"
    for listed in account.pages(
        "scheduler", "list_schedules", "Schedules", about=about, NamePrefix=name_prefix(pipeline)
    ):
        # The service may spell the name in lower case in the ARN.
        starts_it = str(members(listed.get("Target")).get("Arn")).lower() == arn.lower()
        # Others schedule the pipeline, too, under names of their own.
        if starts_it and _GIVEN_NAME.fullmatch(str(listed["Name"]), len(name_prefix(pipeline))):
            said = account.find(
                "scheduler", "get_schedule", about=about, Name=listed["Name"], GroupName=listed["GroupName"]
            )
            if said is not None:
                yield Trigger.schedule(said)


def name_prefix(pipeline: str) -> str:
    """How the names of all rules and schedules of a pipeline begin (triggers/resources.py makes them)."""
    return pipeline[:20]


def write(account: Account, trigger: Trigger, before: Trigger | None) -> None:
    """Make a rule or schedule what it should be; `before` is what is there.

    Raises:
        ServiceError: AWS refuses.
    """
    if trigger.kind == "schedule":
        operation = "create_schedule" if before is None else "update_schedule"
        # UpdateSchedule sets what is not given to its default; said all the same, so that nothing depends on it.
        arguments = {"State": "ENABLED", "FlexibleTimeWindow": {"Mode": "OFF"}, **trigger.arguments}
        account.call("scheduler", operation, about=trigger.described, Name=trigger.name, **arguments)
        return
    bus = _bus(trigger)
    tags = [{"Key": key, "Value": value} for key, value in trigger.tags.items()]
    # Of a rule that is there already the service passes over the tags.
    with_tags: Json = {"Tags": tags} if before is None and tags else {}
    about = trigger.described
    arguments = {"State": "ENABLED", **trigger.arguments, **with_tags}
    said = account.call("events", "put_rule", about=about, Name=trigger.name, **arguments)
    if before is not None and before.tags != trigger.tags and tags:
        account.call("events", "tag_resource", about=about, ResourceARN=said["RuleArn"], Tags=tags)
    for start in range(0, len(trigger.targets), MAX_TARGETS_AT_ONCE):
        chunk = list(trigger.targets[start : start + MAX_TARGETS_AT_ONCE])
        _entries(account.call("events", "put_targets", about=about, Rule=trigger.name, Targets=chunk, **bus), about)
    old = {target["Id"] for target in before.targets} if before else set[str]()
    if gone := sorted(old - {target["Id"] for target in trigger.targets}):
        _entries(account.call("events", "remove_targets", about=about, Rule=trigger.name, Ids=gone, **bus), about)


def remove(account: Account, trigger: Trigger) -> None:
    """Take a rule or schedule away; one that is gone already does not matter.

    Raises:
        ServiceError: AWS refuses.
    """
    about = trigger.described
    try:
        if trigger.kind == "schedule":
            group = trigger.arguments.get("GroupName", "default")
            account.call("scheduler", "delete_schedule", about=about, Name=trigger.name, GroupName=group)
            return
        bus = _bus(trigger)
        if trigger.targets:
            ids = [target["Id"] for target in trigger.targets]
            _entries(account.call("events", "remove_targets", about=about, Rule=trigger.name, Ids=ids, **bus), about)
        account.call("events", "delete_rule", about=about, Name=trigger.name, **bus)
    except AbsentError:
        return


def _bus(trigger: Trigger) -> Json:
    return {"EventBusName": trigger.arguments["EventBusName"]} if "EventBusName" in trigger.arguments else {}


def _entries(said: Mapping[str, Any], about: str) -> None:
    """EventBridge answers 200 where it did not take a target."""
    for entry in said.get("FailedEntries") or ():
        raise ServiceError(
            f"{about}: target {entry.get('TargetId')!r} was not taken: {entry.get('ErrorMessage')} "
            f"({entry.get('ErrorCode')}).",
            code=str(entry.get("ErrorCode", "")),
            action="events:PutTargets",
        )
