"""Compile a Pipeline to the IR YAML of Kubeflow Pipelines v2.

Pure, offline and deterministic to the byte. kfp is not imported: its compiler's forms are what tests compare with.

    spec -> a DAG for the pipeline, each branch and each loop -> a component and an executor a step -> text and assets
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from drivetrain.base.call_site import blamed_on_place
from drivetrain.spec.pipeline import Parameter, Pipeline
from drivetrain.spec.resources import Cluster, Resources
from drivetrain.spec.steps import (
    ConditionStep,
    FailStep,
    FolderPath,
    ForEachStep,
    JobStep,
    RegisterStep,
    Step,
    TrainingStep,
    flatten,
    is_our_training,
)
from drivetrain.spec.values import ExecutionRef, ItemRef, Reference
from drivetrain.steps.contract import METRICS_OUTPUT
from drivetrain.targets.assets.assets import Asset, Code
from drivetrain.targets.assets.programs import check_program
from drivetrain.targets.assets.travelling import source_files
from drivetrain.targets.kubeflow.compile import checks
from drivetrain.targets.kubeflow.compile.machines import executor_resources, platform_of, resources_of
from drivetrain.targets.kubeflow.compile.mounts import CHECKPOINTS, mounts_of
from drivetrain.targets.kubeflow.compile.notices import (
    NOTICE,
    STEPS,
    notice_component,
    notice_executor,
    notice_platform,
    notice_task,
)
from drivetrain.targets.kubeflow.compile.references import References
from drivetrain.targets.kubeflow.compile.scopes import Channel, Scope
from drivetrain.targets.kubeflow.compile.tasks import ITEM_INPUT, Task, arguments_of
from drivetrain.targets.kubeflow.compile.train_job import num_nodes, train_job_of
from drivetrain.targets.kubeflow.compile.words import Word, cel, negated, parameter_type, word
from drivetrain.targets.kubeflow.settings import Settings, settings_of
from drivetrain.targets.step_contract import checkpoint_folder, environment_of
from drivetrain.targets.target import refuse

SCHEMA, SDK = "2.1.0", "kfp-2.17.0"
REGISTER = "drivetrain.components.register_model:register_model"

Json = dict[str, Any]


@dataclass(frozen=True)
class Compiled:
    """The IR of a pipeline, and the objects that it expects below the settings' root."""

    pipeline: Pipeline
    ir: Mapping[str, Any]
    platform: Mapping[str, Any]
    """The Kubernetes platform's part; empty where nothing is asked of it."""
    assets: tuple[Asset, ...]
    code: Code
    """The code archive, which is among them."""
    notes: tuple[str, ...] = ()

    @cached_property
    def text(self) -> str:
        """The YAML that the API takes: one document, and a second one for the platform's part."""
        from drivetrain.targets.kubeflow.compile.yaml_text import yaml_text

        parts = [self.ir, *([self.platform] if self.platform else [])]
        return "---\n".join(yaml_text(part) for part in parts)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text: two compiles of one thing have one digest."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def compile_pipeline(
    pipeline: Pipeline, source: Path | None = None, base: Path | None = None, *, wheels_optional: bool = False
) -> Compiled:
    """Turn the spec into IR; see drivetrain.targets.target.Target.compile.

    Raises:
        SpecError: what Kubeflow cannot express, by step and field.
        UserError: data that is not there.
    """
    base = base or Path.cwd()
    refuse(checks.check(pipeline), checks.TITLE)
    notes = tuple(checks.notes(pipeline))
    if any(map(is_our_training, flatten(pipeline.steps))):
        from drivetrain.recommend.settle import settle  # of the others no estimate is asked

        settled = settle(pipeline, source or base)
        pipeline, notes = settled.pipeline, (*settled.notes, *notes)
    return _Compiler(pipeline, source, base).compile(notes)


