"""The training steps of a pipeline that run drivetrain's own train component, with the values they will run with.

A value that a pipeline parameter gives is looked at for its default and each of its choices, one parameter at a time
with the others at their defaults; the launcher looks at the combination that is really started. A value that only the
run will know (a parameter without default, another step's output) is None and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from drivetrain.base.degrees import World
from drivetrain.base.records import dataclass
from drivetrain.catalog.instances import Instance, find_instance
from drivetrain.spec.pipeline import Graph, Parameter, Pipeline
from drivetrain.spec.steps import JobStep, TrainingStep, flatten, is_our_training
from drivetrain.spec.values import ParameterRef, Scalar
from drivetrain.training.table_config import TableConfig

# What these parameters are where the component does not declare them (yet).
FIELDS: Mapping[str, Scalar | None] = {
    "recipe": None,
    "recipe_options": "{}",
    "strategy": None,
    "strategy_options": "{}",
    "global_batch": None,
    "health_rules": "{}",
    "checkpoint_every": None,
    "accumulation": 1,
    "precision": "fp32",
    "activation_checkpointing": False,
    "compile": False,
    "fused": False,
    "sync_batchnorm": False,
    "profile": 0,
    "workers": 0,
    "processes": 0,
}


@dataclass(frozen=True, kw_only=True)
class Training:
    """One way in which a training step can run."""

    step: TrainingStep
    given: Mapping[str, Scalar]
    """The pipeline parameters that it depends on, with their values."""
    values: Mapping[str, Scalar | None]

    def text(self, name: str) -> str | None:
        value = self.values[name]
        return value if isinstance(value, str) else None

    def number(self, name: str) -> int | None:
        value = self.values[name]
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def where(self) -> str:
        """`step 'train'`, and with which values of the pipeline's parameters."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.given.items())
        return f"step {self.step.name!r}" + (f" (with {given})" if given else "")

    @property
    def strategy(self) -> str | None:
        return self.text("strategy")

    @property
    def instance(self) -> Instance | None:
        name = self.text("instance_type")
        return None if name is None else find_instance(name)

    @property
    def processes(self) -> int | None:
        """Processes a host, as the launcher will count them: those given, else one a GPU, else one."""
        if (given := self.number("processes")) is None:
            return None
        if processes := given or self.step.cluster.processes:
            return processes
        return self.instance.default_processes if self.instance else None

    @property
    def world(self) -> World | None:
        hosts, processes = self.number("hosts"), self.processes
        return None if hosts is None or processes is None else World(hosts, processes)


def trainings(pipeline: Pipeline) -> Iterator[Training]:
    """Every way in which each of a pipeline's training steps can run."""
    for step in flatten(pipeline.steps):
        if is_our_training(step):
            yield from ways(step, pipeline.parameters)


def ways(step: TrainingStep, parameters: tuple[Parameter, ...]) -> Iterator[Training]:
    """The way in which a training step runs by default, and those that differ from it in one pipeline parameter."""
    fields: dict[str, Any] = {name: step.parameters.get(name, default) for name, default in FIELDS.items()}
    fields |= {"instance_type": step.cluster.machine, "hosts": step.cluster.count}
    declared = {parameter.name: parameter for parameter in parameters}
    wanted = {value.name for value in fields.values() if isinstance(value, ParameterRef) and value.name in declared}
    choices = {name: known for name in sorted(wanted) if (known := declared[name].values)}
    first = {name: values[0] for name, values in choices.items()}
    others = [{**first, name: value} for name, values in choices.items() for value in values[1:]]
    for given in (first, *others):
        values = {name: _value(value, given) for name, value in fields.items()}
        yield Training(step=step, given=given, values=values)


def _value(value: Any, given: Mapping[str, Scalar]) -> Scalar | None:
    if isinstance(value, ParameterRef):
        return given.get(value.name)
    return value if isinstance(value, str | int | float | bool) else None


def estimators_of(step: JobStep, graph: Graph) -> tuple[str, ...]:
    """The estimators that train_table may learn with: of a pipeline parameter its choices, or else its default."""
    given = step.parameters.get("estimator", TableConfig.estimator)
    if isinstance(given, ParameterRef) and given.name in graph.parameters:
        declared = graph.parameters[given.name]
        return tuple(map(str, declared.choices or (declared.default,)))
    return (given,) if isinstance(given, str) else ()
