"""Find the steps that a `fail` step keeps from starting.

On SageMaker, and in runs on this machine, nothing starts once a fail step is reached. The platform has no such step: a
task that fails stops those alone that wait for it. So the steps that would not start wait for it there:

- every step that can only begin later than the fail step, since it needs all that the fail step needs, and more;
- if both need the same, the later one in the pipeline;
- every step that registers a model, unless it needs less than the fail step, for then it begins before.

Of other steps the order does not say whether they begin before; they are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from drivetrain.spec.pipeline import Graph
from drivetrain.spec.steps import ConditionStep, FailStep, JobStep, RegisterStep, Step
from drivetrain.steps.kubeflow.task import REGISTER
from drivetrain.targets.target import Problem

BRANCHES = ("then", "otherwise")


def held(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Fail step -> the steps that it keeps from starting where it is reached, in the pipeline's order.

    The steps of a loop are held with it, and not named.
    """
    fails = [step for step in graph.steps if isinstance(step, FailStep)]
    if not fails:
        return {}
    order = _Order(graph)
    return {fail.name: tuple(order.held(fail.name)) for fail in fails}


def registers(step: Step) -> bool:
    """Return True if a step registers a model."""
    return isinstance(step, RegisterStep) or (isinstance(step, JobStep) and step.program.target == REGISTER)


def problems(graph: Graph) -> Iterator[Problem]:
    """Steps that register a model though a fail step was reached."""
    for fail, step, needed in _running_anyhow(graph):
        if registers(step):
            reason = (
                f"it registers a model, and runs there however {needed!r} ended: fail step {fail!r} cannot keep it "
                "from starting. Leave the trigger out."
            )
            yield Problem(step.name, f"after {needed!r}", reason)


def notes(graph: Graph) -> Iterator[str]:
    """Other steps that run though a fail step was reached."""
    for fail, step, needed in _running_anyhow(graph):
        if not registers(step):
            yield (
                f"Step {step.name!r} runs however {needed!r} ended: on Kubeflow Pipelines fail step {fail!r} does not "
                "keep it from starting."
            )


def _running_anyhow(graph: Graph) -> Iterator[tuple[str, Step, str]]:
    """Fail step, a step that it cannot hold, and the step after whose end that runs."""
    for fail, steps in held(graph).items():
        for step in (graph.by_name[name] for name in steps):
            for dependency in step.depends_on:
                if dependency.trigger == "Any":
                    yield fail, step, dependency.step


def moved(graph: Graph, fails: Iterable[str]) -> dict[str, list[str]]:
    """Condition -> the fail steps that stand beside it in the compiled pipeline, and not in a branch of it, so that
    others can wait for them and need not wait for all else of the branch.

    A fail step is moved out of a condition if everything is known outside: the compared values and the step's message.
    """
    found: dict[str, list[str]] = {}
    for fail in fails:
        path = graph.branch[fail]
        for level in range(len(path)):
            conditions = [entry.rpartition(":")[0] for entry in path[level:]]
            needed = {each for name in (fail, *conditions) for each in graph.needs[name]}
            if all(graph.branch[each] == path[:level][: len(graph.branch[each])] for each in needed):
                found.setdefault(conditions[0], []).append(fail)
                break
    return found


def around(graph: Graph, fail: str, moved: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """The conditions that a fail step was moved out of, and the branch of each that leads to it."""
    path = [(name, branch) for name, _, branch in map(_parted, graph.branch[fail])]
    first = next((number for number, (name, _) in enumerate(path) if fail in moved.get(name, ())), len(path))
    return path[first:]


class _Order:
    """The order in which steps begin, as far as the graph determines it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.position = {step.name: number for number, step in enumerate(graph.steps)}
        self._before: dict[str, frozenset[str]] = {}

    def before(self, name: str) -> frozenset[str]:
        """All that must end before a step begins."""
        waiting = [name]
        while waiting:
            needed = self.graph.waits_for(waiting[-1])
            if missing := [each for each in needed if each not in self._before]:
                waiting += missing
                continue
            self._before[waiting.pop()] = needed.union(*(self._before[each] for each in needed))  # type: ignore[assignment]
        return self._before[name]

    def jobs(self, name: str) -> frozenset[str]:
        """The steps that must end before a step begins and take time, unlike conditions and fail steps."""
        by_name = self.graph.by_name
        return frozenset(each for each in self.before(name) if not isinstance(by_name[each], ConditionStep | FailStep))

    def place(self, name: str) -> tuple[int, int]:
        """Rank a step among those that wait for the same jobs (the lowest begins first): so many decisions come
        between those jobs and it, and so many steps stand before it."""
        conditions = [
            each
            for each in self.graph.waits_for(name)
            if isinstance(self.graph.by_name[each], ConditionStep) and self.jobs(each) == self.jobs(name)
        ]
        return max((self.place(each)[0] + 1 for each in conditions), default=0), self.position[name]

    def held(self, fail: str) -> Iterator[str]:
        jobs, place = self.jobs(fail), self.place(fail)
        for step in self.graph.steps:
            name = step.name
            if name == fail or name in self.before(fail) or name in self.graph.loops or self._excluded(name, fail):
                continue
            others = self.jobs(name)
            later = others > jobs or (others == jobs and self.place(name) > place)
            if later or (registers(step) and not others <= jobs):
                yield name

    def _excluded(self, one: str, other: str) -> bool:
        """Return True if a condition lets at most one of the two steps run."""
        taken = {condition: branch for condition, _, branch in map(_parted, self.graph.branch[one])}
        entries = [_parted(entry) for entry in self.graph.branch[other]]
        return any(taken.get(condition, branch) != branch for condition, _, branch in entries)


def _parted(entry: str) -> tuple[str, str, str]:
    return entry.rpartition(":")
