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

from drivetrain.assets import check_program
from drivetrain.assets.assets import Asset, Code
from drivetrain.base.call_site import blamed_on_place
from drivetrain.base.json_text import compact
from drivetrain.registry.model_package import AGAINST
from drivetrain.spec.pipeline import Pipeline
from drivetrain.spec.resources import Cluster, FolderPath, Resources
from drivetrain.spec.steps import (
    ConditionStep,
    FailStep,
    ForEachStep,
    JobStep,
    NativeStep,
    RegisterStep,
    Step,
    TrainingStep,
    flatten,
    is_our_training,
)
from drivetrain.spec.values import ExecutionRef, ItemRef, ParameterRef, Reference
from drivetrain.steps import METRICS_OUTPUT
from drivetrain.steps.kubeflow.task import REGISTER
from drivetrain.targets.kubeflow.compile import checks, deployable, fails
from drivetrain.targets.kubeflow.compile.fails import BRANCHES
from drivetrain.targets.kubeflow.compile.machines import executor_resources, platform_of, resources_of
from drivetrain.targets.kubeflow.compile.mounts import CHECKPOINTS, mounts_of, variables_of
from drivetrain.targets.kubeflow.compile.natives import Natives, add_other
from drivetrain.targets.kubeflow.compile.notes import notes as uncounted
from drivetrain.targets.kubeflow.compile.notes import size_notes
from drivetrain.targets.kubeflow.compile.notices import NOTICE, STEPS, notice, notice_platform
from drivetrain.targets.kubeflow.compile.references import References, free_name
from drivetrain.targets.kubeflow.compile.scopes import Channel, Scope
from drivetrain.targets.kubeflow.compile.tasks import ITEM_INPUT, Task, arguments_of
from drivetrain.targets.kubeflow.compile.train_job import num_nodes, train_job_of
from drivetrain.targets.kubeflow.compile.words import Word, cel, negated, parameter_definition, word
from drivetrain.targets.kubeflow.compile.yaml_text import yaml_text
from drivetrain.targets.kubeflow.settings import TITLE
from drivetrain.targets.target import checkpoint_folder, environment_of, refuse, with_fresh

SCHEMA, SDK = "2.1.0", "kfp-2.17.0"

Json = dict[str, Any]


@dataclass(frozen=True)
class Compiled:
    """The IR of a pipeline, and the objects that it expects below the settings' root."""

    pipeline: Pipeline
    ir: Mapping[str, Any]
    platform: Mapping[str, Any]
    """The Kubernetes platform's part; empty where nothing is asked of it."""
    assets: tuple[Asset, ...]
    codes: Mapping[str, Code]
    """Step -> its code archive, which is among them; "" -> that of a task which is no step."""
    notes: tuple[str, ...] = ()

    @cached_property
    def text(self) -> str:
        """The YAML that the API takes: one document, and a second one for the platform's part."""
        parts = [self.ir, *([self.platform] if self.platform else [])]
        return "---\n".join(yaml_text(part) for part in parts)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text: two compiles of one thing have one digest."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def compile_pipeline(
    pipeline: Pipeline, source: Path | None = None, base: Path | None = None, *, here: bool = False
) -> Compiled:
    """Turn the spec into IR; see drivetrain.targets.target.Target.compile.

    Args:
        here: for a run on this machine, which does without what only a cluster needs (deployable.py).

    Raises:
        SpecError: what Kubeflow cannot express, by step and field.
        UserError: data that is not there.
    """
    base = base or Path.cwd()
    if pipeline.triggers:
        from drivetrain.triggers.looking import with_looks  # most have none

        pipeline = with_looks(pipeline)
    if here:
        pipeline = deployable.for_this_machine(pipeline)
    refuse([*checks.check(pipeline), *(() if here else deployable.problems(pipeline))], TITLE)
    pipeline = with_fresh(pipeline)
    notes = (*uncounted(pipeline), *(() if here else deployable.notes(pipeline)))
    if any(map(is_our_training, flatten(pipeline.steps))):
        from drivetrain.recommend.settle import settle  # of the others no estimate is asked

        settled = settle(pipeline, source or base)
        pipeline, notes = settled.pipeline, (*settled.notes, *notes)
    compiler = _Compiler(pipeline, source, base)
    return compiler.compile(notes if here else (*notes, *compiler.step_code.notes()))


