"""The rules and schedules that start a pipeline: read, compared, written and taken away in the account.

A rule is ours when its tag `drivetrain:pipeline` names the pipeline. Schedules have no tags: one is ours by its name,
which ends with a hash of the pipeline's name and the trigger's. So a schedule that was turned to another target is
still recognised, and one made by hand is left alone. Tags that others put on a rule are theirs.
Sources: the API reference of EventBridge (PutRule, PutTargets) and of EventBridge Scheduler (CreateSchedule).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, cast

from drivetrain.base.json_text import object_in
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.refusals import AbsentError, ServiceError
from drivetrain.targets.sagemaker.settings import settings_of
from drivetrain.triggers.resource_names import (
    OWNER,
    TRIGGER,
    is_cut_name,
    is_resource_name,
    name_prefix,
    trigger_part,
)

if TYPE_CHECKING:
    from drivetrain.spec.pipeline import Pipeline

OUR_TAGS = frozenset((OWNER, TRIGGER))
"""No others that begin so: a stack that makes rules puts its own tags on them."""
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
class AccountTrigger:
    """One rule or schedule. `arguments` are those of PutRule or CreateSchedule without the name, `targets` those of
    PutTargets, `tags` those of the rule that are ours; all without what is the service's default, so that equal ones
    are equal."""

    kind: Literal["rule", "schedule"]
    name: str
    arguments: Json = field(default_factory=dict[str, Any])
    targets: tuple[Json, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict[str, str])

    @staticmethod
    def rule(arguments: Mapping[str, Any], targets: Iterator[Any] | list[Any] | tuple[Any, ...]) -> AccountTrigger:
        """Build a rule from PutRule's arguments (tags among them) and PutTargets' targets."""
        given = dict(arguments)
        name = str(given.pop("Name"))
        tags = {
            str(tag["Key"]): str(tag["Value"]) for tag in given.pop("Tags", None) or () if str(tag["Key"]) in OUR_TAGS
        }
        kept = {key: given[key] for key in _RULE_FIELDS if given.get(key) not in (None, _RULE_DEFAULTS.get(key))}
        ordered = sorted((cast("Json", _plain(target)) for target in targets), key=lambda target: str(target["Id"]))
        return AccountTrigger("rule", name, cast("Json", _plain(kept)), tuple(ordered), tags)

    @staticmethod
    def schedule(arguments: Mapping[str, Any]) -> AccountTrigger:
        """Build a schedule from CreateSchedule's arguments, or from GetSchedule's answer."""
        kept = {
            key: arguments[key]
            for key in _SCHEDULE_FIELDS
            if arguments.get(key) not in (None, _SCHEDULE_DEFAULTS.get(key))
        }
        plain = cast("Json", _plain(kept))
        target: Json = dict(plain.get("Target") or {})
        retry = {**_RETRY_DEFAULT, **object_in(target, "RetryPolicy")}
        target.pop("RetryPolicy", None)
        plain["Target"] = target if retry == _RETRY_DEFAULT else {**target, "RetryPolicy": retry}
        return AccountTrigger("schedule", str(arguments["Name"]), plain)

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.name

    @property
    def described(self) -> str:
        return f"{self.kind} {self.name!r}"

    def is_between(self, before: AccountTrigger | None, after: AccountTrigger) -> bool:
        """Return True if a write of `after` over `before`, perhaps cut short, or its removal can leave this state."""
        ends = [each for each in (before, after) if each is not None]
        targets = [target for each in ends for target in each.targets]
        return (
            any(self.current.arguments == each.current.arguments for each in ends)
            and all(target in targets for target in self.targets)
            and all(any(each.tags.get(name) == value for each in ends) for name, value in self.tags.items())
        )

    @property
    def current(self) -> AccountTrigger:
        """Drops a start date in the past, which has no effect any more and which the service rejects.

        https://github.com/getmoto/moto/pull/8172 has the words of the refusal: `The StartDate you specify cannot be
        earlier than 5 minutes ago`.
        """
        start = self.arguments.get("StartDate")
        if start is None or start > time.time():
            return self
        return replace(self, arguments={key: value for key, value in self.arguments.items() if key != "StartDate"})

    def starts(self, arn: str) -> bool:
        """Return True if it starts the pipeline with this ARN. The service may spell the name in lower case in the ARN.

        A rule starts it through the queue, to which nothing but the pipeline's own message goes.
        """
        target = object_in(self.arguments, "Target")
        return self.kind == "rule" or str(target.get("Arn")).lower() == arn.lower()

    def to_json(self) -> Json:
        return {
            "kind": self.kind,
            "name": self.name,
            "arguments": self.arguments,
            "targets": list(self.targets),
            "tags": dict(self.tags),
        }

    @staticmethod
    def from_json(said: Mapping[str, Any]) -> AccountTrigger:
        return AccountTrigger(
            said["kind"], said["name"], dict(said["arguments"]), tuple(said["targets"]), dict(said["tags"])
        )


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


def desired_triggers(pipeline: Pipeline, account: Account, arn: str) -> tuple[AccountTrigger, ...]:
    """Turn the pipeline's declared triggers into those of the account, sorted by kind and name.

    Args:
        arn: the pipeline's.

    Raises:
        UserError: a trigger needs a role or queue that the settings do not name.
    """
    if not pipeline.triggers:
        return ()
    from drivetrain.triggers.resources import Rule, TriggerSite, resources

    place = settings_of(pipeline.deployment)
    site = TriggerSite(
        region=account.region,
        account=account.number,
        pipeline_arn=arn,
        scheduler_role=place.scheduler_role,
        event_queue=place.event_queue,
        dead_letter_queue=place.dead_letter_queue,
        partition=account.partition,
    )
    found = [
        AccountTrigger.rule(item.rule, item.targets)
        if isinstance(item, Rule)
        else AccountTrigger.schedule(item.schedule)
        for item in resources(pipeline, site)
    ]
    return tuple(sorted(found, key=lambda trigger: trigger.key))


def stray_triggers(
    account: Account, pipeline: str, wanted: Iterable[AccountTrigger] = ()
) -> tuple[AccountTrigger, ...]:
    """The triggers of a deleted pipeline: deleting a pipeline leaves its schedules behind. A trigger that was changed
    to start something else stays, unless one of its name is wanted."""
    arn = account.arn("sagemaker", f"pipeline/{pipeline}")
    names = {trigger.key for trigger in wanted}
    return tuple(each for each in read_triggers(account, pipeline, arn) if each.starts(arn) or each.key in names)


def read_triggers(account: Account, pipeline: str, arn: str) -> tuple[AccountTrigger, ...]:
    """The rules and schedules that are the pipeline's, by kind and name."""
    found = [*_rules(account, pipeline), *_schedules(account, pipeline, arn)]
    return tuple(sorted(found, key=lambda trigger: trigger.key))


def _rules(account: Account, pipeline: str) -> Iterator[AccountTrigger]:
    about = f"rules of pipeline {pipeline!r}"
    for rule in account.pages("events", "list_rules", "Rules", about=about, NamePrefix=name_prefix(pipeline)):
        name = str(rule["Name"])
        said = account.find("events", "list_tags_for_resource", about=about, ResourceARN=rule["Arn"])
        tags = [] if said is None else list(said["Tags"])
        is_named = is_resource_name(name, pipeline, str(rule.get("Description")))
        if is_named or {"Key": OWNER, "Value": pipeline} in tags:
            targets = account.pages("events", "list_targets_by_rule", "Targets", about=about, Rule=name)
            yield AccountTrigger.rule({**rule, "Tags": tags}, targets)


def _schedules(account: Account, pipeline: str, arn: str) -> Iterator[AccountTrigger]:
    about = f"schedules of pipeline {pipeline!r}"
    where = {"NamePrefix": name_prefix(pipeline), "GroupName": "default"}
    for listed in account.pages("scheduler", "list_schedules", "Schedules", about=about, **where):
        name = str(listed["Name"])
        if trigger_part(name, pipeline) is None:
            continue
        said = account.find("scheduler", "get_schedule", about=about, Name=name, GroupName="default")
        if said is not None and (
            is_resource_name(name, pipeline, str(said.get("Description")))
            or (is_cut_name(name, pipeline) and AccountTrigger.schedule(listed).starts(arn))
        ):
            yield AccountTrigger.schedule(said)


def write(account: Account, trigger: AccountTrigger, before: AccountTrigger | None) -> None:
    """Make a rule or schedule what it should be; `before` is what is there.

    Raises:
        ServiceError: AWS refuses.
    """
    if trigger.kind == "schedule":
        operation = "create_schedule" if before is None else "update_schedule"
        # UpdateSchedule sets what is not given to its default; said all the same, so that nothing depends on it.
        arguments = {"State": "ENABLED", "FlexibleTimeWindow": {"Mode": "OFF"}, **trigger.current.arguments}
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
        said = account.call("events", "put_targets", about=about, Rule=trigger.name, Targets=chunk, **bus)
        _check_entries(said, "events:PutTargets", about)
    old = {target["Id"] for target in before.targets} if before else set[str]()
    if gone := sorted(old - {target["Id"] for target in trigger.targets}):
        _remove_targets(account, trigger, gone)


def remove(account: Account, trigger: AccountTrigger) -> None:
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
        if trigger.targets:
            _remove_targets(account, trigger, [target["Id"] for target in trigger.targets])
        account.call("events", "delete_rule", about=about, Name=trigger.name, **_bus(trigger))
    except AbsentError:
        return


def _bus(trigger: AccountTrigger) -> Json:
    return {"EventBusName": trigger.arguments["EventBusName"]} if "EventBusName" in trigger.arguments else {}


def _remove_targets(account: Account, trigger: AccountTrigger, ids: list[str]) -> None:
    about = trigger.described
    said = account.call("events", "remove_targets", about=about, Rule=trigger.name, Ids=ids, **_bus(trigger))
    _check_entries(said, "events:RemoveTargets", about)


def _check_entries(said: Mapping[str, Any], action: str, about: str) -> None:
    """EventBridge answers 200 where it did not do what it was asked for a target.

    Raises:
        ServiceError: naming the first of these.
    """
    for entry in said.get("FailedEntries") or ():
        raise ServiceError(
            f"{about}: {action} failed for target {entry.get('TargetId')!r}: {entry.get('ErrorMessage')} "
            f"({entry.get('ErrorCode')}).",
            code=str(entry.get("ErrorCode", "")),
            action=action,
        )
