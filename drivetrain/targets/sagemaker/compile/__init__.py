"""From a pipeline to the definition that SageMaker Pipelines deploys. Here is what it cannot express, by step and
field, and values of the spec as it spells them: literals, `Get`, `Std:Join`, `Std:JsonGet`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from drivetrain.assets.image import runs_on_spark
from drivetrain.base.errors import InputError
from drivetrain.catalog.instances import find_instance
from drivetrain.rules.rules import problems_on
from drivetrain.spec.pipeline import Graph, Pipeline
from drivetrain.spec.resources import READ_SOURCE, SOURCE_VERSION
from drivetrain.spec.steps import JobStep, Step, TrainingStep, TuningStep, flatten
from drivetrain.spec.values import (
    BestRef,
    CountRef,
    ExecutionRef,
    ItemRef,
    IterationRef,
    Join,
    LambdaOutputRef,
    LoggedRef,
    MetricRef,
    Nested,
    NestedValue,
    OutputRef,
    ParameterRef,
    PropertyRef,
    Value,
    value_type,
)
from drivetrain.steps import METRICS_FILE, METRICS_OUTPUT
from drivetrain.targets.sagemaker.settings import settings_of
from drivetrain.targets.target import Problem

if TYPE_CHECKING:
    from drivetrain.resolving.vendor_libraries import Needed

_TRANSFORM = "drivetrain.components.transform_data:transform_data"
_ON_ONE_HOST = (
    _TRANSFORM,
    "drivetrain.components.prepare_data:prepare_data",
    READ_SOURCE,
    SOURCE_VERSION,
)
NAME, TITLE = "sagemaker", "SageMaker Pipelines"
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Generated(str):
    """Text that compiling puts in, not the author: a place, role, image or hash of the deployment and its code.

    It is written as any text. What was edited in Studio is told from it, and an edit follows it (studio/generated.py).
    """

    __slots__ = ()


class Constant(Generated):
    """Text that compiling puts in alike wherever a pipeline is deployed."""

    __slots__ = ()


def get(path: str) -> dict[str, str]:
    return {"Get": path}


def join(on: str, *values: Any) -> dict[str, Any]:
    """Std:Join of already spelled values."""
    return {"Std:Join": {"On": on, "Values": list(values)}}


def spell(value: NestedValue, graph: Graph) -> Any:
    """The JSON of a value; literals stay as they are."""
    match value:
        case Nested(items=items, fields=fields):
            if fields is None:
                return [spell(item, graph) for item in items or ()]
            return {name: spell(item, graph) for name, item in fields.items()}
        case ParameterRef(name=name):
            return get(f"Parameters.{name}")
        case ExecutionRef(field=field):
            return get(f"Execution.{field}")
        case OutputRef(step=step, output=output):
            return _output(step, output, graph)
        case MetricRef(step=step, name=name, file=file):
            path = name if file or _PLAIN_KEY.fullmatch(name) else f"['{name}']"
            if file and isinstance(graph.by_name[step], JobStep):
                file = property_file(file)
            place = get(f"Steps.{step}.PropertyFiles.{file or METRICS_OUTPUT}")
            return {"Std:JsonGet": {"PropertyFile": place, "Path": path}}
        case LoggedRef() | BestRef() | PropertyRef() | LambdaOutputRef():
            return get(f"Steps.{value.step}.{described_path(value, graph)}")
        case IterationRef(step=step, index=index, of=of):
            which = "Selected" if index is None else f"IterationOutputs[{index}].{of.step}"
            return get(f"Steps.{step}.{which}.{described_path(of, graph)}")
        case CountRef(step=step, which=which):
            return get(f"Steps.{step}.{which}StepCount")
        case ItemRef(path=path):
            return get(f"ForEach.CurrentItem.{path}" if path else "ForEach.CurrentItem")
        case Join(on=on, values=values):
            return join(on, *(spell(part, graph) for part in values))
        case _:
            return value


def property_file(report: str) -> str:
    """The name of a property file for OUTPUT/FILE: evaluation-scores for evaluation/scores.json."""
    if report == f"{METRICS_OUTPUT}/{METRICS_FILE}":
        return METRICS_OUTPUT
    plain = re.sub(r"[^A-Za-z0-9]+", "-", report.removesuffix(".json"))
    if re.fullmatch(r"[A-Za-z0-9]+/[A-Za-z0-9]+\.json", report):
        return plain
    return f"{plain}-{hashlib.sha256(report.encode()).hexdigest()[:8]}"


def spell_json(value: Any, graph: Graph) -> Any:
    """JSON with references inside as JSON alone."""
    if isinstance(value, dict):
        return {name: spell_json(item, graph) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [spell_json(item, graph) for item in cast("list[Any]", value)]
    return spell(value, graph)


def described_path(value: OutputRef | LoggedRef | BestRef | PropertyRef | LambdaOutputRef, graph: Graph) -> str:
    """Return the path of a value in the service's description of a step."""
    match value:
        case OutputRef(step=step, output=output):
            if isinstance(graph.by_name[step], TrainingStep):
                return "ModelArtifacts.S3ModelArtifacts"
            return f"ProcessingOutputConfig.Outputs['{output}'].S3Output.S3Uri"
        case LoggedRef(step=step, name=name):
            if isinstance(graph.by_name[step], TuningStep):
                return "BestTrainingJob.FinalHyperParameterTuningJobObjectiveMetric.Value"
            return f"FinalMetricDataList['{name}'].Value"
        case BestRef(name=name):
            return f"BestTrainingJob.TunedHyperParameters['{name}']"
        case PropertyRef(path=path):
            return path
        case LambdaOutputRef(name=name):
            return f"OutputParameters['{name}']"


