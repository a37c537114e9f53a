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
from drivetrain.targets.sagemaker.run.execution.scope import ExecutionScope, moment_of_step, own_arguments
from drivetrain.targets.sagemaker.run.execution.worker import Done, Worker
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.spares import prepare_spare
from drivetrain.targets.sagemaker.run.step_types import find

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.run.execution.nothing_new import Search
    from drivetrain.targets.sagemaker.run.execution.selecting import Selection

# Types of steps that begin with our start file in a container.
RUN_PROGRAMS = ("Processing", "Training")


@dataclass(frozen=True)
class _Ready:
    """A step that may start as soon as a worker is free: its resolved fields, and what the cache said."""

    step: StepNode
    arguments: Mapping[str, Any]
    fields: Mapping[str, Any]
    key_fields: Mapping[str, Any] | None = None
    explanation: cache.Explanation | None = None


@dataclass(kw_only=True)
class Execution:
    """Runs one execution in this process, which holds its lock.

    Attributes:
        damaged: steps that run again though they were done -> why.
    """

    home: Home
    definition: Definition
    facts: Facts
    scope: ExecutionScope
    options: Options
    store: ObjectStore
    ledger: LedgerWriter
    observe: Observer
    selection: Selection | None
    search: Search | None
    damaged: dict[str, str]

    def __post_init__(self) -> None:
        self._nothing_new: str | None = None
        self._scheduler = Scheduler(self.definition)
        self._scheduler.first = frozenset() if self.search is None else self.search.looks
        self._control = Control(Slots(self.options.workers))
        self._inbox: queue.SimpleQueue[Event | Done | None] = queue.SimpleQueue()  # None: a signal arrived
        self._running: dict[str, threading.Thread] = {}
        self._ready: dict[str, _Ready] = {}
        self._fatal: BaseException | None = None
        self._before: tuple[str, ...] = ()
        self._worker = Worker(
            facts=self.facts,
            home=self.home,
            store=self.store,
            options=self.options,
            ledger=self.ledger,
            control=self._control,
            post=self._inbox.put,
        )

    def run(self, *, resumed: bool) -> ExecutionFinished:
        """Run what is left to run.

        Raises:
            UserError: the disk is full; the execution can be resumed.
        """
        began = time.monotonic()
        failed: tuple[StepFinished, ...] = ()
        if resumed:
            cache.hold_outputs(self.ledger.steps(self.facts.id), self.ledger, self.store)
            from drivetrain.targets.sagemaker.run.resume.resuming import take_up

            self._before, failed = take_up(self.definition, self.facts.id, self.ledger, self.scope, self._scheduler)
        steps = tuple((row.name, row.type, row.title) for row in self.ledger.steps(self.facts.id))
        self.observe(ExecutionStarted(self.facts.id, self.facts.pipeline, steps, resumed, self._before))
        for event in failed:
            self.observe(event)
        if self.selection is not None:
            left = [step for step in self.definition.walk() if step.name not in self.selection.steps]
            self._take_over(left, self.selection.reused, "not selected")
        grace_s, asked = self.options.stop_grace_s, lambda: self._inbox.put(None)
        with stop_on_signals(self._control, grace_s, asked, self._tell_stopping):
            try:
                self._loop()
            except BaseException:
                self._end_running()
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
        self.ledger.finish(self.facts.id, status, reason)
        finished = ExecutionFinished(self.facts.id, status, time.monotonic() - began, reason)
        self.observe(finished)
        return finished

    def _end_early(self) -> None:
        """Once all looks have ended, let an earlier execution's results stand for all other steps if nothing is new."""
        if self.search is None or not self.search.looks <= self._scheduler.statuses.keys():
            return
        search, self.search = self.search, None
        self._scheduler.first = frozenset()
        if all(self._scheduler.statuses[look] == "Succeeded" for look in search.looks) and (since := search.since()):
            self._nothing_new = f"{NOTHING_NEW}{since}"
            self._take_over(self._scheduler.rest(), search.rows(since), self._nothing_new)

    def _take_over(self, steps: Iterable[StepNode], rows: Mapping[str, StepRun], why: str) -> None:
        """Let those of the steps that are not settled yet end as in an earlier execution (`rows`), without being run or
        looked up in the cache; the others wait for nothing that was taken."""
        cache.hold_outputs(rows.values(), self.ledger, self.store)
        left = [step for step in steps if step.name not in self._scheduler.statuses]
        for step in left:
            row = rows.get(step.name)
            if row is None or row.status == "NotExecuted":
                self._not_executed(step, why)
            else:
                self._take(step, row, row.arguments, (why,), reused=True)
        self._scheduler.forget([step.name for step in left])

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
            elif message is not None:  # after a signal the handler has stopped the jobs; their ends arrive here
                self.observe(message)

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
            if step.type == FOR_EACH and step.name not in self.options.stubs:
                self._begin_loop(step)
                return None
            now = partial(moment_of_step, self.home, self.facts.id, step.name)
            arguments = self.scope.arguments(own_arguments(step), step.name, now)
            fields = {key: value for key, value in step.own_fields.items() if key != "Arguments"}
            fields = self.scope.arguments(fields, step.name, now)
        except UserError as error:
            self._failed(step, f"{ERROR}{error}")
            return None
        if step.name in self.options.stubs:
            return _Ready(step, arguments, fields)
        if getattr(find(step.type), "INLINE", False):
            self._run_inline(step, arguments, fields)
            return None
        explanation = None
        # Who wants to see a training interrupted wants to see it run.
        asked = self.options.cache and step.cache.enabled and step.name not in self.options.uncached
        if asked and not self.options.interrupts(step):
            explanation = cache.look_up(
                step,
                arguments,
                execution=self.facts.id,
                pipeline=self.facts.pipeline,
                ledger=self.ledger,
                store=self.store,
                masking=self.ledger.masking,
            )
            if explanation.hit:
                earlier = explanation.earlier
                assert earlier is not None
                cache.hold_outputs([earlier], self.ledger, self.store)
                self._explain(step, explanation)
                self._take(step, earlier, arguments, explanation.warnings)
                return None
        return _Ready(step, arguments, fields, key_fields(step.type, arguments), explanation)

    def _begin_loop(self, step: StepNode) -> None:
        """Let the steps of a ForEach's iterations come; those that an earlier process has done are done.

        Raises:
            UserError: its items have no value, or are no list.
        """
        from drivetrain.targets.sagemaker.run.execution.iterating import begin

        begun = begin(step, self.home, self.facts.id, self.scope, self.ledger, self._scheduler)
        self.options = self.options.for_iterations(begun.bodies)
        self._worker = replace(self._worker, options=self.options)
        self.observe(StepStarted(step.name, 1))
        self.observe(StepExpanded(step.name, begun.steps, begun.done))

    def _end_loop(self, loop: Loop, cut_off: Collection[str] = ()) -> None:
        """All steps of a ForEach's iterations have ended, so it has."""
        from drivetrain.targets.sagemaker.run.execution.iterating import ends
        from drivetrain.targets.sagemaker.run.step_types.for_each import end

        step = loop.step
        result = end(step, ends(loop, self._scheduler.statuses, self.scope.responses, cut_off))
        response, value = result.response, result.value
        status, reason = response["Status"], response.get("FailureReason")
        reason = None if reason is None else self.ledger.masking.message(reason)
        seconds = self.ledger.finish_step(
            self.facts.id, step.name, status, response=response, value=value, reason=reason
        )
        self.scope.finished(step.name, response)
        self._scheduler.settle(step.name, status, reason=reason)
        self.observe(StepFinished(step.name, status, seconds, reason=reason, value=value))

    def _start(self, ready: _Ready) -> None:
        step, explanation = ready.step, ready.explanation
        why = cache.why_not_asked(step, self.options, self.scope) if explanation is None else explanation.reasons
        if lost := self.damaged.pop(step.name, None):
            why = (lost,)
        number = self.ledger.start_step(
            self.facts.id,
            step.name,
            arguments=ready.arguments,
            why=why,
            cache_key=None if ready.key_fields is None else key_of(step.type, ready.key_fields),
            cache_fields=ready.key_fields,
        )
        self._explain(step, explanation)
        self.observe(StepStarted(step.name, number, why))
        thread = threading.Thread(
            target=self._worker.run, args=(step, ready.arguments, ready.fields, number), name=f"step {step.name}"
        )
        self._running[step.name] = thread
        thread.start()
        # Have a supervisor wait for the next step that runs a program, if it is one of ours, while this one runs.
        for step in self._scheduler.rest():
            if step.type in RUN_PROGRAMS and step.name not in {*self._running, *self.options.stubs}:
                prepare_spare(self._control.spares, step.name, step.arguments, self.definition, self.store)
                return

    def _run_inline(self, step: StepNode, arguments: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
        module = find(step.type)
        assert module is not None
        try:
            result = module.run(self._worker.context(step, arguments, fields, 0))
        except (StepFailedError, UserError) as error:
            self._failed(step, f"{ERROR}{error}" if isinstance(error, UserError) else str(error), arguments)
            return
        ended = StepFinished(step.name, "Succeeded", 0.0, value=result.value)
        self._end(step, ended, arguments, result.response)

    def _take(
        self,
        step: StepNode,
        earlier: StepRun,
        arguments: Mapping[str, Any],
        why: tuple[str, ...],
        *,
        reused: bool = False,
    ) -> None:
        """Take the result of a step from an earlier execution."""
        source = earlier.cache_of or earlier.execution
        ended = StepFinished(step.name, "Cached", 0.0, cache_of=source, why=why, value=earlier.value)
        self._end(step, ended, arguments, earlier.response, reused=reused)

    def _end(
        self,
        step: StepNode,
        ended: StepFinished,
        arguments: Mapping[str, Any] | None = None,
        response: Mapping[str, Any] | None = None,
        *,
        reused: bool = False,
    ) -> None:
        """End a step that takes no time: for the ledger, for expressions, for other steps, and for the observer."""
        self.ledger.settle_step(
            self.facts.id,
            step.name,
            ended.status,
            arguments=arguments,
            response=response,
            value=ended.value,
            reason=ended.reason,
            cache_of=ended.cache_of,
            why=ended.why,
            reused=reused,
        )
        decided = None
        if response is not None:
            self.scope.finished(step.name, response)
            decided = outcome(step.type, response)
        self._scheduler.settle(step.name, ended.status, outcome=decided, reason=ended.reason)
        self.observe(ended)

    def _explain(self, step: StepNode, explanation: cache.Explanation | None) -> None:
        if explanation is not None and self.options.explain_cache:
            import json

            fields = tuple((one.attribute, json.dumps(one.old), json.dumps(one.new)) for one in explanation.fields)
            self.observe(CacheExplained(step.name, explanation.hit, explanation.reasons, fields, explanation.warnings))

    def _settle(self, done: Done) -> None:
        if done.fatal is not None:
            self._fatal = self._fatal or done.fatal
            self._control.stop(0.0)
            return
        if done.response:
            self.scope.finished(done.step.name, done.response)
        self._scheduler.settle(done.step.name, done.status, reason=done.reason)
        if self._before:
            from drivetrain.targets.sagemaker.run.resume.earlier_looks import notes_of

            for note in notes_of(done.step.name, self._before, self.definition, self.scope, self.ledger):
                self.observe(note)

    def _failed(self, step: StepNode, reason: str, arguments: Mapping[str, Any] | None = None) -> None:
        reason = self.ledger.masking.message(reason)
        self.scope.finished(step.name, {"FailureReason": reason})
        self._end(step, StepFinished(step.name, "Failed", 0.0, reason=reason), arguments)

    def _not_executed(self, step: StepNode, reason: str) -> None:
        self._end(step, StepFinished(step.name, "NotExecuted", 0.0, reason=reason))

    def _tell_stopping(self) -> None:
        with suppress(LedgerFullError):  # the end of the execution meets it, too, and says it
            self.ledger.stop(self.facts.id)

    def _end_running(self) -> None:
        """Stop the running jobs and wait for their threads before an error ends this process."""
        self._control.stop(0.0)
        for thread in self._running.values():
            thread.join()
