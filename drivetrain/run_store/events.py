"""Events of an execution for those who watch it, wherever it runs.

Every event of a run here is given to `observer(event)` in the runner's main thread, after the ledger has it: a watcher
never shows something that a kill could still undo.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from drivetrain.base.errors import WARNING
from drivetrain.base.formatting import SIGNS, UNHEALTHY
from drivetrain.base.records import dataclass

StepStatus = Literal["Executing", "Succeeded", "Failed", "Stopped", "Cached", "NotExecuted"]
ExecutionStatus = Literal["Executing", "Succeeded", "CompletedWithFailures", "Failed", "Stopped"]
# How a part of a training's value begins that says from what it started.
STARTS_FROM = "starts from "
_UNHEALTHY = re.compile(rf"(?:^|; |^warning: ){UNHEALTHY}(.+)", re.DOTALL)


def unhealthy_part(value: str | None) -> str:
    """The part of a step's value about a failed health rule; empty if no rule failed."""
    found = _UNHEALTHY.search(value or "")
    return "" if found is None else found[1]


def shown_status(status: str, value: str | None) -> str:
    """The status as people see it: `Unhealthy` where the step is done and what it made is of no use."""
    return "Unhealthy" if status in ("Succeeded", "Cached") and unhealthy_part(value) else status


def shown_sign(status: str, value: str | None) -> str:
    """The sign of that; `!` also where the step is done and warned."""
    warned = status in ("Succeeded", "Cached") and WARNING in (value or "")
    return SIGNS["Unhealthy"] if warned else SIGNS.get(shown_status(status, value), "•")


def shown_run_status(status: str, *, stopping: bool = False, unhealthy: bool = False) -> str:
    """The same of a run: `unhealthy` says whether one of its steps is."""
    return "Stopping" if stopping else "Unhealthy" if unhealthy and status == "Succeeded" else status


@dataclass(frozen=True)
class ExecutionStarted:
    """`steps` are (name, type, display name or the name), branches included, in the definition's order.

    `resumed` says that the execution was begun by an earlier process; `finished` names the steps that it has done.
    """

    execution: str
    pipeline: str
    steps: tuple[tuple[str, str, str], ...]
    resumed: bool = False
    finished: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepStarted:
    """`why` says what made the step run instead of being taken from the cache: `("max_digits 4 -> 3",)`.

    Empty when the step has no cache or never ran before. Of a retried step only the first attempt says it.
    """

    step: str
    attempt: int
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepExpanded:
    """A ForEach begins: `steps` are those of its iterations, (name, type, display name), and follow it in the order;
    `finished` names those that were done before."""

    step: str
    steps: tuple[tuple[str, str, str], ...]
    finished: tuple[str, ...] = ()


@dataclass(frozen=True)
class CacheExplained:
    """Field by field why a step hit or missed; only with the option explain_cache.

    `fields` are (attribute, earlier value, present value), JSON texts, of the attributes that differ. `warnings` name
    what SageMaker's cache does not look at and what is different all the same.
    """

    step: str
    hit: bool
    reasons: tuple[str, ...]
    fields: tuple[tuple[str, str, str], ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class MetricLogged:
    """A training metric found in the log, `elapsed_s` seconds after the attempt's start."""

    step: str
    name: str
    value: float
    elapsed_s: float


@dataclass(frozen=True)
class StepRetrying:
    """Attempt number `attempt` failed; the next one starts in `wait_s` seconds."""

    step: str
    attempt: int
    reason: str
    wait_s: float


@dataclass(frozen=True)
class StepInterrupted:
    """The machines of a training job were taken away (a rehearsal); the job, and with it the attempt, goes on.

    `at_step` is the training's step, None where nobody says it; `start` the number of the start that follows.
    """

    step: str
    attempt: int
    at_step: int | None
    start: int
    reason: str


@dataclass(frozen=True)
class StepRestarted:
    """A training job that was interrupted is at work again, on new hosts, for the `start`-th time."""

    step: str
    attempt: int
    start: int


@dataclass(frozen=True)
class StepNoted:
    """A note on a step under way, in a few words: "7 of 20 trainings, best accuracy 0.93 (004)". The
    next note takes its place. `asks` says that the step waits for the user, who must be able to read all of it."""

    step: str
    attempt: int
    note: str
    asks: bool = False


@dataclass(frozen=True)
class StepFinished:
    """How a step ended.

    `seconds` of wall time, retries included; 0 for a step that was taken from the cache or not executed. `cache_of` is
    the execution whose result a Cached step took. `why` has warnings of the cache (about inputs that it does not
    check). `value` is a short result for the user: the branch of a condition, the registered version.
    """

    step: str
    status: StepStatus
    seconds: float
    reason: str | None = None
    cache_of: str | None = None
    why: tuple[str, ...] = ()
    value: str | None = None


@dataclass(frozen=True)
class ExecutionFinished:
    """How an execution ended, which a runner also gives back; `reason` says what went wrong, naming the step."""

    execution: str
    status: ExecutionStatus
    seconds: float
    reason: str | None = None


Event = (
    ExecutionStarted
    | StepStarted
    | StepExpanded
    | CacheExplained
    | MetricLogged
    | StepRetrying
    | StepInterrupted
    | StepRestarted
    | StepNoted
    | StepFinished
    | ExecutionFinished
)
Observer = Callable[[Event], None]


def ignore(event: Event) -> None:
    """An observer for runs that nobody watches."""
