"""The Arguments of the steps that run programs: the input of CreateProcessingJob and CreateTrainingJob."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from drivetrain.assets.assets import Code
from drivetrain.base.records import dataclass
from drivetrain.catalog.quotas import MAX_ARGUMENT_CHARACTERS
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import KEEP_EVIDENCE, FolderPath, Spot
from drivetrain.spec.steps import JobStep, ProcessingStep, TrainingStep
from drivetrain.spec.values import ItemRef, Value
from drivetrain.steps import (
    CODE_CHANNEL,
    FRESH_PARAMETER,
    FRESH_VARIABLE,
    START_COMMAND,
    spread,
)
from drivetrain.targets.sagemaker.compile import Constant, Generated, get, join, property_file, spell, text
from drivetrain.targets.sagemaker.compile.job_options import (
    EFA_VARIABLES,
    channel,
    input_uri,
    machines,
    network_fields,
    training_options,
)
from drivetrain.targets.sagemaker.settings import settings_of
from drivetrain.targets.target import (
    EVIDENCE_VARIABLE,
    REGISTRY_VARIABLE,
    checkpoint_folder,
    environment_of,
    files_read,
    flag,
)

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.compile.spark_job import SparkJob

Json = dict[str, Any]

PROCESSING_INPUT = "/opt/ml/processing/input"
PROCESSING_OUTPUT = "/opt/ml/processing/output"
TRAINING_CODE = f"/opt/ml/input/data/{CODE_CHANNEL}"
# The place of all trainings of a step; /opt/ml/checkpoints becomes a link to the folder of the present one.
CHECKPOINTS = "/opt/ml/trainings"
REGISTRY = "sagemaker"


@dataclass(frozen=True)
class Site:
    """The facts that a job needs beyond its step: the graph, its image and code, and where data goes."""

    graph: Graph
    image: str
    code: Code
    uri: Callable[[Value], Value]
    """Turns a path on this machine into the URI that it is uploaded to; other values stay."""
    spark: SparkJob | None = None
    """Further options by which Spark starts the program, in SageMaker's image for it."""


def start(folder: str, sha256: str) -> list[str]:
    """Run the start file only if it has this hash: write access to the code's folder does not decide what runs."""
    return [*map(Constant, START_COMMAND), Generated(sha256), Constant(f"{folder}/start.py")]


def output_prefix(step: JobStep, site: Site) -> Json:
    """`<root>/<pipeline>/steps/<step>/<execution id>`: nothing of one execution is overwritten by another; of a step of
    a for_each with the iteration's name below it, for the same reason.

    The step stands first, for a policy knows no execution's id: its `*` there would reach into other steps' folders.
    """
    pipeline = site.graph.pipeline
    folder = f"{settings_of(pipeline.deployment).root}/{pipeline.name}/steps/{step.name}"
    return join("/", Generated(folder), get("Execution.PipelineExecutionId"), *iteration(step, site.graph))


def iteration(step: JobStep, graph: Graph) -> list[Any]:
    """The part of a URI that names the iteration of a step of a for_each; empty for other steps."""
    loop = graph.loops.get(step.name)
    return [] if loop is None else [spell(ItemRef(path=loop.key), graph)]


