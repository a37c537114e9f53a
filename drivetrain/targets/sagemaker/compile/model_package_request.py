"""The Arguments of a RegisterModel step: the input of CreateModelPackage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from drivetrain.assets.image import framework_of, says_framework
from drivetrain.base.errors import SpecError
from drivetrain.registry.model_card import TRAINED_BY_OTHERS, runs_code
from drivetrain.registry.model_package import (
    BASELINES,
    CONTENT_HASH,
    CONTENT_SAID,
    DECISION_URI,
    LINEAGE,
    MONITOR,
    SERVING_OF_TENSORFLOW,
    is_training_image,
)
from drivetrain.registry.report_hash import MODEL_QUALITY_FILE
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import DESCRIBE_MODEL, MAKE_MODELS_OF_FUNCTIONS, MODEL_LIBRARIES
from drivetrain.spec.steps import TRAIN, JobStep, RegisterStep, TrainingStep
from drivetrain.spec.values import Reference
from drivetrain.steps import METRICS_FILE
from drivetrain.targets.sagemaker.compile import Generated, get, join, spell, text
from drivetrain.targets.sagemaker.images import (
    SERVING_IMAGE,
    STOCK,
    has_gpu,
    inference_entry,
    inference_image,
    machine_problem,
)
from drivetrain.targets.sagemaker.settings import Settings

if TYPE_CHECKING:
    from drivetrain.assets.requirements import Requirement

Json = dict[str, Any]

# evaluate's report holds it; drivetrain/decision writes the other.
DECISION_FILE = "decision.json"
JSON_TYPE = "application/json"
# As SageMaker's images call them, and as they are imported.
SKLEARN, XGBOOST = "sklearn", "xgboost"
_MODULES = {"scikit-learn": SKLEARN, "xgboost-cpu": XGBOOST}
# The steps that ask a model read tables with these; what serves it does not.
_OF_TABLES = ("numpy", "pyarrow")
# Of a model that says nothing of the machines that serve it.
SERVING_TYPES = ("ml.m5.large",)
# What drivetrain/training/serving reads and answers.
CONTENT_TYPES = (JSON_TYPE, "application/jsonlines", "text/csv", "application/x-npy")
RESPONSE_TYPES = CONTENT_TYPES
# Of a model card's hyperparameters.
_MOST_PARAMETERS, _MOST_CHARACTERS = 100, 255
# Where the toolkit of the inference images finds the code that a model of ours brings along: the model's archive is
# unpacked to /opt/ml/model (https://github.com/aws/sagemaker-pytorch-inference-toolkit#user-module).
SERVING = {
    "SAGEMAKER_PROGRAM": "inference.py",
    "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
    "SAGEMAKER_CONTAINER_LOG_LEVEL": "20",
}


def register_arguments(step: RegisterStep, graph: Graph, *, image: str, code: str | None) -> Json:
    """CreateModelPackage's input.

    Args:
        image: the container that serves the model.
        code: the hash of the code that trained it, where a step of the pipeline did.
    """
    producer = graph.maker(step.model)
    container: Json = {"Image": image if step.image else Generated(image), "ModelDataUrl": spell(step.model, graph)}
    of_functions = makes_model_of_functions(producer)
    ours = of_functions or (producer is not None and producer.program.target == TRAIN)
    if of_functions or library_of(producer, graph) == SKLEARN:
        container["Environment"] = dict(SERVING)
    elif producer is not None and ours:
        of = framework_of(producer, graph)
        container["Environment"] = dict(SERVING_OF_TENSORFLOW if of == "tensorflow" else SERVING)
    arguments: Json = {
        "ModelPackageGroupName": text(step.group, graph),
        "InferenceSpecification": {
            "Containers": [container],
            "SupportedContentTypes": list(step.content_types or (CONTENT_TYPES if ours else (JSON_TYPE,))),
            "SupportedResponseMIMETypes": list(step.response_types or (RESPONSE_TYPES if ours else (JSON_TYPE,))),
            "SupportedRealtimeInferenceInstanceTypes": list(step.instance_types or SERVING_TYPES),
            "SupportedTransformInstanceTypes": list(step.instance_types or SERVING_TYPES),
        },
        "ModelApprovalStatus": text(step.approval, graph),
        # By this, a trigger on the registry's events knows what a pipeline's own execution did.
        "MetadataProperties": {"GeneratedBy": get("Execution.PipelineExecutionArn")},
    }
    if (content := step.metadata.get(CONTENT_HASH)) is not None:
        arguments["ModelPackageDescription"] = join("", CONTENT_SAID, spell(content, graph))
    quality, file = (
        (step.evaluation, MODEL_QUALITY_FILE) if step.evaluation is not None else (step.metrics, METRICS_FILE)
    )
    if quality is not None:
        uri = join("/", spell(quality, graph), file)
        arguments["ModelMetrics"] = {"ModelQuality": {"Statistics": {"ContentType": JSON_TYPE, "S3Uri": uri}}}
    if step.data_check is not None:
        report = spell(step.data_check, graph)
        baselines = {
            name: {"ContentType": JSON_TYPE, "S3Uri": join("/", report, MONITOR, file)}
            for name, file in BASELINES.items()
        }
        arguments.setdefault("ModelMetrics", {})["ModelDataQuality"] = baselines
        arguments["DriftCheckBaselines"] = {"ModelDataQuality": baselines}
    if card := _merged(_known_card(producer, graph), step.card or {}):
        content = json.dumps(card, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        arguments["ModelCard"] = {"ModelCardContent": Generated(content), "ModelCardStatus": "Draft"}
    if metadata := _metadata(step, graph, producer, code):
        arguments["CustomerMetadataProperties"] = metadata
    return arguments


def serving_image(step: RegisterStep, graph: Graph, place: Settings) -> str:
    """The container that serves the model: the step's, or the deployment's, or the stock inference image of the
    framework or library that the model was trained with.

    Raises:
        SpecError: a training image, by its name.
        UserError: there is no stock image for the region or the instance types.
    """
    producer = graph.maker(step.model)
    image = step.image or place.serving_image
    if image is None:
        gpu = any(has_gpu(kind, setting=SERVING_IMAGE) for kind in step.instance_types or SERVING_TYPES)
        image = inference_image(place.region, gpu, _served_as(producer, graph))
    for kind in step.instance_types or SERVING_TYPES:
        if problem := machine_problem(image, kind):
            raise SpecError(f"Step {step.name!r}: {problem}")
    if is_training_image(image):
        raise SpecError(
            f"Step {step.name!r} registers a model that {image!r} would serve. By its name that is a training image, "
            "which has no server: no endpoint of the version would start. Give an image that serves "
            f"({SERVING_IMAGE}, or register(image=...)), or none for the stock inference image."
        )
    return image


def serving_notes(step: RegisterStep, graph: Graph, place: Settings) -> list[str]:
    """A line about what the stock image that serves a model of functions is not documented to hold."""
    producer = graph.maker(step.model)
    if producer is None or not makes_model_of_functions(producer) or step.image or place.serving_image:
        return []
    from drivetrain.assets.requirements import parse
    from drivetrain.resolving.frameworks import declared_needs

    entry = inference_entry(_served_as(producer, graph))
    held: dict[str, str] = {_module(name): version for name, version in entry["packages"].items()}
    lacking: list[str] = []
    for need in map(parse, declared_needs(producer, graph)):
        version = held.get(_module(need.name))
        if version is None and need.name not in _OF_TABLES:
            lacking.append(need.text)
        elif version is not None and not _only_line(need, version):
            pinned = f'needs=("{need.name}=={version}.*",) in its training'
            lacking.append(f"the version of {need.name} that the model is of (it holds {version}: {pinned})")
    if "python" not in entry:
        lacking.append("Python 3.11 or newer, which the model's code/ needs")
    if not lacking:
        return []
    return [
        f"Step {step.name!r}: the image that serves the model, {entry['repository']} {entry['version']}, is not "
        f"documented to hold {'; '.join(lacking)}. Try it before an endpoint depends on it, or give an image of your "
        f"own: {SERVING_IMAGE}."
    ]


def makes_model_of_functions(producer: JobStep | None) -> bool:
    """Return True for describe_model and train_table."""
    return producer is not None and producer.program.target in MAKE_MODELS_OF_FUNCTIONS


def library_of(producer: JobStep | None, graph: Graph) -> str | None:
    """The library that a step's model is of, if stock images serve it: XGBoost, or scikit-learn alone. The step imports
    it, or says that it needs it, and no other one by which models are made."""
    if producer is None:
        return None
    from drivetrain.resolving.frameworks import declared_needs, frameworks_of

    if says_framework(producer) and frameworks_of(producer, graph):
        return None
    found, needs = set(producer.program.libraries), declared_needs(producer, graph)
    if needs:
        from drivetrain.assets.requirements import parse

        names = (parse(need).name for need in needs)
        found |= {module for name in names if (module := _module(name)) in MODEL_LIBRARIES}
    if found == {SKLEARN}:
        return SKLEARN
    return XGBOOST if XGBOOST in found and found <= {SKLEARN, XGBOOST} else None


def _served_as(producer: JobStep | None, graph: Graph) -> str:
    """The name under which images.json has the image that serves a step's model."""
    if library := library_of(producer, graph):
        return library
    if producer is None or makes_model_of_functions(producer):  # TensorFlow's server runs no functions
        return STOCK["torch"]
    framework = framework_of(producer, graph)
    return STOCK.get(framework, framework)


