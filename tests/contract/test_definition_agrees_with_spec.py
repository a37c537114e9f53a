"""The compiled definition read back says what the spec said: the same steps, edges, branches and parameters."""

from __future__ import annotations

import pytest

from drivetrain import Pipeline, UserError
from drivetrain.authoring.loading import load
from drivetrain.authoring.ready import ready_pipelines
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import Program
from drivetrain.spec.steps import ForEachStep, ProcessingStep
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.document import document, graph
from tests.fixtures.ready import deployable


@pytest.mark.parametrize("name", sorted(ready_pipelines()))
def test_a_definition_is_read_back_as_its_spec(name: str) -> None:
    pipeline = load(name, overrides=deployable(name)).pipeline
    spec = Graph(pipeline)
    definition = document.read(compile_pipeline(pipeline).text)
    graph.check(definition)
    bodies = {each.name for loop in spec.steps if isinstance(loop, ForEachStep) for each in loop.body}
    steps = [step.name for step in spec.steps if step.name not in bodies]
    assert [step.name for step in definition.walk()] == steps
    assert graph.dependencies(definition) == {step: set(spec.waits_for(step)) - bodies for step in steps}
    own = [one.name for one in pipeline.parameters]
    assert [parameter.name for parameter in definition.parameters] == [*own, "Fresh"]
    branches = {
        step.name: tuple(f"{c}:{'then' if b else 'otherwise'}" for c, b in step.branch) for step in definition.walk()
    }
    assert branches == {step: branch for step, branch in spec.branch.items() if step not in bodies}


@pytest.mark.parametrize("name", sorted(ready_pipelines()))
def test_local_and_deployed_definitions_are_equal(name: str) -> None:
    loaded = load(name, overrides=deployable(name))
    deployed = compile_pipeline(loaded.pipeline, loaded.source, loaded.base)
    local = compile_pipeline(loaded.pipeline, loaded.source, loaded.base, here=True)
    assert local.text == deployed.text
    assert local.notes == ()


def test_an_unavailable_wheel_blocks_only_a_deployment() -> None:
    program = Program(kind="component", target="module:function", needs=("no-such-distribution-anywhere",))
    pipeline = Pipeline(name="p", steps=[ProcessingStep(name="work", program=program)])
    with pytest.raises(UserError, match="pip download"):
        compile_pipeline(pipeline)
    (note,) = compile_pipeline(pipeline, here=True).notes
    assert "pip download" in note
