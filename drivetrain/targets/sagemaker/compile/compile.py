"""Compile a Pipeline to the definition that SageMaker Pipelines deploys and the local runner executes.

Pure, offline and deterministic to the byte: the same spec and source give the same text, which is what makes step
caching, plans and reviews work. Nothing of AWS is imported.

    spec -> arguments of each step -> checked against the service's shapes -> text, and the assets it names
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from drivetrain.assets import check_program
from drivetrain.assets.assets import Asset, Code, code_channel, data_asset
from drivetrain.assets.image import Image, framework_of, missing, runs_on_spark, says_framework
from drivetrain.assets.step_code import StepCode
from drivetrain.base.call_site import blamed_on_place
from drivetrain.base.errors import SpecError, UserError
from drivetrain.base.json_text import text_of
from drivetrain.base.records import dataclass
from drivetrain.spec import steps
from drivetrain.spec.pipeline import Graph, Parameter, Pipeline
from drivetrain.spec.resources import is_file_system
from drivetrain.spec.steps import (
    ConditionStep,
    FailStep,
    ForEachStep,
    JobStep,
    LambdaStep,
    NativeStep,
    ProcessingStep,
    RegisterStep,
    Step,
    TrainingStep,
    TuningStep,
    flatten,
    is_our_training,
)
from drivetrain.spec.values import Value
from drivetrain.steps import FRESH_PARAMETER
from drivetrain.targets.sagemaker.compile import TITLE, Generated, described_path, spell, spell_json, text, unsupported
from drivetrain.targets.sagemaker.compile.job_options import (
    cache_fields,
    mlflow_fields,
    native_with_fresh,
)
from drivetrain.targets.sagemaker.compile.jobs import Site, processing_arguments, property_files, training_arguments
from drivetrain.targets.sagemaker.document.service.shapes import check_arguments
from drivetrain.targets.sagemaker.images import STOCK, has_gpu, machine_problem, stock_image
from drivetrain.targets.sagemaker.settings import settings_of
from drivetrain.targets.target import refuse, with_fresh

if TYPE_CHECKING:
    from drivetrain.assets.wheels import Wheel

VERSION = "2020-12-01"

Json = dict[str, Any]
TYPES = {
    "processing": "Processing",
    "training": "Training",
    "tuning": "Tuning",
    "register": "RegisterModel",
    "condition": "Condition",
    "fail": "Fail",
    "lambda": "Lambda",
    "for-each": "ForEach",
}


@dataclass(frozen=True)
class Compiled:
    """A definition and the objects that it expects in the bucket."""

    pipeline: Pipeline
    definition: Mapping[str, Any]
    assets: tuple[Asset, ...]
    notes: tuple[str, ...] = ()
    """Notes on what does not hinder a run on this machine, but will hinder a deployment."""

    @cached_property
    def text(self) -> str:
        """The definition as people read it and golden files hold it."""
        return text_of(dict(self.definition), indent=2)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text: two compiles of one thing have one digest."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def compile_pipeline(
    pipeline: Pipeline, source: Path | None = None, base: Path | None = None, *, here: bool = False
) -> Compiled:
    """Turn the spec into a definition.

    Args:
        pipeline: the spec; building it has checked it.
        source: folder of the user's pipeline file, whose Python files travel into the containers.
        base: folder that relative data paths start from; the current one unless given.
        here: for a run on this machine, which has no image but the packages: a wheel that is not to be had is left
            out, and the notes say so.

    Raises:
        SpecError: for what it cannot express or the service would refuse, naming the step and field.
        UserError: for data that is not there.
    """
    if pipeline.triggers:
        from drivetrain.triggers.looking import with_looks  # most have none

        pipeline = with_looks(pipeline)
    refuse(unsupported(pipeline), TITLE)
    pipeline = with_fresh(pipeline, native_with_fresh)
    base = base or Path.cwd()
    notes: tuple[str, ...] = ()
    if any(map(is_our_training, flatten(pipeline.steps))):
        from drivetrain.recommend.settle import settle  # of the others no estimate is asked

        settled = settle(pipeline, source or base)
        pipeline, notes = settled.pipeline, settled.notes
    return _Compiler(pipeline, source, base, here, notes).compile()


class _Compiler:
    """One compilation: remembers what was already hashed, so that each file is read once."""

    def __init__(
        self, pipeline: Pipeline, source: Path | None, base: Path, here: bool, notes: tuple[str, ...] = ()
    ) -> None:
        self.pipeline = pipeline
        self.graph = Graph(pipeline)
        self.place = settings_of(pipeline.deployment)
        self.root = f"{self.place.root}/{pipeline.name}"
        self.source = source
        self.base = base
        self.here = here
        self.assets: dict[str, Asset] = {}
        self.notes: list[str] = list(notes)
        self.step_code = StepCode(source, self.graph)
        self._wheels: dict[tuple[str, ...], tuple[Wheel, ...]] = {}
        self._code: dict[tuple[tuple[str, ...], int], Code] = {}
        self._data: dict[str, str] = {}
        self._parameter_types = {parameter.name: parameter.type for parameter in pipeline.parameters}
        self._step_types = {step.name: type_name(step) for step in self.graph.steps}

    def compile(self) -> Compiled:
        built: Json = {
            "Version": VERSION,
            "Metadata": dict(self.pipeline.metadata),
            "Parameters": [_parameter(parameter) for parameter in self.pipeline.parameters],
            **self.experiment(),
            **self.mlflow(),
            **spell_json(self.pipeline.other, self.graph),
            "Steps": [self.step(step) for step in self.pipeline.steps],
        }
        definition = {name: value for name, value in built.items() if value is not None}
        assets = tuple(self.assets[uri] for uri in sorted(self.assets))
        if any(isinstance(step, TrainingStep) and step.options.debugger for step in self.graph.steps):
            from drivetrain.targets.sagemaker.compile.debugger import debugger_notes

            self.notes += debugger_notes(self.graph.steps)
        if not self.here:
            self.notes += self.step_code.notes()
        return Compiled(self.pipeline, definition, assets, tuple(self.notes))

    def experiment(self) -> Json:
        """The pipeline's own; else the deployment's."""
        given = self.pipeline.experiment
        if given is None:
            return {}
        name = (
            Generated(self.place.experiment) if self.place.experiment else {"Get": Generated("Execution.PipelineName")}
        )
        ours = {"ExperimentName": name, "TrialName": {"Get": "Execution.PipelineExecutionId"}}
        return {"PipelineExperimentConfig": spell_json(given, self.graph) or ours}

    def mlflow(self) -> Json:
        """The tracking server of all jobs."""
        mlflow = self.place.mlflow
        if not mlflow.arn:
            return {}

        return {"MlflowConfig": {name: Generated(value) for name, value in mlflow_fields(mlflow).items()}}

    @blamed_on_place
    def step(self, step: Step) -> Json:
        """One step's JSON; fields stand in the order in which the service's own documents show them."""
        built: Json = {"Name": step.name, "Type": type_name(step)}
        if step.display_name is not None:
            built["DisplayName"] = step.display_name
        if step.description is not None:
            built["Description"] = step.description
        if step.depends_on:
            built["DependsOn"] = [
                item.step if item.trigger is None else {"Step": item.step, "Trigger": item.trigger}
                for item in step.depends_on
            ]
        match step:
            case ProcessingStep():
                built |= {"Arguments": processing_arguments(step, self.site(step))}
                if files := property_files(step, self.graph):
                    built["PropertyFiles"] = files
            case TuningStep():
                from drivetrain.targets.sagemaker.compile.tuning import tuning_arguments

                built |= {"Arguments": tuning_arguments(step, self.site(step))}
            case TrainingStep():
                built |= {"Arguments": training_arguments(step, self.site(step))}
            case RegisterStep():
                built |= {"Arguments": self.register_arguments(step)}
            case ConditionStep():
                from drivetrain.targets.sagemaker.compile.conditions import spell_conditions

                built |= {
                    "Arguments": {
                        "Conditions": spell_conditions(step.condition, self.graph),
                        "IfSteps": [self.step(nested) for nested in step.then],
                        "ElseSteps": [self.step(nested) for nested in step.otherwise],
                    },
                }
            case FailStep():
                built |= {"Arguments": {"ErrorMessage": text(step.message, self.graph)}}
            case LambdaStep():
                built |= {
                    "Arguments": {name: spell(value, self.graph) for name, value in step.payload.items()},
                    "FunctionArn": spell(step.function, self.graph),
                    "OutputParameters": [
                        {"OutputName": name, "OutputType": kind} for name, kind in step.outputs.items()
                    ],
                }
            case ForEachStep():
                built |= {"Arguments": self.for_each_arguments(step)}
            case NativeStep(type=steps.KUBEFLOW_TASK):
                reason = "is a task of Kubeflow Pipelines' own. Give --target kubeflow, or take it out."
                raise SpecError(f"Step {step.name!r} {reason}")
            case NativeStep():
                built |= spell_json(step.fields, self.graph)
            case _:
                assert_never(step)
        if isinstance(step, JobStep):
            built |= cache_fields(step.cache or self.pipeline.cache)
        if isinstance(step, JobStep | RegisterStep) and step.retry:
            from drivetrain.native.retries import retry_fields  # most have none

            built["RetryPolicies"] = [retry_fields(policy) for policy in step.retry]
        self.check(built)
        return built

    def for_each_arguments(self, step: ForEachStep) -> Json:
        """The items, how many steps at a time, which iteration is picked, and the steps."""
        items = step.items
        arguments: Json = {
            "IterableItems": [spell(item, self.graph) for item in items]
            if isinstance(items, tuple)
            else spell(items, self.graph),
            "MaxConcurrency": step.max_concurrency,
        }
        if step.selector is not None:
            path = described_path(step.selector.value, self.graph)
            field = {"Get": f"IterationOutput.{step.selector.step}.{path}"}
            arguments["Selector"] = {"Pick": step.selector.pick, "Field": field}
        return {**arguments, "ForEachBody": [self.step(nested) for nested in step.body]}

    def check(self, built: Json) -> None:
        """Refuse what the service would refuse, by the shapes of its own model."""
        arguments: Json = built.get("Arguments") or {}
        checked = check_arguments(built["Type"], arguments, self._parameter_types, self._step_types)
        problems = [str(problem) for problem in checked]
        if any(parameter.name != FRESH_PARAMETER for parameter in self.pipeline.parameters):
            from drivetrain.targets.sagemaker.document.lengths import longest_values, too_long

            problems += too_long(built["Type"], arguments, longest_values(self.pipeline))
        if problems:
            more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
            raise SpecError(f"Step {built['Name']!r}: {problems[0]}{more}")

    def site(self, step: JobStep) -> Site:
        """The job's image and code, found once for all steps alike."""
        own = step.image or self.place.image
        check_program(step, self.source, self.step_code.travelling, own_image=own is not None, graph=self.graph)
        # The user's own image holds what the user put there; of a stock image it is documented.
        stock, lacking, on_spark = None, (), runs_on_spark(step)
        if own is None and on_spark:
            from drivetrain.targets.sagemaker.compile.spark_job import image_for

            stock, lacking = image_for(step, self.place.region, self.graph.instance_types(step))
        elif own is None:
            try:
                framework, stock = self.framework_and_image(step)
            except UserError as error:
                raise SpecError(f"Step {step.name!r}: {error}") from None
            lacking = missing(self.needs(step, framework, stock), stock)
        used = self.step_code.of(step)
        if (key := (lacking, id(used))) not in self._code:
            if lacking not in self._wheels:
                self._wheels[lacking] = self.wheels(lacking, stock)
            self._code[key] = code_channel(self.root, used, self._wheels[lacking])
            self.assets |= {asset.uri: asset for asset in self._code[key].assets}
        image = step.image or Generated(self.place.image or (stock.uri if stock else ""))
        for kind in self.graph.instance_types(step):
            if problem := machine_problem(image, kind):
                raise SpecError(f"Step {step.name!r}: {problem}")
        spark = None
        if on_spark:
            from drivetrain.targets.sagemaker.compile.spark_job import spark_job

            spark = spark_job(step, self.root, image)
            self.assets |= {asset.uri: asset for asset in (spark.assets if spark else ())}
        return Site(self.graph, image, self._code[key], self.uri, spark)

    def framework_and_image(self, step: JobStep) -> tuple[str, Image]:
        """The framework that a step runs on, and the stock image that holds it: for GPUs where its first machine has
        them, which of a parameter is the default, or the first choice."""
        framework = framework_of(step, self.graph)
        gpu = any(map(has_gpu, self.graph.instance_types(step)[:1]))
        stock = stock_image(self.place.region, gpu, STOCK.get(framework, framework))
        if isinstance(step, TrainingStep):
            from drivetrain.resolving.vendor_libraries import library_of

            if library_of(step, self.graph):
                from drivetrain.targets.sagemaker.libraries import library_image

                stock = library_image(self.place.region)
        return framework, stock

    def needs(self, step: JobStep, framework: str, stock: Image) -> tuple[str, ...]:
        """List the libraries that a step's program imports on a framework; refused if the image's version of it is too
        old."""
        if not says_framework(step):
            return step.program.needs
        from drivetrain.catalog.strategies import TORCH
        from drivetrain.resolving.frameworks import framework_problem, needs_of, recipe_needs

        if framework == TORCH and (problem := framework_problem(step, self.pipeline.parameters, stock.version)):
            raise SpecError(f"Step {step.name!r}: {problem}")
        needs = needs_of(step, self.graph, framework)
        if TORCH in needs:  # where models of torch run, what the pipeline's recipes need, too
            needs = (*needs, *recipe_needs(self.pipeline, self.source or self.base))
        return needs

    def wheels(self, lacking: tuple[str, ...], stock: Image | None) -> tuple[Wheel, ...]:
        """Find the wheels to upload because the image lacks them."""
        if not lacking or stock is None:
            return ()
        from drivetrain.assets.wheels import find_wheels

        try:
            return find_wheels(lacking, stock, self.place.wheels, self.base)
        except UserError as error:
            if not self.here:
                raise
            self.notes.append(str(error))
            return ()

    def uri(self, value: Value) -> Value:
        """A path on this machine becomes the URI of its content; everything else is one already."""
        if not isinstance(value, str) or value.startswith("s3://") or is_file_system(value):
            return value
        if value not in self._data:
            self._data[value], assets = data_asset(self.root, value, self.base)
            self.assets |= {asset.uri: asset for asset in assets}
        return Generated(self._data[value])

    def register_arguments(self, step: RegisterStep) -> Json:
        """CreateModelPackage's input."""
        from drivetrain.targets.sagemaker.compile import model_package_request

        image = model_package_request.serving_image(step, self.graph, self.place)
        if not self.here:
            self.notes += model_package_request.serving_notes(step, self.graph, self.place)
        producer = self.graph.maker(step.model)
        code = None if producer is None else self.site(producer).code.sha256
        return model_package_request.register_arguments(step, self.graph, image=image, code=code)


def type_name(step: Step) -> str:
    """The service's name for the kind of step."""
    return step.type if isinstance(step, NativeStep) else TYPES[step.kind]


def _parameter(parameter: Parameter) -> Json:
    built: Json = {"Name": parameter.name, "Type": parameter.type}
    if parameter.default is not None:
        built["DefaultValue"] = parameter.default
    if parameter.choices:
        built["EnumValues"] = list(parameter.choices)
    return built