def processing_arguments(step: ProcessingStep, site: Site) -> Json:
    """CreateProcessingJob's input, without the name that the service gives."""
    graph = site.graph
    prefix = output_prefix(step, site)["Std:Join"]["Values"]
    environment = _environment(step, graph)
    folder = f"{PROCESSING_INPUT}/{CODE_CHANNEL}"
    entry_point = start(folder, site.code.start_sha256)
    if site.spark:
        from drivetrain.targets.sagemaker.compile.spark_job import submit

        entry_point = submit(folder, site.code.start_sha256)
    arguments: Json = {
        "ProcessingResources": {
            "ClusterConfig": machines(step, graph),
        },
        "AppSpecification": {
            "ImageUri": site.image,
            "ContainerEntrypoint": entry_point,
            "ContainerArguments": ["--code", Generated(site.code.sha256), *_command(step, graph)],
        },
        "RoleArn": job_role(step, graph),
        "ProcessingInputs": [
            {
                "InputName": name,
                "AppManaged": False,
                "S3Input": {
                    "S3Uri": input_uri(uri, graph),
                    "LocalPath": Constant(f"{PROCESSING_INPUT}/{name}"),
                    "S3DataType": Constant("S3Prefix"),
                    "S3InputMode": Constant("File"),
                    "S3DataDistributionType": Constant("FullyReplicated"),
                    "S3CompressionType": Constant("None"),
                },
            }
            for name, uri in [
                *((name, site.uri(value)) for name, value in step.inputs.items()),
                *(site.spark.inputs if site.spark else ()),
                (Constant(CODE_CHANNEL), Generated(site.code.uri)),
            ]
        ],
        "StoppingCondition": {"MaxRuntimeInSeconds": step.cluster.max_run_seconds},
    }
    if outputs := step.output_names():
        output: Json = {
            "Outputs": [
                {
                    "OutputName": name,
                    "AppManaged": False,
                    "S3Output": {
                        "S3Uri": join("/", *prefix, name),
                        "LocalPath": Constant(f"{PROCESSING_OUTPUT}/{name}"),
                        "S3UploadMode": Constant("EndOfJob"),
                    },
                }
                for name in outputs
            ]
        }
        if key := settings_of(graph.pipeline.deployment).keys.output:
            output["KmsKeyId"] = Generated(key)
        arguments["ProcessingOutputConfig"] = output
    if network := network_fields(step, graph):
        arguments["NetworkConfig"] = network
    if environment:
        arguments["Environment"] = environment
    return arguments | _tags(step, graph)


def property_files(step: ProcessingStep, graph: Graph) -> list[Json]:
    """The files from which values are read: the step's numbers, and what it writes itself."""
    keys = ("PropertyFileName", "OutputName", "FilePath")
    return [
        dict(zip(keys, (property_file(each), *each.split("/", 1)), strict=True)) for each in files_read(step, graph)
    ]


def training_arguments(step: TrainingStep, site: Site) -> Json:
    """CreateTrainingJob's input, without the name that the service gives."""
    graph, cluster = site.graph, step.cluster
    folders = (*step.outputs, *(("checkpoints",) if step.checkpoint else ()))
    algorithm: Json = {
        "TrainingImage": site.image,
        "TrainingInputMode": Constant("File"),
        "ContainerEntrypoint": start(TRAINING_CODE, site.code.start_sha256),
        "ContainerArguments": [
            "--code",
            Generated(site.code.sha256),
            "--training",
            *(("--folders", ",".join(folders)) if folders else ()),
            step.program.target if step.program.kind == "component" else f"script:{step.program.target}",
        ],
    }
    if step.logs:
        algorithm["MetricDefinitions"] = [{"Name": name, "Regex": regex} for name, regex in step.logs.items()]
    resources = machines(step, graph)
    if cluster.warm_pool_seconds:
        resources["KeepAlivePeriodInSeconds"] = cluster.warm_pool_seconds
    stopping: Json = {"MaxRuntimeInSeconds": cluster.max_run_seconds}
    if isinstance(cluster.spot, Spot):
        stopping["MaxWaitTimeInSeconds"] = cluster.spot.max_wait_seconds
    if step.options.max_pending_seconds is not None:
        stopping["MaxPendingTimeInSeconds"] = step.options.max_pending_seconds
    output: Json = {"S3OutputPath": output_prefix(step, site)}
    if key := settings_of(graph.pipeline.deployment).keys.output:
        output["KmsKeyId"] = Generated(key)
    arguments: Json = {
        "AlgorithmSpecification": algorithm,
        "RoleArn": job_role(step, graph),
        "OutputDataConfig": output,
        "ResourceConfig": resources,
        "StoppingCondition": stopping,
        "InputDataConfig": [
            *(
                channel(name, site.uri(value), step.options.input_modes.get(name, step.options.input_mode), graph)
                for name, value in step.inputs.items()
            ),
            channel(Constant(CODE_CHANNEL), Generated(site.code.uri), Constant("File"), graph),
        ],
        "HyperParameters": {name: text(value, graph) for name, value in step.parameters.items()},
        "EnableManagedSpotTraining": cluster.spot is not None,
    }
    if step.checkpoint:
        uri = step.checkpoint.uri
        arguments["CheckpointConfig"] = {
            "S3Uri": checkpoint_prefix(step, graph) if uri is None else spell(uri, graph),
            "LocalPath": step.checkpoint.local_path or Generated(CHECKPOINTS),
        }
    prefix = output_prefix(step, site)["Std:Join"]["Values"]
    arguments |= network_fields(step, graph) | training_options(step, prefix)
    if step.options.debugger is not None:
        from drivetrain.targets.sagemaker.compile.debugger import debugger_fields

        arguments |= debugger_fields(step, prefix[0], settings_of(graph.pipeline.deployment).region)
    if environment := _environment(step, graph):
        arguments["Environment"] = environment
    return arguments | _tags(step, graph)