class _Compiler(References):
    """One compilation. Steps are placed in their DAGs first, so that any step may refer to any other."""

    def __init__(self, pipeline: Pipeline, source: Path | None, base: Path) -> None:
        super().__init__(pipeline, source, base)
        self.source = source
        self.components: Json = {}
        self.executors: Json = {}
        self.platform: Json = {}
        self.held = fails.held(self.graph)
        self.natives = Natives(self, self.components, self.executors, self.platform)
        self.moved = fails.moved(self.graph, [fail for fail, steps in self.held.items() if steps])
        """Condition -> the fail steps that stand beside it, and not in its branches."""

    def compile(self, notes: Sequence[str]) -> Compiled:
        if self.scope is not self.outermost:
            self.outermost.add(STEPS, {"componentRef": {"name": f"comp-{STEPS}"}, "taskInfo": {"name": STEPS}})
        self.place(self.pipeline.steps, self.scope)
        self.fill(self.pipeline.steps)
        for task in self.tasks.values():
            self.finish(task)
        for scope in (self.outermost, *self.inner):
            self.check_order(scope)
        if self.settings.notices is not None:
            self.fill_notices(self.settings.notices)
        for scope in self.inner:
            self.components[scope.name] = scope.component()
        root = self.outermost.component()
        if self.pipeline.parameters:
            given = {p.name: parameter_definition(p, self.types) for p in self.pipeline.parameters}
            root["inputDefinitions"] = {"parameters": given}
        # kfp's library takes a pipeline that is called like a component of its for that component alone.
        info: Json = {"name": free_name(checks.task_name(self.pipeline.name), self.names)}
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
        add_other(self.pipeline.other, ir, platform)
        assets = tuple(self.imports.assets[uri] for uri in sorted(self.imports.assets))
        codes = {"" if task.step is None else task.step.name: task.code for task in self.tasks.values()}
        said = (*notes, *size_notes(ir, platform))
        return Compiled(self.pipeline, ir, platform, assets, codes, said)

    def fill_notices(self, secret: str) -> None:
        """All steps in one task, and one that says how it ended."""
        task, component, container = notice(self.pipeline.name, self.settings.image)
        self.outermost.add(NOTICE, task)
        self.components[f"comp-{NOTICE}"] = component
        executor = f"exec-{NOTICE}"
        self.executors[executor] = container
        platform = platform_of(None, self.settings, checkpoints=False)
        self.platform[executor] = {**platform, **notice_platform(secret)}

    def place(self, steps: Sequence[Step], scope: Scope) -> None:
        """Give each step its task, and each branch and body its DAG."""
        for step in steps:
            name = checks.task_name(step.name)
            self.placed[step.name] = (scope, name)
            if isinstance(step, ConditionStep):
                for fail in self.moved.get(step.name, ()):
                    self.place_before(fail, scope)
                    self.placed[step.name] = (scope, checks.task_name(fail))
                if not (branches := self.branches(step)):
                    continue
                self.placed[step.name] = (scope, name)
                scope.add_task(name, step.display_name or step.name)
                both = self.inside(scope, name)
                for branch, nested in branches:
                    task = f"{name}-{branch}"
                    both.add_task(task, task)
                    self.place(nested, self.inside(both, task))
                continue
            scope.add_task(name, step.display_name or step.name)
            if isinstance(step, ForEachStep):
                self.place(step.body, self.inside(scope, name))

    def place_before(self, fail: str, scope: Scope) -> None:
        """Give a fail step a task outside of the conditions that lead to it, for which other steps can wait."""
        name = checks.task_name(fail)
        scope.add_task(name, self.graph.by_name[fail].display_name or fail)
        reached = free_name(f"{name}-reached", self.names)
        inner = self.inside(scope, name)
        inner.add_task(reached, reached)
        self.placed[fail] = (inner, reached)

    def branches(self, step: ConditionStep) -> list[tuple[str, list[Step]]]:
        """The branches of a condition with the steps that stand in them there."""
        moved = {fail for each in self.moved.values() for fail in each}
        both = [(name, [each for each in getattr(step, name) if each.name not in moved]) for name in BRANCHES]
        return [(name, nested) for name, nested in both if nested]

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
        for fail in (fail for fail, steps in self.held.items() if step.name in steps):
            self.depend(step.name, fail)
        match step:
            case JobStep():
                self.fill_job(step)
            case RegisterStep():
                self.fill_register(step)
            case FailStep():
                self.fill_fail(step)
            case ConditionStep():
                self.fill_condition(step)
            case ForEachStep():
                self.fill_loop(step)
            case NativeStep():
                self.natives.fill(step)
            case _:
                raise AssertionError(f"check() lets no {step.kind} pass")

    def fill_job(self, step: JobStep) -> None:
        """A step that runs a program."""
        check_program(step, self.source, self.step_code.travelling, own_image=step.image is not None, graph=self.graph)
        task = self.task(step)
        task.artifacts = step.output_names()
        for input_name, value in step.inputs.items():
            task.take(input_name, self.artifact(value, step.name, input_name))
            if isinstance(value, ParameterRef):  # the platform's cache compares parameters, and no URIs of artifacts
                task.take_value(self.channel(value))
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
        task.document |= self.archives(step)
        if isinstance(step, TrainingStep) and num_nodes(step, self.settings):
            task.document["train_job"] = train_job_of(
                step,
                self.settings,
                image=step.image or self.settings.image,
                code=task.code,
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
            "baselines": step.data_check,
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
        if step.evaluation is not None:
            given["quality"] = {"uri": "report"}
        if step.data_check is not None:
            given["data-check"] = {"uri": "baselines"}
        if step.image:
            given["image"] = step.image
        if AGAINST in step.metadata:
            given["against-decision"] = self.word(step.metadata[AGAINST], task)
        words += [{"option": [f"--{name}", value]} for name, value in given.items()]
        task.document["arguments"] = words
        if self.settings.registry:
            task.document["environment"] = {"DRIVETRAIN_REGISTRY": self.settings.registry}

    def fill_fail(self, step: FailStep) -> None:
        """A task that fails; one that was moved is triggered by the conditions that led to it."""
        task, conditions = self.task(step), list[str]()
        task.document["fail"] = self.word(step.message, task)

        def take(reference: Reference) -> str:
            channel = self.channel(reference)
            task.take(channel.threaded, channel)
            return channel.threaded

        for name, branch in fails.around(self.graph, step.name, self.moved):
            condition = self.graph.by_name[name]
            assert isinstance(condition, ConditionStep)
            expression = cel(condition.condition, take)
            conditions.append(f"({expression})" if branch == "then" else negated(expression))
        if conditions:
            task.scope.tasks[task.name]["triggerPolicy"] = {"condition": " && ".join(conditions)}

    def fill_condition(self, step: ConditionStep) -> None:
        """Two DAGs in one: each is triggered by the condition or its opposite."""
        for branch, nested in self.branches(step):
            inner = self.placed[nested[0].name][0]
            assert inner.parent is not None
            # What is compared is an input of the branch, as kfp's compiler has it, whether a step of it asks or not.
            expression = cel(step.condition, lambda reference, inner=inner: inner.bring_in(self.channel(reference)))
            condition = expression if branch == "then" else negated(expression)
            inner.parent.tasks[inner.task]["triggerPolicy"] = {"condition": condition}
        self.fill((*step.then, *step.otherwise))

    def fill_loop(self, step: ForEachStep) -> None:
        """The body once an item; items are texts, as the body's steps take them."""
        scope, name = self.placed[step.name]
        body = self.placed[step.body[0].name][0]
        assert isinstance(step.items, tuple)

        items = [str(word(item, self.no_reference)) for item in step.items]
        scope.tasks[name]["parameterIterator"] = {"itemInput": ITEM_INPUT, "items": {"raw": compact(list(items))}}
        scope.tasks[name]["iteratorPolicy"] = {"parallelismLimit": step.max_concurrency}
        body.inputs[ITEM_INPUT] = Channel("parameters", ITEM_INPUT, body, type="STRING")
        if step.selector is not None:  # what is compared is handed on, whether a step reads the best iteration or not
            self.channel(step.selector.value)
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
        if step is not None and num_nodes(step, self.settings):
            step = None  # the pod of the task itself only follows the TrainJob
        resources = executor_resources(Resources() if step is None else resources_of(step, self.settings))
        self.executors[executor] = task.executor(
            image, variables_of(self.settings), resources, self.imports.places(task.inputs.values())
        )
        checkpoint = step.checkpoint if isinstance(step, TrainingStep) else None
        platform = platform_of(step, self.settings, checkpoints=checkpoint is not None and checkpoint.uri is None)
        for field, given in mounts_of(self.settings, "" if task.step is None else task.step.name).items():
            platform[field] = [*platform.get(field, []), *given] if isinstance(given, list) else given
        if step is not None and step.cluster.max_run_seconds != Cluster().max_run_seconds:
            platform["activeDeadlineSeconds"] = step.cluster.max_run_seconds
        if platform:
            self.platform[executor] = platform

    def checkpoints(self, step: JobStep, words: Mapping[str, Word]) -> Word | None:
        """The place of a training's checkpoints, or None without any: its own URI; else a folder of the claim, or a
        URI below the root, for a step of a loop in a folder of the item's own."""
        if not isinstance(step, TrainingStep) or (checkpoint := step.checkpoint) is None:
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