class _Compiler(References):
    """One compilation. Steps are placed in their DAGs first, so that any step may refer to any other."""

    def __init__(self, pipeline: Pipeline, source: Path | None, base: Path) -> None:
        self.settings: Settings = settings_of(pipeline.deployment)
        self.root = f"{self.settings.root}/{pipeline.name}"
        super().__init__(pipeline, self.root, source, base, guarded=self.settings.notices is not None)
        self.source = source
        self.components: Json = {}
        self.executors: Json = {}
        self.platform: Json = {}

    @cached_property
    def travelling(self) -> frozenset[str]:
        """The user's files that travel, by their paths in the source folder."""
        if self.source is None:
            return frozenset()
        return frozenset(file.relative_to(self.source).as_posix() for file in source_files(self.source))

    def compile(self, notes: Sequence[str]) -> Compiled:
        if self.scope is not self.outermost:
            self.outermost.add(STEPS, {"componentRef": {"name": f"comp-{STEPS}"}, "taskInfo": {"name": STEPS}})
        self.place(self.pipeline.steps, self.scope)
        self.fill(self.pipeline.steps)
        for task in self.tasks.values():
            self.finish(task)
        if self.settings.notices is not None:
            self.fill_notices(self.settings.notices)
        for scope in self.inner:
            self.components[scope.name] = scope.component()
        root = self.outermost.component()
        if self.pipeline.parameters:
            root["inputDefinitions"] = {"parameters": {p.name: _parameter(p) for p in self.pipeline.parameters}}
        info: Json = {"name": checks.task_name(self.pipeline.name)}
        if self.pipeline.description:
            info["description"] = self.pipeline.description
        if self.pipeline.display_name:
            info["displayName"] = self.pipeline.display_name
        ir: Json = {
            "components": dict(sorted({**self.components, **self.imports.components}.items())),
            "deploymentSpec": {"executors": dict(sorted({**self.executors, **self.imports.executors}.items()))},
            "pipelineInfo": info,
            "root": root,
            "schemaVersion": SCHEMA,
            "sdkVersion": SDK,
        }
        platform: Json = {}
        if self.platform:
            executors = dict(sorted(self.platform.items()))
            platform = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}
        assets = tuple(self.imports.assets[uri] for uri in sorted(self.imports.assets))
        return Compiled(self.pipeline, ir, platform, assets, self.imports.code, tuple(notes))

    def fill_notices(self, secret: str) -> None:
        """All steps in one task, and one that says how it ended."""
        self.outermost.add(NOTICE, notice_task())
        self.components[f"comp-{NOTICE}"] = notice_component()
        executor = f"exec-{NOTICE}"
        self.executors[executor] = notice_executor(self.pipeline.name, self.settings.image)
        platform = platform_of(None, self.settings, checkpoints=False)
        self.platform[executor] = {**platform, **notice_platform(secret)}

    def place(self, steps: Sequence[Step], scope: Scope) -> None:
        """Give each step its task, and each branch and body its DAG."""
        for step in steps:
            name = checks.task_name(step.name)
            self.placed[step.name] = (scope, name)
            scope.add(
                name, {"componentRef": {"name": f"comp-{name}"}, "taskInfo": {"name": step.display_name or step.name}}
            )
            if isinstance(step, ConditionStep):
                both = self.inside(scope, name)
                for branch, nested in _branches(step):
                    task = f"{name}-{branch}"
                    both.add(task, {"componentRef": {"name": f"comp-{task}"}, "taskInfo": {"name": task}})
                    self.place(nested, self.inside(both, task))
            elif isinstance(step, ForEachStep):
                self.place(step.body, self.inside(scope, name))

    def fill(self, steps: Sequence[Step]) -> None:
        """Say of each step what it runs, takes and gives."""
        for step in steps:
            self.fill_step(step)

    @blamed_on_place
    def fill_step(self, step: Step) -> None:
        """One step."""
        scope, name = self.placed[step.name]
        for dependency in step.depends_on:
            self.depend(step.name, dependency.step)
            if dependency.trigger == "Any":
                scope.tasks[name]["triggerPolicy"] = {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}
        match step:
            case JobStep():
                self.fill_job(step)
            case RegisterStep():
                self.fill_register(step)
            case FailStep():
                task = self.task(step)
                task.document["fail"] = self.word(step.message, task)
            case ConditionStep():
                self.fill_condition(step)
            case ForEachStep():
                self.fill_loop(step)
            case _:
                raise AssertionError(f"check() lets no {step.kind} pass")

    def fill_job(self, step: JobStep) -> None:
        """A step that runs a program."""
        check_program(step, self.source, self.travelling)
        task = self.task(step)
        task.artifacts = step.output_names()
        for input_name, value in step.inputs.items():
            task.take(input_name, self.artifact(value, step.name, input_name))
        words = {name: self.word(value, task) for name, value in step.parameters.items()}
        script = [self.word(each, task) for each in step.arguments if not isinstance(each, FolderPath)]
        checkpoints = self.checkpoints(step, words)
        environment = {name: self.word(value, task) for name, value in step.environment.items()}
        task.document |= {
            "program": step.program.target if step.program.kind == "component" else f"script:{step.program.target}",
            "arguments": arguments_of(step, words, script, checkpoints),
            "environment": environment_of(step, environment, self.settings.registry),
            "outputs": list(task.artifacts),
        }
        if isinstance(step, TrainingStep) and step.logs:
            task.document["logs"] = dict(step.logs)
        if isinstance(step, TrainingStep) and num_nodes(step):
            task.document["train_job"] = train_job_of(
                step,
                self.settings,
                image=step.image or self.settings.image,
                code=self.imports.code,
                environment=self.environment,
            )
        task.cached = (step.cache or self.pipeline.cache).enabled

    def fill_register(self, step: RegisterStep) -> None:
        """A new version of a model: a task that runs the component, since no step of the platform does it."""
        task = self.task(step)
        task.artifacts = (METRICS_OUTPUT,)
        task.document |= {"program": REGISTER, "outputs": [METRICS_OUTPUT]}
        words: list[Word] = [{"option": [f"--{METRICS_OUTPUT}", {"output": METRICS_OUTPUT}]}]
        folders = {
            "model": step.model,
            "evaluation": step.metrics,
            "report": step.evaluation,
            "decision": step.decision,
        }
        for name, value in folders.items():
            if value is not None:
                task.take(name, self.artifact(value, step.name, name))
                words.append({"option": [f"--{name}", {"input": name}]})
        given: dict[str, Word] = {
            "group": self.word(step.group, task),
            "approval": self.word(step.approval, task),
            "artifact": {"uri": "model"},
            "execution": self.word(ExecutionRef(field="PipelineExecutionId"), task),
        }
        if step.image:
            given["image"] = step.image
        words += [{"option": [f"--{name}", value]} for name, value in given.items()]
        task.document["arguments"] = words
        if self.settings.registry:
            task.document["environment"] = {"DRIVETRAIN_REGISTRY": self.settings.registry}

    def fill_condition(self, step: ConditionStep) -> None:
        """Two DAGs in one: each is triggered by the condition or its opposite."""
        for branch, nested in _branches(step):
            inner = self.placed[nested[0].name][0]
            assert inner.parent is not None
            # What is compared is an input of the branch, as kfp's compiler has it, whether a step of it asks or not.
            expression = cel(step.condition, lambda reference, inner=inner: inner.bring_in(self.channel(reference)))
            condition = expression if branch == "then" else negated(expression)
            inner.parent.tasks[inner.task]["triggerPolicy"] = {"condition": condition}
            self.fill(nested)

    def fill_loop(self, step: ForEachStep) -> None:
        """The body once an item; items are texts, as the body's steps take them."""
        scope, name = self.placed[step.name]
        body = self.placed[step.body[0].name][0]
        assert isinstance(step.items, tuple)
        from drivetrain.base.json_text import compact

        items = [str(word(item, self.no_reference)) for item in step.items]
        scope.tasks[name]["parameterIterator"] = {"itemInput": ITEM_INPUT, "items": {"raw": compact(list(items))}}
        scope.tasks[name]["iteratorPolicy"] = {"parallelismLimit": step.max_concurrency}
        body.inputs[ITEM_INPUT] = Channel("parameters", ITEM_INPUT, body, type="STRING")
        self.fill(step.body)

    @staticmethod
    def no_reference(reference: Reference) -> Word:
        raise AssertionError(f"check() lets no {reference.described()} pass")

    def finish(self, task: Task) -> None:
        """Enter a task's component and executor, once all is known that other steps ask of it."""
        executor = f"exec-{task.name}"
        task.scope.tasks[task.name]["cachingOptions"] = {"enableCache": True} if task.cached else {}
        self.components[f"comp-{task.name}"] = task.component(executor)
        step = task.step if isinstance(task.step, JobStep) else None
        image = (step.image if step is not None else None) or self.settings.image
        if step is not None and num_nodes(step):
            step = None  # the pod of the task itself only follows the TrainJob
        resources = executor_resources(Resources() if step is None else resources_of(step))
        self.executors[executor] = task.executor(
            image, self.imports.code, self.environment, resources, self.imports.places(task.inputs.values())
        )
        checkpoint = None if step is None else checks.checkpoints_of(step)
        platform = platform_of(step, self.settings, checkpoints=checkpoint is not None and checkpoint.uri is None)
        for field, mounted in mounts_of(self.settings, "" if task.step is None else task.step.name).items():
            platform[field] = [*platform.get(field, []), *mounted]
        if step is not None and step.cluster.max_run_seconds != Cluster().max_run_seconds:
            platform["activeDeadlineSeconds"] = step.cluster.max_run_seconds
        if platform:
            self.platform[executor] = platform

    @property
    def environment(self) -> dict[str, str]:
        """Variables of every container."""
        endpoint = self.settings.s3_endpoint
        return {} if endpoint is None else {"AWS_ENDPOINT_URL_S3": endpoint}

    def depend(self, step: str, on: str) -> None:
        """Let a step run after another, through the DAGs that hold them."""
        mine, theirs = self.chain(step), self.chain(on)
        for scope, task in mine:
            for other, needed in theirs:
                if scope is other and task != needed:
                    scope.depend(task, needed)
                    return

    def chain(self, step: str) -> list[tuple[Scope, str]]:
        """The task of a step, and the tasks of the DAGs around it, from the inside out."""
        scope, task = self.placed[step]
        found = [(scope, task)]
        while scope.parent is not None:
            found.append((scope.parent, scope.task))
            scope = scope.parent
        return found

    def checkpoints(self, step: JobStep, words: Mapping[str, Word]) -> Word | None:
        """Where a training's checkpoints are kept: a folder of the claim, or a URI below the root; of a step of a loop
        in a folder of the item's own."""
        checkpoint = checks.checkpoints_of(step)
        if checkpoint is None or not isinstance(step, TrainingStep):
            return None
        if checkpoint.uri is not None:
            return {"place": str(checkpoint.uri)}
        folder = checkpoint_folder(step, words)
        claim = self.settings.checkpoint_claim is not None
        place = f"{CHECKPOINTS}/{self.pipeline.name}/{folder}" if claim else f"{self.root}/checkpoints/{folder}"
        loop = self.graph.loops.get(step.name)
        if loop is None:
            return {"place": place}
        return {"place": {"join": ["/", [place, self.word(ItemRef(path=loop.key), self.task(step))]]}}


def _branches(step: ConditionStep) -> list[tuple[str, tuple[Step, ...]]]:
    return [(name, steps) for name, steps in (("then", step.then), ("otherwise", step.otherwise)) if steps]


def _parameter(parameter: Parameter) -> Json:
    built: Json = {"parameterType": parameter_type(parameter.ref())}
    if parameter.default is not None:
        built |= {"defaultValue": parameter.default, "isOptional": True}
    return built
