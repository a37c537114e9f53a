"""One execution, from its first step to its last: the loop of the main thread.

Steps work in threads (worker.py); this loop takes what may start from the scheduler, takes results from the cache,
hands the rest to workers, and tells the observer what the ledger has. It alone calls the observer.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import ERROR, UserError
from drivetrain.base.records import dataclass
from drivetrain.run_store.events import (
    CacheExplained,
    Event,
    ExecutionFinished,
    ExecutionStarted,
    ExecutionStatus,
    Observer,
    StepExpanded,
    StepFinished,
    StepStarted,
)
from drivetrain.run_store.home import Home
from drivetrain.run_store.model import NOTHING_NEW, StepRun
from drivetrain.run_store.objects import ObjectStore
from drivetrain.run_store.schema import LedgerFullError
from drivetrain.run_store.statuses import Facts
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.targets.sagemaker.document.document import FOR_EACH, Definition, StepNode
from drivetrain.targets.sagemaker.document.step_types import key_fields, key_of, outcome
from drivetrain.targets.sagemaker.run.execution import StepFailedError, cache
from drivetrain.targets.sagemaker.run.execution.context import Control, Slots, stop_on_signals
from drivetrain.targets.sagemaker.run.execution.scheduler import Loop, Scheduler
from drivetrain.targets.sagemaker.run.execution.scope import ExecutionScope, moment_of_step
from drivetrain.targets.sagemaker.run.execution.worker import Done, Worker
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.spares import prepare_spare
from drivetrain.targets.sagemaker.run.step_types import find

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.run.execution.nothing_new import Search
    from drivetrain.targets.sagemaker.run.execution.selecting import Selection

NOT_SELECTED = "not selected"
# Types of steps that begin with our start file in a container.
RUN_PROGRAMS = ("Processing", "Training")


@dataclass(frozen=True)
class _StopRequested:
    """A signal arrived."""


@dataclass(frozen=True)
class _Ready:
    """A step that may start as soon as a worker is free: its resolved fields, and what the cache said."""

    step: StepNode
    arguments: Mapping[str, Any]
    fields: Mapping[str, Any]
    key_fields: Mapping[str, Any] | None = None
    explanation: cache.Explanation | None = None


class Execution:
    """Runs one execution in this process, which holds its lock."""

    def __init__(
        self,
        *,
        home: Home,
        definition: Definition,
        facts: Facts,
        scope: ExecutionScope,
        options: Options,
        store: ObjectStore,
        ledger: LedgerWriter,
        observer: Observer,
        selection: Selection | None = None,
        search: Search | None = None,
        damaged: Mapping[str, str] | None = None,
    ) -> None:
        """`damaged`: steps that run again though they were done -> why."""
        self._definition = definition
        self._facts = facts
        self._options = options
        self._store = store
        self._ledger = ledger
        self._observe = observer
        self._home = home
        self._scope = scope
        self._selection = selection
        self._search = search
        self._nothing_new: str | None = None
        self._damaged = dict(damaged or {})
        self._scheduler = Scheduler(definition)
        self._scheduler.first = frozenset() if search is None else search.looks
        self._control = Control(Slots(options.workers))
        self._inbox: queue.SimpleQueue[Event | Done | _StopRequested] = queue.SimpleQueue()
        self._running: dict[str, threading.Thread] = {}
        self._ready: dict[str, _Ready] = {}
        self._fatal: BaseException | None = None
        self._before: tuple[str, ...] = ()
        self._worker = Worker(
            facts=facts,
            home=home,
            store=store,
            options=options,
            ledger=ledger,
            control=self._control,
            post=self._inbox.put,
        )

    def run(self, *, resumed: bool) -> tuple[ExecutionStatus, float, str | None]:
        """Run what is left to run.

        Raises:
            UserError: the disk is full; the execution can be resumed.
        """
        began = time.monotonic()
        failed: tuple[StepFinished, ...] = ()
        if resumed:
            cache.hold_outputs(self._ledger.steps(self._facts.id), self._ledger, self._store)
            from drivetrain.targets.sagemaker.run.resume.resuming import take_up

            self._before, failed = take_up(self._definition, self._facts.id, self._ledger, self._scope, self._scheduler)
        steps = tuple((row.name, row.type, row.title) for row in self._ledger.steps(self._facts.id))
        self._observe(ExecutionStarted(self._facts.id, self._facts.pipeline, steps, resumed, self._before))
        for event in failed:
            self._observe(event)
        if self._selection is not None:
            left = [step for step in self._definition.walk() if step.name not in self._selection.steps]
            self._take_over(left, self._selection.reused, NOT_SELECTED)
        grace_s, asked = self._options.stop_grace_s, lambda: self._inbox.put(_StopRequested())
        with stop_on_signals(self._control, grace_s, asked, self._tell_stopping):
            try:
                self._loop()
            except BaseException:
                self._end_running(0.0)
                raise
            finally:
                self._control.spares.close()
        if self._fatal is not None:
            raise self._fatal
        stopped = self._control.stopping.is_set()
        rest = self._scheduler.rest()
        for step in rest:
            if not self._scheduler.is_expanded(step):
                self._not_executed(step, "the run was stopped" if stopped else "the pipeline's Fail step was reached")
        for loop in self._scheduler.ended_loops():
            self._end_loop(loop, cut_off={step.name for step in rest})
        status, reason = self._scheduler.status(stopped=stopped)
        reason = reason or self._nothing_new
        self._ledger.finish(self._facts.id, status, reason)
        seconds = time.monotonic() - began
        self._observe(ExecutionFinished(self._facts.id, status, seconds, reason))
        return status, seconds, reason

    def _end_early(self) -> None:
        """Once all looks have ended, let an earlier execution's results stand for all other steps if nothing is new."""
        if self._search is None or not self._search.looks <= self._scheduler.statuses.keys():
            return
        search, self._search = self._search, None
        self._scheduler.first = frozenset()
        if all(self._scheduler.statuses[look] == "Succeeded" for look in search.looks) and (since := search.since()):
            self._nothing_new = f"{NOTHING_NEW}{since}"
            self._take_over(self._scheduler.rest(), search.rows(since), self._nothing_new)

    def _take_over(self, steps: Iterable[StepNode], rows: Mapping[str, StepRun], why: str) -> None:
        cache.hold_outputs(rows.values(), self._ledger, self._store)
        from drivetrain.targets.sagemaker.run.execution.taking_over import take_over

        take_over(steps, rows, why, self._facts.id, self._ledger, self._scope, self._scheduler, self._observe)

    def _loop(self) -> None:
        while True:
            while not self._control.stopping.is_set() and self._start_what_can():
                pass
            if not self._running:
                return
            message = self._inbox.get()
            if isinstance(message, Done):
                self._running.pop(message.step.name).join()
                self._control.slots.give()
                self._settle(message)
            elif isinstance(message, _StopRequested):
                continue  # the handler has stopped the jobs; their ends arrive here
            else:
                self._observe(message)

    def _start_what_can(self) -> bool:
        """Start or settle every step that can be now. Returns whether one was settled, which may unblock others."""
        progress = False
        self._end_early()
        for step, reason in self._scheduler.take_blocked():
            self._not_executed(step, reason)
            progress = True
        for loop in self._scheduler.ended_loops():
            self._end_loop(loop)
            progress = True
        for step in self._scheduler.take():
            if self._control.stopping.is_set() or self._scheduler.halted:
                self._scheduler.put_back(step)
                continue
            ready = self._ready.pop(step.name, None) or self._prepare(step)
            if ready is None:
                progress = True
            elif self._control.slots.take():
                self._start(ready)
            else:
                self._ready[step.name] = ready
                self._scheduler.put_back(step)
        return progress

    def _prepare(self, step: StepNode) -> _Ready | None:
        """Resolve what a step needs to start; None if it was settled at once, without a worker."""
        try:
            if step.type == FOR_EACH and step.name not in self._options.stubs:
                self._begin_loop(step)
                return None
            given: dict[str, Any] = step.own_fields.get("Arguments") or {}
            if step.type == FOR_EACH:
                from drivetrain.targets.sagemaker.document.for_each import OF_THE_BODY

                given = {key: value for key, value in given.items() if key not in OF_THE_BODY}
            now = partial(moment_of_step, self._home, self._facts.id, step.name)
            arguments = self._scope.arguments(given, step.name, now)
            fields = {key: value for key, value in step.own_fields.items() if key != "Arguments"}
            fields = self._scope.arguments(fields, step.name, now)
        except UserError as error:
            self._failed(step, f"{ERROR}{error}")
            return None
        if step.name in self._options.stubs:
            return _Ready(step, arguments, fields)
        if getattr(find(step.type), "INLINE", False):
            self._run_inline(step, arguments, fields)
            return None
        explanation = None
        # Who wants to see a training interrupted wants to see it run.
        asked = self._options.cache and step.cache.enabled and step.name not in self._options.uncached
        if asked and not self._options.interrupts(step):
            explanation = cache.look_up(
                step,
                arguments,
                execution=self._facts.id,
                pipeline=self._facts.pipeline,
                ledger=self._ledger,
                store=self._store,
                masking=self._ledger.masking,
            )
            if explanation.hit:
                self._take_from_cache(step, arguments, explanation)
                return None
        return _Ready(step, arguments, fields, key_fields(step.type, arguments), explanation)

    def _begin_loop(self, step: StepNode) -> None:
        """Let the steps of a ForEach's iterations come; those that an earlier process has done are done.

        Raises:
            UserError: its items have no value, or are no list.
        """
        from drivetrain.targets.sagemaker.run.execution.iterating import begin

        begun = begin(step, self._home, self._facts.id, self._scope, self._ledger, self._scheduler)
        self._options = self._options.for_iterations(begun.bodies)
        self._worker = replace(self._worker, options=self._options)
        self._observe(StepStarted(step.name, 1))
        self._observe(StepExpanded(step.name, begun.steps, begun.done))

    def _end_loop(self, loop: Loop, cut_off: Collection[str] = ()) -> None:
        """All steps of a ForEach's iterations have ended, so it has."""
        from drivetrain.targets.sagemaker.run.execution.iterating import ends
        from drivetrain.targets.sagemaker.run.step_types.for_each import end

        step = loop.step
        iterations = ends(loop, self._scheduler.statuses, self._scope.responses, cut_off)
        context = replace(self._worker.context(step, step.arguments, {}, 0), iterations=iterations)
        status, response, value, said = end(context)
        reason = None if said is None else self._ledger.masking.message(said)
        seconds = self._ledger.close_step(
            self._facts.id, step.name, status, response=response, value=value, reason=reason
        )
        self._scope.finished(step.name, response)
        self._scheduler.settle(step.name, status, reason=reason)
        self._observe(StepFinished(step.name, status, seconds, reason=reason, value=value))

    def _start(self, ready: _Ready) -> None:
        step, explanation = ready.step, ready.explanation
        why = cache.why_not_asked(step, self._options, self._scope) if explanation is None else explanation.reasons
        if lost := self._damaged.pop(step.name, None):
            why = (lost,)
        number = self._ledger.start_step(
            self._facts.id,
            step.name,
            arguments=ready.arguments,
            why=why,
            cache_key=None if ready.key_fields is None else key_of(step.type, ready.key_fields),
            cache_fields=ready.key_fields,
        )
        if explanation is not None:
            self._explain(step, explanation)
        self._observe(StepStarted(step.name, number, why))
        thread = threading.Thread(
            target=self._worker.run, args=(step, ready.arguments, ready.fields, number), name=f"step {step.name}"
        )
        self._running[step.name] = thread
        thread.start()
        # Have a supervisor wait for the next step that runs a program, if it is one of ours, while this one runs.
        for step in self._scheduler.rest():
            if step.type in RUN_PROGRAMS and step.name not in {*self._running, *self._options.stubs}:
                prepare_spare(self._control.spares, step.name, step.arguments, self._store)
                return

    def _run_inline(self, step: StepNode, arguments: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
        module = find(step.type)
        assert module is not None
        try:
            result = module.run(self._worker.context(step, arguments, fields, 0))
        except (StepFailedError, UserError) as error:
            self._failed(step, f"{ERROR}{error}" if isinstance(error, UserError) else str(error), arguments)
            return
        self._ledger.settle_step(
            self._facts.id, step.name, "Succeeded", arguments=arguments, response=result.response, value=result.value
        )
        self._scope.finished(step.name, result.response)
        self._scheduler.settle(step.name, "Succeeded", outcome=outcome(step.type, result.response))
        self._observe(StepFinished(step.name, "Succeeded", 0.0, value=result.value))

    def _take_from_cache(self, step: StepNode, arguments: Mapping[str, Any], found: cache.Explanation) -> None:
        earlier = found.earlier
        assert earlier is not None
        self._ledger.settle_step(
            self._facts.id,
            step.name,
            "Cached",
            arguments=arguments,
            response=earlier.response,
            value=earlier.value,
            cache_of=earlier.execution,
            why=found.warnings,
        )
        cache.hold_outputs([earlier], self._ledger, self._store)
        self._explain(step, found)
        self._scope.finished(step.name, earlier.response)
        self._scheduler.settle(step.name, "Cached")
        self._observe(
            StepFinished(step.name, "Cached", 0.0, cache_of=earlier.execution, why=found.warnings, value=earlier.value)
        )

    def _explain(self, step: StepNode, explanation: cache.Explanation) -> None:
        if self._options.explain_cache:
            import json

            fields = tuple((one.attribute, json.dumps(one.old), json.dumps(one.new)) for one in explanation.fields)
            self._observe(CacheExplained(step.name, explanation.hit, explanation.reasons, fields, explanation.warnings))

    def _settle(self, done: Done) -> None:
        if done.fatal is not None:
            self._fatal = self._fatal or done.fatal
            self._control.stop(0.0)
            return
        if done.response:
            self._scope.finished(done.step.name, done.response)
        self._scheduler.settle(done.step.name, done.status, reason=done.reason)
        if self._before:
            from drivetrain.targets.sagemaker.run.resume.earlier_looks import notes_of

            for note in notes_of(done.step.name, self._before, self._definition, self._scope, self._ledger):
                self._observe(note)

    def _failed(self, step: StepNode, reason: str, arguments: Mapping[str, Any] | None = None) -> None:
        reason = self._ledger.masking.message(reason)
        self._ledger.settle_step(self._facts.id, step.name, "Failed", arguments=arguments, reason=reason)
        self._scope.finished(step.name, {"FailureReason": reason})
        self._scheduler.settle(step.name, "Failed", reason=reason)
        self._observe(StepFinished(step.name, "Failed", 0.0, reason=reason))

    def _not_executed(self, step: StepNode, reason: str) -> None:
        self._ledger.settle_step(self._facts.id, step.name, "NotExecuted", reason=reason)
        self._scheduler.settle(step.name, "NotExecuted", reason=reason)
        self._observe(StepFinished(step.name, "NotExecuted", 0.0, reason=reason))

    def _tell_stopping(self) -> None:
        with suppress(LedgerFullError):  # the end of the execution meets it, too, and says it
            self._ledger.stop(self._facts.id)

    def _end_running(self, grace_s: float) -> None:
        """Stop the running jobs and wait for their threads before an error ends this process."""
        self._control.stop(grace_s)
        for thread in self._running.values():
            thread.join()
