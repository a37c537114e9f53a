"""The state of the DAG, without threads or files: which steps may run next, and which never will.

A step runs when all it waits for has ended and

- every condition it stands under went its way;
- every step it refers to or depends on has succeeded (or was cached), for a ForEach those of its body, too;
- every step that it names with a Trigger ended that way (Failed, Stopped; Any: however it ended).

A ForEach that may run is expanded: the steps of its iterations come after it, each with needs of its own, at most
MaxConcurrency of them at a time, and when all have ended it has. Otherwise a step is not executed. The failure of a
step does not stop the branches that do not need it, since on the service they would have been started long before; a
Fail step ends the execution: nothing is started after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from drivetrain.run_store.events import ExecutionStatus, StepStatus
from drivetrain.targets.sagemaker.document.document import Definition, StepNode
from drivetrain.targets.sagemaker.document.graph import dependencies
from drivetrain.targets.sagemaker.document.step_fields import DependsOn

DONE: tuple[StepStatus, ...] = ("Succeeded", "Cached")
_TRIGGERED_BY: Mapping[str, tuple[StepStatus, ...]] = {
    "Failed": ("Failed",),
    "Stopped": ("Stopped",),
    "Any": ("Failed", "Stopped", *DONE),
}


@dataclass
class Loop:
    """A ForEach at work: `iterations` are its steps, `running` those that were taken, `left` those to be settled.

    Of the steps whose needs have ended `offered` may be taken, no more than `most` may run; the others are in `queue`
    by their order. So however many there are, few are looked at at a time.
    """

    step: StepNode
    iterations: Sequence[Sequence[StepNode]]
    most: int
    running: set[str] = field(default_factory=set[str])
    offered: set[str] = field(default_factory=set[str])
    queue: list[tuple[tuple[int, int], str]] = field(default_factory=list[tuple[tuple[int, int], str]])
    left: set[str] = field(default_factory=set[str])


class Scheduler:
    """The state of an execution's steps.

    `take()` gives the steps that may start now, each once; `settle()` says how one ended. It is over when nothing has
    been taken that is not settled and `take()` gives nothing.
    """

    def __init__(self, definition: Definition) -> None:
        self._steps = {step.name: step for step in definition.walk()}
        needs = dependencies(definition)
        self._waiting = {name: len(needs[name]) for name in self._steps}
        self._dependents: dict[str, list[str]] = {name: [] for name in self._steps}
        for name, needed in needs.items():
            for other in needed:
                self._dependents[other].append(name)
        self._order: dict[str, tuple[int, int]] = {name: (position, 0) for position, name in enumerate(self._steps)}
        self._ready = [name for name, count in self._waiting.items() if count == 0]
        self._outcomes: dict[str, bool] = {}
        self._loops: dict[str, Loop] = {}
        self._parents: dict[str, Loop] = {}
        self.statuses: dict[str, StepStatus] = {}
        self.reasons: dict[str, str] = {}
        self.halted = False
        self.first: frozenset[str] = frozenset()
        """While there are some, no other step can start."""

    def settle(self, name: str, status: StepStatus, *, outcome: bool | None = None, reason: str | None = None) -> None:
        """A step has ended; `outcome` is what a condition decided."""
        self.statuses[name] = status
        if outcome is not None:
            self._outcomes[name] = outcome
        if reason is not None:
            self.reasons[name] = reason
        if self._steps[name].type == "Fail" and status == "Failed":
            self.halted = True
        for other in self._dependents[name]:
            self._waiting[other] -= 1
            if self._waiting[other] == 0 and other not in self.statuses:
                self._make_ready(other)
        if (loop := self._parents.get(name)) is not None:
            loop.left.discard(name)
            self._release(loop, name)

    def take(self, limit: int | None = None) -> list[StepNode]:
        """At most `limit` steps that can start now, in the definition's order; none once the execution is halted."""
        if self.halted:
            return []
        runnable = [name for name in self._ready if self.blocked(name) is None and name in (self.first or (name,))]
        runnable.sort(key=self._order.__getitem__)
        taken = runnable[:limit]
        for name in taken:
            if (loop := self._parents.get(name)) is not None:
                loop.offered.discard(name)
                loop.running.add(name)
        chosen = set(taken)
        self._ready = [name for name in self._ready if name not in chosen]
        return [self._steps[name] for name in taken]

    def put_back(self, step: StepNode) -> None:
        """A step that was taken was not started."""
        self._ready.append(step.name)
        if (loop := self._parents.get(step.name)) is not None:
            loop.running.discard(step.name)
            loop.offered.add(step.name)

    def expand(self, step: StepNode, iterations: Sequence[Sequence[StepNode]], most: int) -> None:
        """A ForEach that was taken begins: the steps of its iterations may start, at most `most` at a time."""
        loop = self._loops[step.name] = Loop(step, iterations, most)
        position, _ = self._order[step.name]
        for number, one in enumerate(made for iteration in iterations for made in iteration):
            self._steps[one.name] = one
            self._parents[one.name] = loop
            self._order[one.name] = (position, number + 1)
            self._dependents[one.name] = []
            loop.left.add(one.name)
        from drivetrain.targets.sagemaker.document.for_each import inner_needs

        for iteration in iterations:
            # What they need of other steps has ended, since the ForEach waited for it.
            for name, needed in inner_needs(iteration).items():
                self._waiting[name] = len(needed)
                for other in needed:
                    self._dependents[other].append(name)
                if not needed:
                    self._make_ready(name)

    def _make_ready(self, name: str) -> None:
        """Everything that the step waits for has ended."""
        loop = self._parents.get(name)
        if loop is None:
            self._ready.append(name)
        else:
            heappush(loop.queue, (self._order[name], name))
            self._offer(loop)

    def _offer(self, loop: Loop) -> None:
        while loop.queue and len(loop.running) + len(loop.offered) < loop.most:
            name = heappop(loop.queue)[1]
            if name not in self.statuses:
                loop.offered.add(name)
                self._ready.append(name)

    def _release(self, loop: Loop, name: str) -> None:
        """A step of an iteration no longer counts among those that run or may."""
        loop.running.discard(name)
        loop.offered.discard(name)
        self._offer(loop)

    def ended_loops(self) -> list[Loop]:
        """Each ForEach whose steps have all ended and that has not been settled."""
        return [loop for name, loop in self._loops.items() if not loop.left and name not in self.statuses]

    def is_expanded(self, step: StepNode) -> bool:
        return step.name in self._loops

    def forget(self, names: Sequence[str]) -> None:
        """Steps that were settled before anything was taken are not ready to be taken."""
        settled = set(names)
        self._ready = [name for name in self._ready if name not in settled]

    def take_blocked(self) -> Iterator[tuple[StepNode, str]]:
        """Steps that will never run, with the reason, each once. Settle them as NotExecuted."""
        for name in list(self._ready):
            reason = self.blocked(name)
            if reason is not None:
                self._ready.remove(name)
                yield self._steps[name], reason

    def rest(self) -> list[StepNode]:
        """Steps that were never settled (nor taken, once everything taken is settled)."""
        return [step for name, step in self._steps.items() if name not in self.statuses]

    def blocked(self, name: str) -> str | None:
        """Why a step whose needs have all ended cannot run."""
        step = self._steps[name]
        for condition, wanted in step.branch:
            if self.statuses[condition] not in DONE:
                return f"{condition} was not decided"
            if self._outcomes.get(condition) != wanted:
                return f"{condition} took the other branch"
        waits = outer_waits(step)
        triggered = {dependency.step for dependency in waits if dependency.trigger is not None}
        for dependency in step.depends_on:
            status = self.statuses[dependency.step]
            if dependency.trigger is not None and status not in _TRIGGERED_BY[dependency.trigger]:
                return f"{dependency.step} ended {status}, and the step waits for {dependency.trigger}"
        conditions = {condition for condition, _ in step.branch}
        needed = {get.step for get in step.references if get.step} | {dependency.step for dependency in waits}
        for other in sorted(needed - triggered - conditions, key=self._order.__getitem__):
            if self.statuses[other] not in DONE:
                return f"{other} {_ENDED[self.statuses[other]]}"
        return None

    def status(self, *, stopped: bool) -> tuple[ExecutionStatus, str | None]:
        """How the execution ended, and why.

        A failure that a step with a Trigger took care of leaves it CompletedWithFailures.
        """
        # What failed in an iteration made its ForEach fail.
        failed = [name for name, status in self.statuses.items() if status == "Failed" and name not in self._parents]
        handled = taken_care_of(step for name, step in self._steps.items() if self.statuses.get(name) in DONE)
        unhandled = sorted((name for name in failed if name not in handled), key=self._order.__getitem__)
        if stopped:
            return "Stopped", "stopped by the user"
        if unhandled:
            from drivetrain.run_store.reasons import first_failure  # most runs succeed

            first = unhandled[0]
            return "Failed", first_failure(first, self.reasons.get(first, "failed"), len(unhandled))
        return ("CompletedWithFailures", f"{failed[0]} failed") if failed else ("Succeeded", None)


def outer_waits(step: StepNode) -> list[DependsOn]:
    """The DependsOn of a step; for a ForEach also those of its body that lead to steps outside."""
    of_the_body = (need for one in step.body for need in one.depends_on if need.step not in step.body_names)
    return [*step.depends_on, *of_the_body]


def taken_care_of(done: Iterable[StepNode]) -> set[str]:
    """Steps whose end a finished step had waited for by a Trigger."""
    return {need.step for step in done for need in step.depends_on if need.trigger is not None}


_ENDED: Mapping[StepStatus, str] = {
    "Failed": "failed",
    "Stopped": "was stopped",
    "NotExecuted": "was not executed",
    "Executing": "has not ended",
}