def _module(name: str) -> str:
    """The name by which a distribution is imported, of those by which models are made."""
    return _MODULES.get(name, name)


def _only_line(need: Requirement, version: str) -> bool:
    """Return True if a requirement allows versions of this line (`3.2`), and none of the next one."""
    major, _, minor = version.partition(".")
    in_line = any(need.allows(f"{version}.{patch}") for patch in range(10))
    return not need.any_version and in_line and not need.allows(f"{major}.{int(minor) + 1}.0")


def _known_card(producer: JobStep | None, graph: Graph) -> Json:
    """The part of a model card that the pipeline knows: the parameters of the training, as far as they stand in it; and
    that a described model runs code."""
    if producer is not None and producer.program.target == DESCRIBE_MODEL:
        module = producer.parameters.get("answers", "answer")
        said = runs_code(str(getattr(module, "name", module)))
        return {"training_details": {"training_observations": f"{TRAINED_BY_OTHERS} {said}"}}
    if not isinstance(producer, TrainingStep):
        return {}
    told = [
        {"name": name[:_MOST_CHARACTERS], "value": str(text(value, graph))[:_MOST_CHARACTERS]}
        for name, value in producer.parameters.items()
        if not isinstance(value, Reference) and value != ""
    ]
    return {
        "model_overview": {"model_creator": "drivetrain"},
        "training_details": {"training_job_details": {"user_provided_hyper_parameters": told[:_MOST_PARAMETERS]}},
    }


