"""The log of a step of a deployed run: the choice of the step, and its lines, at once or as they grow."""

from __future__ import annotations

import sys
from collections.abc import Callable

from drivetrain.base.errors import UserError, did_you_mean, nearest
from drivetrain.deploying.following import POLL_SECONDS, FollowedRun, LogLine, Wait, sleep
from drivetrain.deploying.runs import RemoteRun, RemoteStep


def read_log(
    followed: FollowedRun,
    name: str | None,
    write: Callable[[LogLine], object],
    *,
    follow: bool = False,
    num_lines: int | None = None,
    wait: Wait = sleep,
) -> None:
    """Give a step's lines to `write`; with `follow`, until the step ends.

    Args:
        name: of the step; else of the failed, running or last one.
        num_lines: only the last ones of what is there already.

    Raises:
        UserError: there is no such log, or it cannot be read.
    """
    run = followed.look()
    if not follow:
        copy_log(followed, run, step_with_log(run, name), write, num_lines=num_lines)
        return
    with followed.followed(wait):
        run, step = awaited_step(followed, run, name, wait)
        copy_log(followed, run, step, write, follow=True, num_lines=num_lines, wait=wait)


def step_with_log(run: RemoteRun, name: str | None) -> RemoteStep:
    """The named step, else the most interesting one: failed, running, the last one.

    Raises:
        UserError: there is no such step, it has not begun, or it ran no program.
    """
    if name is not None:
        step = _named(run, name)
        if step is None:
            begun = [step.name for step in run.steps]
            hint = f"Did you mean {close!r}? " if (close := nearest(name, begun)) else ""
            said = f"{hint}Begun: {', '.join(begun) or 'none'}. {run.note or ''}".rstrip()
            raise UserError(f"No step {name!r} has begun in execution {run.id}. {said}")
        if step.no_log is not None:
            raise UserError(f"Step {name!r} of {run.id} has no log: {step.no_log}.")
        return step
    logged = [step for step in run.steps if step.no_log is None]
    if not logged:
        yet = " yet" if run.is_going else ""
        raise UserError(f"No step of execution {run.id} has a log{yet}. {run.note or ''}".rstrip())
    return next((step for status in ("Failed", "Executing") for step in logged if step.status == status), logged[-1])


def awaited_step(
    followed: FollowedRun, run: RemoteRun, name: str | None, wait: Wait = sleep
) -> tuple[RemoteRun, RemoteStep]:
    """As `step_with_log`, for who follows: a step that has not begun is waited for while the run goes on. Gives the run
    as it is then, too.

    Raises:
        UserError: there will be no such log.
    """
    told, planned = False, None
    while True:
        try:
            return run, step_with_log(run, name)
        except UserError:
            step = _named(run, name)
            if name is not None and step is None:
                planned = planned or {known for each in followed.planned(run) for known in (each.name, each.title)}
                if name not in planned:
                    raise UserError(f"Execution {run.id} has no step {name!r}. {did_you_mean(name, planned)}") from None
            if not run.is_going or (step is not None and not step.may_log):
                raise
        if not told:
            told = True
            what = "No step has" if name is None else f"Step {name!r} has not"
            print(f"{what} begun yet{f' ({run.note})' if run.note else ''}. Following goes on.", file=sys.stderr)
            sys.stderr.flush()
        wait(POLL_SECONDS)
        run = followed.look()


def _named(run: RemoteRun, name: str | None) -> RemoteStep | None:
    return next((step for step in run.steps if name in (step.name, step.title)), None)


def copy_log(
    followed: FollowedRun,
    run: RemoteRun,
    step: RemoteStep,
    write: Callable[[LogLine], object],
    *,
    follow: bool = False,
    num_lines: int | None = None,
    wait: Wait = sleep,
) -> None:
    """As `read_log`, of a step that has a log."""
    log = followed.log(run, step, num_lines)
    told: set[str] = set()
    while True:
        # Looked at before the lines, so that what was written before the end is not missed.
        over = not follow or step.has_ended
        for line in log.new_lines(step):
            write(line)
        if over:
            break
        for why in log.waits():
            if why not in told:
                told.add(why)
                print(why, file=sys.stderr, flush=True)
        wait(POLL_SECONDS)
        found = _named(followed.look(), step.name)
        step = step if found is None else found
    if (problem := log.problem()) is not None:
        raise UserError(problem)
