"""Turn what tasks report into rows of the ledger and events for those who watch.

A task says that it has begun and how it has ended. What has no task (conditions, loops, branches that are not taken)
follows from that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.masking import Masking, without_secrets
from drivetrain.processes.supervised import FAILURE_CHARACTERS, failure_reason, mask_logs
from drivetrain.run_store.events import (
    ExecutionStatus,
    MetricLogged,
    Observer,
    StepExpanded,
    StepFinished,
    StepRetrying,
    StepStarted,
)
from drivetrain.run_store.reasons import first_failure, loop_reason
from drivetrain.run_store.schema import Child
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.spec.pipeline import Graph, Pipeline
from drivetrain.spec.steps import ConditionStep, FailStep, ForEachStep, RegisterStep, Selector, Step
from drivetrain.spec.values import IterationRef, LoggedRef, MetricRef, ParameterRef, Reference
from drivetrain.targets.fresh import is_fresh
from drivetrain.targets.kubeflow.compile import checks, fails
from drivetrain.targets.kubeflow.compile.retries import most_patient, policies_of
from drivetrain.targets.kubeflow.run.conditions import holds
from drivetrain.targets.kubeflow.run.recorded import Recorded, arguments_of
from drivetrain.targets.kubeflow.run.skeleton import TYPES
from drivetrain.targets.kubeflow.settings import settings_of

if TYPE_CHECKING:
    from drivetrain.assets.assets import Code

Json = dict[str, Any]
LOG_NAME = "algo-1.log"
STOPPED, REACHED = "stopped by the user", "the pipeline's Fail step was reached"


class Book:
    """The ledger's side of one execution.

    Args:
        parameters: the pipeline's, typed.
        codes: step -> the archive with its program.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        execution: str,
        parameters: Mapping[str, Any],
        ledger: LedgerWriter,
        observer: Observer,
        codes: Mapping[str, Code],
    ) -> None:
        self.pipeline, self.execution, self.parameters = pipeline, execution, parameters
        self.ledger, self.observer, self.codes = ledger, observer, codes
        self.recorded = Recorded(ledger.home)
        self.graph = Graph(pipeline)
        self.why = ("--fresh",) if is_fresh(parameters) else ("it has no cache",)
        """Why each step runs: the runner keeps no results."""
        self.settings = settings_of(pipeline.deployment)
        self.held = fails.held(self.graph)
        self.stopping = False
        """True if the tasks at work have been asked to end."""
        self.values: dict[tuple[str, str], Any] = {}
        self.status: dict[str, str] = {}
        self.attempts: dict[str, int] = {}
        self.running: dict[str, int] = {}
        self.children: dict[str, list[str]] = {}
        self.outcomes: dict[str, bool] = {}
        self.reasons: dict[str, str] = {}
        self.arguments: dict[str, list[str]] = {}

    def outside_loops(self) -> list[Step]:
        """The steps that run at most once."""
        return [step for step in self.graph.steps if step.name not in self.graph.loops]

    def told(self, report: Mapping[str, Any]) -> None:
        """Enter one report."""
        match report["event"]:
            case "started":
                self._started(report)
            case "metric":
                self._metric(report)
            case "ended":
                self._ended(report)
            case other:
                raise AssertionError(f"tasks report no {other!r}")

    def row(self, report: Mapping[str, Any]) -> tuple[Step | None, str]:
        """The step that a report is of, and the name of its row; no step for what the compiler added."""
        name = str(report["step"])
        step = self.graph.by_name.get(name)
        loop = self.graph.loops.get(name)
        if step is None or loop is None:
            return step, name
        self._expand(loop)
        return step, f"{name}-{report['iteration']}"

    def _started(self, report: Mapping[str, Any]) -> None:
        step, row = self.row(report)
        if step is None:
            return
        self.running[row] = int(report["pid"])
        self.arguments[row] = [str(word) for word in report["arguments"]]
        if row in self.attempts:  # kfp tries again
            self.attempts[row] = self.ledger.retry_step(self.execution, row)
        else:
            arguments = arguments_of(step, self.arguments[row], self.codes[step.name].sha256)
            self.attempts[row] = self.ledger.start_step(self.execution, row, arguments=arguments, why=self.why)
        self.status[row] = "Executing"
        self.observer(StepStarted(row, self.attempts[row], self.why if self.attempts[row] == 1 else ()))

    def _metric(self, report: Mapping[str, Any]) -> None:
        _, row = self.row(report)
        name, value, seconds = str(report["name"]), float(report["value"]), float(report["seconds"])
        self.ledger.log_metrics(self.execution, row, self.attempts[row], [(name, seconds, value)])
        self.observer(MetricLogged(row, name, value, seconds))

    def _ended(self, report: Mapping[str, Any]) -> None:
        step, row = self.row(report)
        for key, value in report.get("parameters", {}).items():
            self.values[row, key] = value
        if step is None or self.status.get(row) == "Failed":  # kfp tried again what another attempt does not change
            return
        if isinstance(step, FailStep):  # as everywhere: it is settled, and takes no attempt
            self._settle(row, "Failed", reason=str(report["reason"]))
            self._settle_conditions()
            return
        if row not in self.attempts:  # it has ended before it had begun
            self.attempts[row] = self.ledger.start_step(self.execution, row, arguments={})
            self.observer(StepStarted(row, self.attempts[row]))
        self.running.pop(row, None)
        self._mask_logs(row)
        if report["code"] == 0:
            self._succeeded(step, row, report)
        else:
            self._failed(step, row, report)
        self._settle_conditions()
        if loop := self.graph.loops.get(step.name):
            self._close(loop)

    def _succeeded(self, step: Step, row: str, report: Mapping[str, Any]) -> None:
        outputs = {name: self.recorded.uri(uri) for name, uri in report.get("outputs", {}).items()}
        log = self._logs(row) / LOG_NAME
        response, value = self.recorded.response(step, self.arguments[row], outputs, log)
        self.ledger.publish(
            self.execution,
            row,
            self.attempts[row],
            response=response,
            value=value,
            moves=(),
            artifacts=[
                *self.recorded.artifacts("input", report.get("inputs", {})),
                # Of a version the registry has all; a RegisterStep has no outputs on any target.
                *([] if isinstance(step, RegisterStep) else self.recorded.artifacts("output", outputs)),
            ],
            objects=(),
        )
        self._finish(row, "Succeeded", value=value)

    def _failed(self, step: Step, row: str, report: Mapping[str, Any]) -> None:
        if self.stopping:
            self._finish(row, "Stopped", reason=STOPPED)
            return
        code, reason = int(report["code"]), without_secrets(str(report["reason"]))[:FAILURE_CHARACTERS]
        if reason in ("", f"exit code {code}"):  # the program has not said why
            reason = self._end_of_log(row, code)
        policies = policies_of(step, self.settings)
        retry = most_patient(policies) if policies else None
        if retry is not None and self.attempts[row] <= retry.max_attempts and report["code"] not in (1, 2):
            self.ledger.end_attempt(self.execution, row, self.attempts[row], "Failed", reason)
            wait_s = retry.interval_seconds * retry.backoff_rate ** (self.attempts[row] - 1)
            self.observer(StepRetrying(row, self.attempts[row], reason, wait_s))
            return
        self._finish(row, "Failed", reason=reason)

    def _logs(self, row: str) -> Path:
        """The folder of the logs of its last attempt."""
        return self.ledger.home.logs(self.execution, row, self.attempts[row])

    def _mask_logs(self, row: str) -> None:
        """Mask the secrets of this process in the logs of a task that has ended: a task is not given them, since its
        program would see them, and so it masks only what looks like a secret."""
        mask_logs(self._logs(row), Masking())

    def _end_of_log(self, row: str, code: int) -> str:
        """How a program ended that said nothing of it, as the reason of any job here."""
        folder = self._logs(row)
        exit_code, signal = (None, code - 128) if code > 128 else (code, None)
        return failure_reason(folder, folder / LOG_NAME, 0, exit_code, signal)

    def _settle(self, row: str, status: Any, *, reason: str | None = None, value: str | None = None) -> None:
        """End a step that takes no time."""
        self.ledger.settle_step(self.execution, row, status, reason=reason, value=value)
        self._tell_end(row, status, 0.0, reason, value)

    def _finish(self, row: str, status: Any, *, reason: str | None = None, value: str | None = None) -> None:
        seconds = self.ledger.finish_step(self.execution, row, status, number=self.attempts[row], reason=reason)
        self._tell_end(row, status, seconds, reason, value)

    def _tell_end(self, row: str, status: Any, seconds: float, reason: str | None, value: str | None) -> None:
        self.status[row] = status
        if reason is not None:
            self.reasons[row] = reason
        self.observer(StepFinished(row, status, seconds, reason=reason, value=value))

    def _settle_conditions(self) -> None:
        """Say how the conditions came out that are reached and can be decided."""
        for step in self.graph.steps:
            if isinstance(step, ConditionStep) and step.name not in self.status and self._is_reached(step):
                if any(
                    step.name in held and self._is_reached(self.graph.by_name[fail]) for fail, held in self.held.items()
                ):
                    continue
                try:
                    outcome = holds(step.condition, self._value)
                except KeyError:
                    continue  # what it compares is not there yet
                self.outcomes[step.name] = outcome
                self._settle(step.name, "Succeeded", value="yes" if outcome else "no")

    def _is_reached(self, step: Step) -> bool:
        """Return True if the branches in which a step stands are taken, and all that it needs has succeeded."""
        needed = self.graph.needs[step.name]
        return self._is_taken(step.name) and all(self.status.get(name) == "Succeeded" for name in needed)

    def _is_taken(self, name: str) -> bool:
        for entry in self.graph.branch[name]:
            outer, _, branch = entry.rpartition(":")
            if branch != "body" and self.outcomes.get(outer) is not (branch == "then"):
                return False
        return True

    def _value(self, reference: Reference) -> Any:
        match reference:
            case ParameterRef(name=name):
                return self.parameters[name]
            case MetricRef(step=step):
                return self.values[step, checks.key_of(checks.metric_name(reference))]
            case LoggedRef(step=step, name=name):
                return self.values[step, f"logged-{checks.key_of(name)}"]
            case IterationRef(step=step, index=index, of=LoggedRef() as of):
                called = f"{step}-selected" if index is None else f"{step}-{index}"
                inner = checks.task_name(of.step)
                return self.values[called, f"{inner}-logged-{checks.key_of(of.name)}-chosen"]
            case _:
                raise AssertionError(f"{reference.described()} is compared by no condition there")

    def _expand(self, loop: ForEachStep) -> None:
        """Enter the steps of a loop's iterations, once one of them is told of."""
        if loop.name in self.children:
            return
        assert isinstance(loop.items, tuple)
        children = [
            Child(
                name=f"{step.name}-{index}",
                type=TYPES[step.kind],
                title=f"{step.display_name or step.name} [{index}]",
                iteration=index,
                item=str(item),
            )
            for index, item in enumerate(loop.items)
            for step in loop.body
        ]
        self.children[loop.name] = [child.name for child in children]
        self.status[loop.name] = "Executing"
        self.ledger.expand_step(self.execution, loop.name, arguments={}, children=children)
        self.observer(StepExpanded(loop.name, tuple((child.name, child.type, child.title) for child in children)))

    def _close(self, loop: ForEachStep, *, last: bool = False) -> None:
        """End a loop whose iterations have ended; `last` where nothing follows any more."""
        states = [self.status.get(name) for name in self.children[loop.name]]
        ended = [state for state in states if state in ("Succeeded", "Failed")]
        if self.status[loop.name] != "Executing" or not (last or len(ended) == len(states)):
            return
        failed = [name for name in self.children[loop.name] if self.status.get(name) == "Failed"]
        status: Any = "Succeeded" if not failed and len(ended) == len(states) else "Failed"
        reason = loop_reason([(name, self.reasons[name]) for name in failed]) if failed else None
        value = f"{states.count('Succeeded')} of {len(states)} steps"
        if status == "Succeeded" and loop.selector is not None:
            value = self._selected(loop.selector, len(states) // len(loop.body)) or value
        seconds = self.ledger.finish_step(
            self.execution, loop.name, status, response={"Status": status}, value=value, reason=reason
        )
        self._tell_end(loop.name, status, seconds, reason, value)

    def _selected(self, selector: Selector, iterations: int) -> str | None:
        """The iteration of a loop that is handed on, and why: `fit-1: score 0.9`; None if no step reads it, for then
        tasks do not hand on what is compared."""
        assert isinstance(selector.value, LoggedRef)
        step, metric = selector.value.step, selector.value.name
        given = [self.values.get((f"{step}-{n}", f"logged-{checks.key_of(metric)}")) for n in range(iterations)]
        values = [float(value) for value in given if value is not None]
        if len(values) < iterations:
            return None
        best = max(values) if selector.pick == "MaxBy" else min(values)
        return f"{step}-{values.index(best)}: {metric} {best:g}"

    def end(self, status: ExecutionStatus) -> tuple[ExecutionStatus, str | None]:
        """Settle what is open: no task is at work any more. Gives how the execution ended, and why it did not succeed.

        Args:
            status: how kfp's runner says that it ended.
        """
        for row in list(self.running):
            self._mask_logs(row)
            if status == "Stopped":
                self._finish(row, "Stopped", reason=STOPPED)
            else:
                self._finish(row, "Failed", reason="its task ended without a word")
        for step in self.graph.steps:
            if isinstance(step, ForEachStep) and step.name in self.children:
                self._close(step, last=True)
        if any(isinstance(step, FailStep) and self.status.get(step.name) == "Failed" for step in self.graph.steps):
            self._settle_held()
        for row in self._rows():
            if row not in self.status:
                self._settle(row, "NotExecuted", reason=self._why_not(row))
        if status == "Stopped":
            return status, STOPPED
        failed = [step.name for step in self.graph.steps if self.status.get(step.name) == "Failed"]
        if unhandled := [name for name in failed if name not in self._handled()]:
            first = unhandled[0]
            return "Failed", first_failure(first, self.reasons.get(first, "failed"), len(unhandled))
        return ("CompletedWithFailures", f"{failed[0]} failed") if failed else (status, None)

    def _handled(self) -> set[str]:
        """The steps whose ends other steps, which have succeeded, had waited for however they ended."""
        done = [step for step in self.graph.steps if self.status.get(step.name) == "Succeeded"]
        return {dependency.step for step in done for dependency in step.depends_on if dependency.trigger is not None}

    def _settle_held(self) -> None:
        """Settle what a fail step has kept from starting, after those that would not have run without it."""
        settled = True
        while settled:
            settled = False
            for row in self._rows():
                waits = self.graph.waits_for(row) if row in self.graph.by_name else ()
                if row in self.status or any(name not in self.status for name in waits):
                    continue
                if (reason := self._why_not(row)) is not None:
                    self._settle(row, "NotExecuted", reason=reason)
                    settled = True
        for row in self._rows():
            if row not in self.status:
                self._settle(row, "NotExecuted", reason=REACHED)

    def _why_not(self, row: str) -> str | None:
        """Why a step did not run; None where nothing says it, as in a run that was stopped."""
        if row not in self.graph.by_name:
            return None
        for entry in self.graph.branch[row]:
            outer, _, branch = entry.rpartition(":")
            if branch == "body":
                continue
            if outer not in self.outcomes:
                return f"{outer} was not decided"
            if self.outcomes[outer] is not (branch == "then"):
                return f"{outer} took the other branch"
        for dependency in self.graph.by_name[row].depends_on:
            if dependency.trigger is not None and self.status.get(dependency.step) == "NotExecuted":
                return f"{dependency.step} ended NotExecuted, and the step waits for {dependency.trigger}"
        for needed in sorted(self.graph.needs[row], key=[step.name for step in self.graph.steps].index):
            if self.status.get(needed) in ("Failed", "NotExecuted"):
                return f"{needed} {'failed' if self.status[needed] == 'Failed' else 'was not executed'}"
        return None

    def lost(self) -> list[str]:
        """Steps that should have run, by what the conditions say, and did not: kfp read a condition otherwise."""
        return [step.name for step in self.outside_loops() if step.name not in self.status and self._is_reached(step)]

    def _rows(self) -> Iterator[str]:
        yield from (step.name for step in self.outside_loops())
        for names in self.children.values():
            yield from names