def _merged(known: Mapping[str, Any], given: Mapping[str, Any]) -> Json:
    """Merge what is known with what the author gives, which takes precedence: in a section, only the fields given."""
    both = {name: (known[name], given[name]) for name in known.keys() & given.keys()}
    sections = {
        name: _merged(cast("Json", ours), cast("Json", theirs))
        for name, (ours, theirs) in both.items()
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping)
    }
    return {**known, **given, **sections}


def _metadata(step: RegisterStep, graph: Graph, producer: JobStep | None, code: str | None) -> Json:
    """The metadata of how the version was made, then the author's own, which takes precedence."""
    known: Json = {}
    if code is not None:
        known[f"{LINEAGE}code"] = Generated(code)
    if producer is not None:
        known[f"{LINEAGE}config"] = Generated(_configuration(producer, graph))
    if step.decision is not None:
        known[DECISION_URI] = join("/", spell(step.decision, graph), DECISION_FILE)
    return known | {name: text(value, graph) for name, value in step.metadata.items()}


def _configuration(step: JobStep, graph: Graph) -> str:
    """A hash of what the step was told: its program and parameters, and on what it runs."""
    told = {
        "program": step.program.target,
        "parameters": {name: text(value, graph) for name, value in step.parameters.items()},
        "cluster": {"count": spell(step.cluster.count, graph), "processes": step.cluster.processes},
        "training": isinstance(step, TrainingStep),
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