def text(value: Value, graph: Graph) -> Any:
    """A value where the service wants a string: arguments, hyperparameters, environment."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        return str(value)
    spelled = spell(value, graph)
    return spelled if value_type(value) == "String" else join("", spelled)


def _output(step: str, output: str, graph: Graph) -> Any:
    made = OutputRef(step=step, output=output)
    if not isinstance(graph.by_name[step], TrainingStep):
        return get(f"Steps.{step}.{described_path(made, graph)}")
    if isinstance(graph.by_name[step], TuningStep):
        return join(
            "/",
            get(f"Steps.{step}.TrainingJobDefinition.OutputDataConfig.S3OutputPath"),
            get(f"Steps.{step}.BestTrainingJob.TrainingJobName"),
            f"output/{output}.tar.gz",
        )
    if output == "model":
        return get(f"Steps.{step}.{described_path(made, graph)}")
    # The describe response names no other artifact; this is where the service puts /opt/ml/output/data.
    return join(
        "/",
        get(f"Steps.{step}.OutputDataConfig.S3OutputPath"),
        get(f"Steps.{step}.TrainingJobName"),
        "output/output.tar.gz",
    )


def unsupported(pipeline: Pipeline) -> list[Problem]:
    """Resources of a shared machine, and for a pipeline of another target SageMaker's own rules."""
    found = [
        Problem(step.name, "cluster.resources", "a job has machines of its own. Give an instance_type.")
        for step in flatten(pipeline.steps)
        if isinstance(step, JobStep) and step.cluster.machine is None
    ]
    found += [problem for step in flatten(pipeline.steps) if (problem := _hosts_problem(step))]
    if any(isinstance(step, TrainingStep) for step in flatten(pipeline.steps)):
        from drivetrain.resolving.vendor_libraries import libraries_of

        found += [problem for needed in libraries_of(pipeline) for problem in _library_problems(needed, pipeline)]
    return found or [Problem("", "", message) for message in problems_on(pipeline, NAME)]


def _hosts_problem(step: Step) -> Problem | None:
    """Several hosts of a program that works on one: each would do all of it, and write over what the others wrote."""
    if not isinstance(step, JobStep) or step.program.target not in _ON_ONE_HOST or runs_on_spark(step):
        return None
    count = step.cluster.count
    if count == 1:
        return None
    given = count if isinstance(count, int) else f"{count.described()}, which may be more than 1"
    instead = (
        "engine=spark, or 1 and a larger machine" if step.program.target == _TRANSFORM else "1 and a larger machine"
    )
    return Problem(
        step.name,
        "cluster.count",
        f"is {given}, and its program works on one host: it needs all rows, for keys, order and splits. Each host "
        f"would do all of the work and write over the others' files. Give {instead}.",
    )


def _library_problems(needed: Needed, pipeline: Pipeline) -> Iterator[Problem]:
    """Find the images, regions, machines and degrees that SageMaker's own distributed libraries do not run with."""
    from drivetrain.targets.sagemaker.libraries import image_problem, machine_problem, region_problem

    place, name = settings_of(pipeline.deployment), needed.step.name
    library, framework = needed.library, needed.framework
    own = needed.step.image or place.image
    if problem := image_problem(library, framework, own):
        field = "image" if needed.step.image else "deployment.targets.sagemaker.image" if own else needed.field
        yield Problem(name, field, problem)
    elif own is None and (problem := region_problem(library, framework, place.region)):
        yield Problem(name, "deployment.targets.sagemaker.region", problem)
    for machine in needed.machines:
        if problem := machine_problem(library, framework, machine):
            yield Problem(name, "cluster.instance_type", problem)
        elif problem := _degree_problem(needed, machine):
            yield Problem(name, "distribution", problem)


def _degree_problem(needed: Needed, machine: str) -> str | None:
    """Degrees of a script's `distribution` that do not divide its processes, as far as those are known."""
    from drivetrain.steps.distribution import read, refuse_world

    step = needed.step
    text, count, own = step.parameters.get("distribution"), step.cluster.count, step.parameters.get("processes", 0)
    if needed.library != "smp" or not isinstance(text, str):
        return None
    if not isinstance(count, int) or not isinstance(own, int) or not (kind := find_instance(machine)):
        return None
    try:
        refuse_world(read(text).hyperparameters["mp_parameters"], count * (own or kind.default_processes))
    except InputError as error:
        return str(error).removeprefix("distribution: ")
    return None