def checkpoint_prefix(step: TrainingStep, graph: Graph) -> Any:
    """A folder named by step and configuration (see checkpoint_folder), with the final slash that keeps siblings
    apart."""
    pipeline = graph.pipeline
    folder = checkpoint_folder(step, {name: text(value, graph) for name, value in step.parameters.items()})
    prefix = f"{settings_of(pipeline.deployment).root}/{pipeline.name}/checkpoints/{folder}/"
    own = iteration(step, graph)
    return join("/", Generated(prefix.rstrip("/")), *own, "") if own else Generated(prefix)


def _command(step: ProcessingStep, graph: Graph) -> list[Any]:
    """The program's own command line, after the start file's `--code HASH`."""
    if step.program.kind == "script":
        words: list[Any] = [f"script:{step.program.target}"]
        for argument in step.arguments:
            if isinstance(argument, FolderPath):
                words.append(Constant(f"/opt/ml/processing/{argument.flow}/{argument.name}"))
            else:
                words.append(text(argument, graph))
        return words
    words = [step.program.target]
    for flow, names in (("input", step.inputs), ("output", step.output_names())):
        for name in names:
            words += [flag(name), Constant(f"/opt/ml/processing/{flow}/{name}")]
    for name, value in step.parameters.items():
        spelled = text(value, graph)
        is_text = isinstance(spelled, str)
        words += spread(flag(name), spelled, MAX_ARGUMENT_CHARACTERS) if is_text else [flag(name), spelled]
    return words


def _environment(step: JobStep, graph: Graph) -> Json:
    given = {name: text(value, graph) for name, value in step.environment.items()}
    environment = environment_of(step, given, REGISTRY)
    if FRESH_VARIABLE in environment:
        environment[FRESH_VARIABLE] = get(Generated(f"Parameters.{FRESH_PARAMETER}"))
    if step.program.target in KEEP_EVIDENCE:
        place = settings_of(graph.pipeline.deployment)
        environment.setdefault(EVIDENCE_VARIABLE, Generated(place.evidence))
    if step.cluster.efa:
        for name, value in EFA_VARIABLES.items():
            environment.setdefault(name, value)
    return environment


def job_role(step: JobStep, graph: Graph) -> str:
    """The IAM role that a job works under: its own, that of its kind, or the pipeline's."""
    place = settings_of(graph.pipeline.deployment)
    if step.name in place.roles.steps:
        return Generated(place.roles.steps[step.name])
    if isinstance(step, TrainingStep):
        return Generated(place.roles.training or place.role)
    asks_registry = REGISTRY_VARIABLE in _environment(step, graph)
    return Generated((place.roles.registry if asks_registry else place.roles.processing) or place.role)


def _tags(step: JobStep, graph: Graph) -> Json:
    given = settings_of(graph.pipeline.deployment).tags
    tags = {**{Generated(key): Generated(value) for key, value in given.items()}, **step.tags}
    return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]} if tags else {}
