"""The times of a training job, as its description tells them (DescribeTrainingJob, and what our runner adds to it).

response["Drivetrain"] = {"interruptions": [...], "attempts": [...]}: what the runner saw, and what the training said of
itself (targets/sagemaker/run/interruption_simulation/journal.py). Any of it may be missing, or be anybody's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from drivetrain.base.json_text import as_list, object_in
from drivetrain.telling.content.goodput import Attempt, Interruption, JobTimes, Phase
from drivetrain.telling.content.untrusted_json import finite, objects, whole

# Upper bound per page; totals cover only these.
MAX_ENTRIES = 10_000


def job_times(step: str, arguments: Mapping[str, Any], response: Mapping[str, Any]) -> JobTimes | None:
    """The times of a training that was interrupted, resumed, or could have been; None of any other."""
    told = object_in(response, "Drivetrain")
    phases = tuple(_phases(response))
    interruptions = tuple(_interruption(entry) for entry in objects(told.get("interruptions"), MAX_ENTRIES))
    if not interruptions:  # another runner's job: its phases tell of them
        interruptions = tuple(
            Interruption(seconds_down=phase.ended - phase.started, reason=phase.message)
            for phase in phases
            if phase.status == "Interrupted"
        )
    attempts = _with_steps(_without_pauses(sorted(_attempts(told), key=lambda one: one.number)))
    interruptions = interruptions or tuple(_resumed(attempts))
    spot = any(given.get("EnableManagedSpotTraining") is True for given in (arguments, response))
    spot = spot or any(one.spot for one in attempts)
    if not (spot or interruptions or len(attempts) > 1) or not response:
        return None
    hosts = object_in(arguments, "ResourceConfig").get("InstanceCount")
    return JobTimes(
        step=step,
        spot=spot,
        hosts=hosts if isinstance(hosts, int) and hosts > 0 else 1,
        training_seconds=_number(response.get("TrainingTimeInSeconds")),
        billable_seconds=_number(response.get("BillableTimeInSeconds")),
        attempts=attempts,
        interruptions=interruptions,
        phases=phases,
    )


def _phases(response: Mapping[str, Any]) -> Iterator[Phase]:
    for entry in objects(response.get("SecondaryStatusTransitions"), MAX_ENTRIES):
        started, ended = _number(entry.get("StartTime")), _number(entry.get("EndTime"))
        if started is not None and ended is not None and ended >= started:
            yield Phase(
                status=str(entry.get("Status", "")),
                started=started,
                ended=ended,
                message=str(entry.get("StatusMessage") or ""),
            )


def _interruption(entry: Mapping[str, Any]) -> Interruption:
    return Interruption(
        start=whole(entry.get("start")),
        at_step=whole(entry.get("at_step")),
        resumed_step=whole(entry.get("resumed_step")),
        steps_lost=whole(entry.get("steps_lost")),
        notice_seconds=_number(entry.get("notice_s")),
        seconds_down=_number(entry.get("seconds_down")),
        reason=str(entry.get("reason") or ""),
    )


def _resumed(attempts: Iterable[Attempt]) -> Iterator[Interruption]:
    """The interruptions after which a job went on with the training of a stopped or killed one."""
    for before, after in pairwise(attempts):
        if after.job != before.job and after.first_step:
            lost = None if before.step is None else max(before.step - after.first_step, 0)
            yield Interruption(
                start=before.number,
                at_step=before.step,
                resumed_step=after.first_step,
                steps_lost=lost,
                reason="it ended, and was resumed",
            )


def _attempts(told: Mapping[str, Any]) -> Iterator[Attempt]:
    for entry in objects(told.get("attempts"), MAX_ENTRIES):
        number, started, time = whole(entry.get("number")), _number(entry.get("started")), _number(entry.get("time"))
        if number is None or started is None:
            continue
        yield Attempt(
            number=number,
            started=started,
            time=max(time if time is not None else started, started),
            first_step=whole(entry.get("first_step")),
            step=whole(entry.get("step")),
            saves=whole(entry.get("saves")) or 0,
            stall_seconds=_number(entry.get("stall_seconds")) or 0.0,
            restart_seconds=_number(entry.get("restart_seconds")) or 0.0,
            saved=tuple(_saved(entry.get("saved"))),
            spot=spot if isinstance(spot := entry.get("spot"), bool) else None,
            gone=_number(entry.get("gone")),
            job=whole(entry.get("job")) or 1,
        )


def _without_pauses(attempts: Iterable[Attempt]) -> Iterator[Attempt]:
    """A job that went on with the training of another follows it at once: how long nobody resumed it says nothing of
    machines."""
    pause, before = 0.0, None
    for one in attempts:
        if before is not None and one.job != before.job:
            pause += max(one.started - before.until, 0.0)
        before = one
        yield replace(
            one,
            started=one.started - pause,
            time=one.time - pause,
            gone=None if one.gone is None else one.gone - pause,
            saved=tuple((step, moment - pause) for step, moment in one.saved),
        )


def _with_steps(given: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """The launcher writes of programs that do not know of these records, and says 0 of what they do not tell."""
    attempts = tuple(given)
    if any(one.step for one in attempts):
        return attempts
    return tuple(replace(one, first_step=None, step=None) for one in attempts)


def _saved(value: Any) -> Iterator[tuple[int, float]]:
    for pair in map(as_list, as_list(value)[:MAX_ENTRIES]):
        if len(pair) == 2 and (step := whole(pair[0])) is not None and (moment := _number(pair[1])) is not None:
            yield step, moment


def _number(value: object) -> float | None:
    """A finite number from 0, which is all that a time can be."""
    number = finite(value)
    return number if number is not None and 0 <= number < 1e15 else None
