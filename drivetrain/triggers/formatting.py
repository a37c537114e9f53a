"""A trigger in words, for people."""

from __future__ import annotations

from drivetrain.spec.pipeline import Alarm, EventTrigger, PipelineFinished, RegistryEvent, Schedule, Trigger, Upload
from drivetrain.triggers.timing import clock


def when(trigger: Trigger) -> str:
    """Say in one line what the trigger waits for."""
    if isinstance(trigger, Schedule):
        return _schedule(trigger)
    return "; ".join((_event(trigger), *_limits(trigger)))


def _schedule(trigger: Schedule) -> str:
    parts = [clock(trigger).timing.expression, trigger.timezone]
    if trigger.start is not None:
        parts.append(f"from {trigger.start}")
    if trigger.end is not None:
        parts.append(f"until {trigger.end}")
    if trigger.flexible_minutes is not None:
        parts.append(f"within {trigger.flexible_minutes} minutes")
    return ", ".join(parts)


def _event(trigger: EventTrigger) -> str:
    if isinstance(trigger, RegistryEvent):
        stage = " ".join(part for part in (trigger.stage, trigger.stage_status) if part)
        wanted = [part for part in (trigger.status, stage and f"stage {stage}") if part]
        changes = trigger.changes()
        changed = f"changed {' or '.join(changes)}" if changes else "any change"
        return f"a model of {trigger.group}: {', '.join((*wanted, changed))}"
    if isinstance(trigger, PipelineFinished):
        return f"pipeline {trigger.pipeline} {trigger.outcome}"
    if isinstance(trigger, Alarm):
        return f"alarm {trigger.alarm!r} goes off"
    assert isinstance(trigger, Upload)
    return f"s3://{trigger.bucket}/{trigger.prefix}*{trigger.suffix} arrives"


def _limits(trigger: EventTrigger) -> list[str]:
    parts: list[str] = []
    if trigger.limit is not None:
        parts.append(f"at most {trigger.limit.starts} in {trigger.limit.every}")
    if trigger.once_per is not None:
        parts.append(f"once per {trigger.once_per}")
    if not trigger.loop_guard:
        parts.append("no loop guard")
    return parts
