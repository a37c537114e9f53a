"""Check the sources of a task's inputs: each must exist, and its type must fit what the component takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from drivetrain.base.errors import did_you_mean
from drivetrain.targets.kubeflow.ir.components import Component, Components, Flow, fits, type_of
from drivetrain.targets.kubeflow.ir.problems import Json, Problem, at, quoted

STATUS = "TASK_FINAL_STATUS"
COMPLETED = "ALL_UPSTREAM_TASKS_COMPLETED"
# An artifact of this type stands for one of any.
_ANY_ARTIFACT = "system.Artifact"


@dataclass(frozen=True)
class Given:
    """The type of what a source gives, a parameter's or an artifact's; None if it is not known."""

    type: str | None
    is_list: bool = False

    def described(self) -> str:
        return f"a list of {self.type}" if self.is_list else f"{self.type}"


def taken(definition: Json, flow: Flow) -> Given:
    """The type that a definition of an input or output declares."""
    if flow == "parameters":
        return Given(type_of(definition))
    return Given(definition.get("artifactType", {}).get("schemaTitle"), bool(definition.get("isArtifactList")))


def mismatch(given: Given, wanted: Given) -> bool:
    """Return True if something of the type `given` cannot be taken as `wanted`."""
    if None in (given.type, wanted.type):
        return False
    if given.is_list != wanted.is_list:
        return True
    if given.type == wanted.type or _ANY_ARTIFACT in (given.type, wanted.type):
        return False
    return (given.type, wanted.type) != ("NUMBER_INTEGER", "NUMBER_DOUBLE")


class Sources:
    """The sources of a DAG's tasks."""

    def __init__(self, components: Components, dag: Component) -> None:
        self.components, self.dag = components, dag
        # kfp's compiler declares items of a list with unknown content as texts.
        self.items = {use.iterator.get("itemInput") for use in components.uses.get(dag.name, ())}

    def producer(self, name: str | None, place: str) -> Iterator[Problem]:
        """The problem with a task that another one takes from, if any."""
        if not name:
            yield Problem(place, "names no task.")
        elif name not in self.dag.tasks:
            yield Problem(place, f"there is no task {quoted(name)} in this DAG. {did_you_mean(name, self.dag.tasks)}")

    def given(self, source: Json, flow: Flow, place: str, found: list[Problem]) -> Given | None:
        """The type of what a source gives; None if it has a problem, which is added to `found`, or no type of its
        own."""
        word = "Parameter" if flow == "parameters" else "Artifact"
        if (name := source.get(f"componentInput{word}")) is not None:
            return self._input(name, flow, at(place, f"componentInput{word}"), found)
        if (output := source.get(f"taskOutput{word}")) is not None:
            return self.output(
                output.get("producerTask"),
                output.get(f"output{word}Key"),
                flow,
                at(place, f"taskOutput{word}"),
                found,
            )
        return None

    def output(
        self,
        task: str | None,
        key: str | None,
        flow: Flow,
        place: str,
        found: list[Problem],
        field: str = "producerTask",
    ) -> Given | None:
        """The type of an output of a task of the DAG; None if it has a problem, which is added to `found`, or is not
        known.

        Args:
            field: how the source calls the task.
        """
        before = len(found)
        found += self.producer(task, at(place, field))
        if len(found) > before or task is None:
            return None
        component = self.components.of(self.dag.tasks[task])
        if component is None:
            return None  # said of the task itself
        outputs = component.outputs(flow)
        word = "outputParameterKey" if flow == "parameters" else "outputArtifactKey"
        if key is None or key not in outputs:
            kind = "parameter" if flow == "parameters" else "artifact"
            reason = f"task {quoted(task)} gives no {kind} {quoted(str(key))}. {did_you_mean(str(key), outputs)}"
            found.append(Problem(at(place, word), reason))
            return None
        return taken(outputs[key], flow)

    def _input(self, name: str, flow: Flow, place: str, found: list[Problem]) -> Given | None:
        inputs = self.dag.inputs(flow)
        if name not in inputs:
            owner = f"component {quoted(self.dag.name)}" if self.dag.name else "the pipeline"
            found.append(Problem(place, f"{owner} takes no {quoted(name)}. {did_you_mean(name, inputs)}"))
            return None
        given = taken(inputs[name], flow)
        if name in self.items and given.type == "STRING":
            return Given(None)
        return given


def constant_problems(source: Json, type: str | None, place: str) -> Iterator[Problem]:
    """Check that the constant of a parameter fits its type."""
    value: Json = source["runtimeValue"]
    if "constant" in value:
        if not fits(value["constant"], type):
            yield Problem(at(place, "runtimeValue.constant"), f"is no {type}.")
    elif not value:
        yield Problem(at(place, "runtimeValue"), "has no value. Give `constant`.")
