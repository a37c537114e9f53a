"""Notes on fields of a pipeline that do not count on Kubeflow Pipelines, and on a run that becomes too large there.

Argo keeps what a run does in one object, its Workflow, and packs the steps in it above 1 MB. Pipelines does not unpack
them, and shows them as they were at that moment, for ever; the run itself goes on. What a task is told stands there
eight times: with its driver, its DAG and its executor, and each twice, since Pipelines 2.17 gives retries to all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from drivetrain.spec.pipeline import Graph, Pipeline
from drivetrain.spec.steps import JobStep, RegisterStep
from drivetrain.targets.kubeflow.compile import fails
from drivetrain.targets.kubeflow.compile.train_job import num_nodes
from drivetrain.targets.kubeflow.settings import settings_of

Json = Mapping[str, Any]
LIMIT = 1_000_000
# Measured (tests/fixtures/kubeflow_workflows.json): a Workflow without tasks; an importer's nodes; what the nodes of
# a task and of a DAG hold beside what they are told; what the launcher's own words take.
_EMPTY, _IMPORTER, _TASK, _DAG, _LAUNCHER = 16_000, 3_500, 10_000, 2_500, 900
# An artifact in what a task is given: its name, type, address, and how the store is asked.
_ARTIFACT = 450


def notes(pipeline: Pipeline) -> list[str]:
    """A line each."""
    graph = Graph(pipeline)
    found = list(fails.notes(graph))
    jobs = [step for step in graph.steps if isinstance(step, JobStep)]
    if pipeline.cache.expire_after or any(step.cache and step.cache.expire_after for step in jobs):
        found.append(
            "Kubeflow Pipelines keeps cached results for as long as the cluster says: expire_after does not count."
        )
    if any(step.retry for step in jobs):
        found.append(
            "Kubeflow Pipelines retries a step whatever it failed of: the causes of a RetryPolicy do not count."
        )
    settings = settings_of(pipeline.deployment)
    if settings.image_pull_policy and any(num_nodes(step, settings) for step in jobs):
        found.append(
            "image_pull_policy does not count for trainings on several nodes: their runtime says when images are "
            "pulled."
        )
    for step in graph.steps:
        if isinstance(step, RegisterStep) and step.card:
            found.append(f"Step {step.name!r}: its card and its intended use do not reach the model registry there.")
    for parameter in pipeline.parameters:
        if parameter.choices:
            found.append(f"Parameter {parameter.name!r}: Kubeflow Pipelines does not hold a start to its choices.")
    return found


def size_notes(ir: Json, platform: Json) -> Iterator[str]:
    """That a run's steps would not all be shown, where they would not."""
    if (size := workflow_bytes(ir, platform)) > LIMIT:
        yield (
            f"A run takes about {size / 1e6:.1f} MB in the cluster. Above 1 MB the pages of Kubeflow Pipelines stand "
            "still, though all steps run (drivetrain runs show goes on). Fewer steps or iterations help."
        )


def workflow_bytes(ir: Json, platform: Json) -> int:
    """The estimate. Of a condition both branches are counted."""
    asked: Json = platform.get("platforms", {}).get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {})

    def inside(component: Json) -> int:
        return sum(map(of_task, component["dag"]["tasks"].values()))

    def of_task(task: Json) -> int:
        component: Json = ir["components"][task["componentRef"]["name"]]
        told = _escaped(component) + _escaped(task)
        if "dag" in component:
            items = task.get("parameterIterator", {}).get("items", {}).get("raw")
            count = 1 if items is None else len(json.loads(items))
            return (count + (items is not None)) * (4 * told + _DAG) + count * inside(component)
        label = component["executorLabel"]
        executor: Json = ir["deploymentSpec"]["executors"][label]
        if "container" not in executor:
            return _IMPORTER
        container: Json = executor["container"]
        given = component.get("inputDefinitions", {})
        made = component.get("outputDefinitions", {})
        artifacts = len(given.get("artifacts", ())) + len(made.get("artifacts", ())) + 1  # with executor-logs
        pod = {"container": container, "component": json.dumps(component), "given": "_" * (_ARTIFACT * artifacts)}
        driver = told + _escaped(container) + _escaped(asked.get(label, {}))
        return 2 * driver + 6 * (_escaped(pod) + _LAUNCHER) + _TASK

    return _EMPTY + _escaped([*ir["components"].values(), ir["deploymentSpec"]]) + inside(ir["root"])


def _escaped(value: Any) -> int:
    """The size of a value as JSON text in JSON."""
    return len(json.dumps(json.dumps(value, ensure_ascii=False, separators=(",", ":")), ensure_ascii=False))
