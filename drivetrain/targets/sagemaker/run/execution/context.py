"""The input of a step type (`RunPlan` when the definition is checked, `StepContext` when the step runs), and the
result that it gives.

SIGINT, SIGTERM and SIGHUP stop the jobs: the first signal with a grace period, the next one at once.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from drivetrain.base.records import dataclass
from drivetrain.run_store.events import Event, MetricLogged
from drivetrain.run_store.home import Home
from drivetrain.run_store.objects import ObjectStore
from drivetrain.run_store.statuses import Facts
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution import (
    CAPACITY_ERROR,
    JOB_INTERNAL_ERROR,
    StepFailedError,
    StepStoppedError,
)
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.spares import Spares

if TYPE_CHECKING:
    from drivetrain.processes import ProcessRecord
    from drivetrain.processes.container import Job, JobResult, RunningJob
    from drivetrain.run_store.schema import ArtifactEntry
    from drivetrain.targets.sagemaker.run.jobs.job_data import Publication
    from drivetrain.targets.sagemaker.run.jobs.logged_metrics import Logged


# Errors of fork and of the first allocations: the machine is full at the moment.
_NO_CAPACITY = ("EAGAIN", "ENOMEM")


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """A step succeeded.

    `response` is what the service's describe call would say of it, `value` the result in a word for people,
    `publication` what goes into the store, `inputs` what was read from it.
    """

    response: Mapping[str, Any]
    value: str | None = None
    publication: Publication | None = None
    inputs: tuple[ArtifactEntry, ...] = field(default=())


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """The execution before anything starts.

    `arguments` are the step's, resolved as far as parameters and the execution's own values go. `written` are the
    URIs, known by now, that the other steps of this definition write to. `others` are the arguments of every step by
    its name.
    """

    arguments: Mapping[str, Any]
    raw: Mapping[str, Any]
    options: Options
    store: ObjectStore
    written: Sequence[str]
    others: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    def is_written(self, uri: str) -> bool:
        """Return True if another step of this execution may bring what lies at `uri`.

        A written URI that ends with `*` stands for all that begin so.
        """
        stem = uri.rstrip("/")
        return any(
            stem == other
            or stem.startswith(other.removesuffix("*") if other.endswith("*") else other + "/")
            or other.startswith(stem)
            for other in (written.rstrip("/") for written in self.written)
        )


@dataclass
class Control:
    """Passes the user's request to stop to the worker threads, limits their jobs, and knows which jobs run."""

    slots: Slots
    stopping: threading.Event = field(default_factory=threading.Event)
    grace_s: float = 10.0
    spares: Spares = field(default_factory=Spares)
    _running: set[RunningJob] = field(default_factory=set["RunningJob"])
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def stop(self, grace_s: float) -> None:
        """Stop every job; jobs that are just starting end at once."""
        with self._guard:
            self.grace_s = grace_s
            self.stopping.set()
            running = list(self._running)
        for job in running:
            job.stop(grace_s)

    def attach(self, job: RunningJob) -> None:
        with self._guard:
            self._running.add(job)
            stopping = self.stopping.is_set()
        if stopping:
            job.stop(self.grace_s)

    def detach(self, job: RunningJob) -> None:
        with self._guard:
            self._running.discard(job)


