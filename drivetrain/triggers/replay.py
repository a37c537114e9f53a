"""An event, tried on a pipeline's triggers without an account: which would start it, with which values, why not.

What is asked is what happens there: the pattern of the rule that would be deployed, and then the starter's decision.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from drivetrain.base import partition_of
from drivetrain.base.errors import UserError
from drivetrain.spec.pipeline import EventTrigger, Trigger
from drivetrain.triggers.event_pattern import explain
from drivetrain.triggers.patterns import Where, pattern
from drivetrain.triggers.resources import request
from drivetrain.triggers.starting import Earlier, Skip, decide, generated_by, is_execution_of
from drivetrain.triggers.value_tests import MAX_BYTES, loads

if TYPE_CHECKING:
    from drivetrain.spec.pipeline import Pipeline

MAX_EVENTS = 1_000
MAX_FILE_BYTES = 16 * MAX_BYTES
"""The largest file of events."""


@dataclass(frozen=True)
class Verdict:
    """The answer of one trigger to an event."""

    trigger: str
    kind: str
    starts: bool
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    reasons: tuple[str, ...] = ()
    """Why it would not start the pipeline."""

    token: str | None = None
    """The ClientRequestToken of the start."""

    matched: bool = False
    """The event is one that the trigger waits for, so that something else decided: a loop, a duplicate, a limit."""


def replay(
    pipeline: Pipeline, event: Mapping[str, Any], *, earlier: Iterable[Earlier] = (), now: datetime | None = None
) -> tuple[Verdict, ...]:
    """Say what each trigger of a pipeline would do, as if it were deployed in the event's account and region.

    Args:
        earlier: executions of the pipeline, for the rate limit and duplicates; none are known unless given.
        now: when the event is handled, with its zone.
    """
    where = place(event)
    moment = now or datetime.now(UTC)
    executions = tuple(earlier)
    return tuple(_answer(pipeline, trigger, event, where, executions, moment) for trigger in pipeline.triggers)


def place(event: Mapping[str, Any]) -> Where:
    """The account and region that an event names.

    Raises:
        UserError: it names none.
    """
    region, account = event.get("region"), event.get("account")
    if not isinstance(region, str) or not isinstance(account, str):
        raise UserError("The event names no account and region. Give a whole event, as EventBridge sends it.")
    return Where(region, account, partition_of(region))


def read_events(text: str | bytes, source: str) -> list[Mapping[str, Any]]:
    """One event, a list of events, or an object that gives them names.

    Raises:
        UserError: it has none of these forms, or is too large.
    """
    given: Any = loads(text, source, MAX_FILE_BYTES)
    if isinstance(given, Mapping) and "detail-type" not in given:
        given = list(cast(Mapping[str, Any], given).values())
    found: list[Any] = cast(list[Any], given) if isinstance(given, list) else [given]
    if not found or not all(isinstance(event, Mapping) and "detail-type" in event for event in found):
        raise UserError(f"{source} holds no event: an object with detail-type, source and detail, or a list of them.")
    if len(found) > MAX_EVENTS:
        raise UserError(f"{source} holds {len(found):,} events; at most {MAX_EVENTS:,} are replayed.")
    for event in found if len(text) > MAX_BYTES else ():
        if (size := len(json.dumps(event, ensure_ascii=False).encode())) > MAX_BYTES:
            raise UserError(
                f"{source}: event {str(event.get('id'))!r:.80} has {size:,} bytes; EventBridge takes at most "
                f"{MAX_BYTES:,} of one."
            )
    return cast(list[Mapping[str, Any]], found)


def _answer(
    pipeline: Pipeline,
    trigger: Trigger,
    event: Mapping[str, Any],
    where: Where,
    earlier: tuple[Earlier, ...],
    now: datetime,
) -> Verdict:
    if not isinstance(trigger, EventTrigger):
        return Verdict(trigger.name, trigger.kind, False, reasons=("it starts by the clock, not by events",))
    arn = where.pipeline_arn(pipeline.name)
    reasons = [] if trigger.enabled else ["it is switched off (enabled=False)"]
    by = generated_by(event)
    guarded = trigger.loop_guard and is_execution_of(by, arn)
    if guarded:
        reasons.append(f"loop guard: the model was registered by this pipeline's own execution {by}")
    looked_for = pattern(trigger, arn, where)
    mismatches = explain(looked_for, event)
    guard = "detail.MetadataProperties.GeneratedBy" if guarded else None
    mismatches = [mismatch for mismatch in mismatches if mismatch.field != guard]
    matched = not mismatches
    if any(mismatch.field in ("source", "detail-type") for mismatch in mismatches):
        reasons.append(f"it waits for other events: {looked_for['detail-type'][0]} of {looked_for['source'][0]}")
    else:
        reasons += map(str, mismatches)
    if not reasons:
        try:
            decision = decide(request(pipeline, trigger, arn), event, earlier, now)
        except UserError as error:
            reasons.append(f"the start would fail: {error}")
        else:
            if not isinstance(decision, Skip):
                return Verdict(
                    trigger.name, trigger.kind, True, decision.parameters, token=decision.token, matched=True
                )
            reasons.append(decision.reason)
    return Verdict(trigger.name, trigger.kind, False, reasons=tuple(reasons), matched=matched)
