"""What a graph says of a pipeline's steps: on which machines one may run, which job made a value; steps replaced."""

from __future__ import annotations

from typing import Any

from drivetrain import Cluster, Parameter, Pipeline, script, when
from drivetrain.spec.pipeline import Graph, replaced
from drivetrain.spec.resources import InstanceGroup
from drivetrain.spec.steps import ConditionStep, ProcessingStep, Step

MACHINE = Parameter.string("Machine", choices=("ml.g5.xlarge", "ml.m5.large"))
SIZE = Parameter.string("Size", "ml.m5.xlarge", choices=("ml.m5.large", "ml.m5.xlarge"))


def work(name: str, **given: Any) -> ProcessingStep:
    return script("work.py", name=name, outputs=["made"], **given)


def graph(*steps: Step) -> Graph:
    return Graph(Pipeline(name="flow", steps=list(steps), parameters=[MACHINE, SIZE]))


def test_the_machines_of_a_step_start_with_its_own_choice() -> None:
    groups = (InstanceGroup(name="more", instance_type="ml.m5.large", count=1),)
    alike = work("alike").model_copy(update={"cluster": Cluster(instance_type="ml.c5.xlarge", groups=groups)})
    assert graph(work("other")).instance_types(alike) == ("ml.c5.xlarge", "ml.m5.large")


def test_the_machines_of_a_parameter_are_its_default_and_its_choices() -> None:
    sized = work("sized", cluster=Cluster(instance_type=SIZE.ref()))
    chosen = work("chosen", cluster=Cluster(instance_type=MACHINE.ref()))
    found = graph(sized, chosen)
    assert found.instance_types(sized) == ("ml.m5.xlarge", "ml.m5.large")
    assert found.instance_types(chosen) == ("ml.g5.xlarge", "ml.m5.large")


def test_the_job_behind_a_value() -> None:
    first = work("first")
    found = graph(first, work("second", inputs={"read": first["made"]}))
    assert found.producer(first["made"]) is found.by_name["first"]
    assert found.producer("s3://bucket/raw/") is None and found.producer(MACHINE.ref()) is None


def test_steps_in_branches_are_replaced_too() -> None:
    inner = work("inner")
    steps = (work("outer"), when(SIZE.ref().equals("ml.m5.large"), then=[inner], name="decide"))
    twice = replaced(steps, lambda step: (step, step.model_copy(update={"name": f"{step.name}-again"})))
    assert isinstance(twice[-1], ConditionStep)
    assert [step.name for step in twice] == ["outer", "outer-again", "decide"]
    assert [step.name for step in twice[-1].then] == ["inner", "inner-again"]
