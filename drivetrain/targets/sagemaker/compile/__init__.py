"""From a pipeline to the definition that SageMaker Pipelines deploys. Here are values of the spec as it spells them:
literals, `Get`, `Std:Join`, `Std:JsonGet`.
"""

from __future__ import annotations

import re
from typing import Any

from drivetrain.spec.pipeline import Graph
from drivetrain.spec.steps import TrainingStep, TuningStep
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
    OutputRef,
    ParameterRef,
    PropertyRef,
    Value,
    value_type,
)
from drivetrain.steps.contract import METRICS_OUTPUT

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def get(path: str) -> dict[str, str]:
    return {"Get": path}


def join(on: str, *values: Any) -> dict[str, Any]:
    """Std:Join of already spelled values."""
    return {"Std:Join": {"On": on, "Values": list(values)}}


def spell(value: Value, graph: Graph) -> Any:
    """The JSON of a value; literals stay as they are."""
    match value:
        case ParameterRef(name=name):
            return get(f"Parameters.{name}")
        case ExecutionRef(field=field):
            return get(f"Execution.{field}")
        case OutputRef(step=step, output=output):
            return _output(step, output, graph)
        case MetricRef(step=step, name=name):
            path = name if _PLAIN_KEY.fullmatch(name) else f"['{name}']"
            return {"Std:JsonGet": {"PropertyFile": get(f"Steps.{step}.PropertyFiles.{METRICS_OUTPUT}"), "Path": path}}
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


def described_path(value: OutputRef | LoggedRef | BestRef | PropertyRef | LambdaOutputRef, graph: Graph) -> str:
    """Where the service's description of a step has a value."""
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