@dataclass(frozen=True, kw_only=True)
class StepContext:
    """One attempt at a step, in a thread of its own. `folder` is the attempt's own and empty."""

    facts: Facts
    step: StepNode
    arguments: Mapping[str, Any]
    fields: Mapping[str, Any]
    """The step's other fields (FunctionArn, ...), resolved."""
    attempt: int
    folder: Path
    logs: Path
    home: Home
    store: ObjectStore
    options: Options
    ledger: LedgerWriter
    control: Control
    post: Callable[[Event], None]

    def log_metrics(self, found: Iterable[Logged]) -> None:
        """Take note of metrics, some thousands at a time."""
        rest = iter(found)
        while some := list(islice(rest, 5000)):
            self.enter_metrics(some)

    def enter_metrics(self, found: Sequence[Logged]) -> None:
        """Record metrics and notify observers."""
        values = [(one.name, one.seconds, one.value, one.position) for one in found]
        self.ledger.log_metrics(self.facts.id, self.step.name, self.attempt, values)
        for one in found:
            self.post(MetricLogged(self.step.name, one.name, one.value, one.seconds))

    def record_processes(self, processes: Sequence[ProcessRecord]) -> None:
        """Enter the supervisors of the attempt, before they start anything."""
        self.ledger.record_processes(self.facts.id, self.step.name, self.attempt, processes)

    def run_job(self, job: Job) -> None:
        """Run a job to its end.

        Raises:
            StepFailedError: the job failed, ran out of time, or its supervisor died.
            StepStoppedError: the user stopped the run.
        """
        raise_unless_succeeded(self.watch_job(job))

    def watch_job(
        self,
        job: Job,
        tick: Callable[[float, bool], None] | None = None,
        *,
        every_s: float | None = None,
        interrupt: Callable[[float], float | None] | None = None,
    ) -> JobResult:
        """Run a job, and say how it ended. `tick(seconds, final)` is called every `every_s` seconds and once after the
        end; `interrupt(seconds)` is asked as often: the notice, in seconds, with which the machines go now, once.

        Raises:
            StepFailedError: the machine could not start it.
            StepStoppedError: the user had stopped the run before.
        """
        from drivetrain.processes import container

        if self.control.stopping.is_set():
            raise StepStoppedError

        started = time.monotonic()
        try:
            job = replace(job, secrets=self.ledger.masking.secrets)
            running = container.start(
                job, record=self.record_processes, take_spare=partial(self.control.spares.take, self.step.name)
            )
        except OSError as error:
            import errno

            if errno.errorcode.get(error.errno or 0) in _NO_CAPACITY:
                raise StepFailedError(f"the machine could not start the job: {error}", CAPACITY_ERROR) from error
            raise
        self.control.attach(running)
        try:
            while (result := running.wait(every_s)) is None:
                seconds = time.monotonic() - started
                if tick is not None:
                    tick(seconds, False)
                if interrupt is not None and (notice_s := interrupt(seconds)) is not None:
                    running.interrupt(notice_s)
                    interrupt = None
        except BaseException:
            running.stop(0.0)
            running.wait()
            raise
        finally:
            self.control.detach(running)
        if tick is not None:
            tick(time.monotonic() - started, True)
        return result


def raise_unless_succeeded(result: JobResult) -> None:
    """
    Raises:
        StepFailedError: the job failed, ran out of time, or its supervisor died.
        StepStoppedError: the user stopped the run.
    """
    if result.succeeded:
        return
    if result.stopped:
        raise StepStoppedError
    if result.timed_out:
        raise StepFailedError(
            f"{result.failure_reason or 'exceeded its time limit'} (StoppingCondition.MaxRuntimeInSeconds)"
        )
    infrastructure = result.exit_code is None and result.signal is None
    raise StepFailedError(
        result.failure_reason or f"exit code {result.exit_code}", JOB_INTERNAL_ERROR if infrastructure else None
    )


class Slots:
    """The jobs that may be at work at a time. Each running step has one slot; a step of many jobs (a tuning) takes
    more while some are free, and never waits for one. Safe to use from several threads."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._guard = threading.Lock()

    def take(self) -> bool:
        """Take a slot if one is free; returns whether it was."""
        with self._guard:
            if self._free < 1:
                return False
            self._free -= 1
            return True

    def give(self) -> None:
        """A job has ended: its slot is free again. A caller that gives a slot beside a step's own wakes the execution's
        loop with an event, so that a waiting step can start."""
        with self._guard:
            self._free += 1


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_on_signals(
    control: Control, grace_s: float, asked: Callable[[], None], first: Callable[[], None]
) -> Generator[None]:
    """Stop the jobs on a signal, giving them `grace_s` seconds the first time. In another thread than the main one,
    which signals do not reach, nothing is done.

    Args:
        asked: called at each signal, from its handler: it must not wait.
        first: called once, from another thread, before the jobs are stopped.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        # Not from the handler itself: the main thread may be holding a lock that stopping needs.
        threading.Thread(target=stop_jobs, args=(next(signals) > 1,), daemon=True).start()
        asked()

    def stop_jobs(again: bool) -> None:
        if not again:
            first()
        control.stop(0.0 if again else grace_s)

    signals = count(1)
    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
