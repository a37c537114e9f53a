"""The Workflows that the stand-in imitates, and what it says of tasks, held against those of recorded runs: the same
nodes with their paths, kinds, phases, templates and messages, and the same details of tasks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.kubeflow_pipelines.nodes import NO_END
from tests.fixtures.kubeflow_pipelines.workflows import Workflow

Json = dict[str, Any]
RECORDED = Path(__file__).parents[1] / "fixtures" / "kubeflow_runs"
RUN = "103c319b-cbf4-4cec-bb8a-a4ba2290e904"


def spec(name: str, **dags: Mapping[str, Any]) -> Json:
    """An IR: component -> task -> what it depends on, or the task itself; `root` gets the importer of the code."""
    components: Json = {"comp-import-code": {"executorLabel": "exec-import-code"}}
    executors: Json = {"exec-import-code": {"importer": {}}}

    def tasks(of: Mapping[str, Any]) -> Json:
        made: Json = {}
        for task, said in of.items():
            more: Json = dict(said) if isinstance(said, Mapping) else {"dependentTasks": list(said)}
            made[task] = {"componentRef": {"name": f"comp-{task}"}, **more}
            if f"comp-{task}" not in components and task.replace("-", "_") not in dags:
                components[f"comp-{task}"] = {"executorLabel": f"exec-{task}"}
                executors[f"exec-{task}"] = {"container": {}}
        return made

    root = tasks({"import-code": (), **dags["root"]})
    for component, of in dags.items():
        if component != "root":
            components[f"comp-{component.replace('_', '-')}"] = {"dag": {"tasks": tasks(of)}}
    return {
        "pipelineInfo": {"name": name},
        "root": {"dag": {"tasks": root}},
        "components": components,
        "deploymentSpec": {"executors": executors},
    }


CODE = "import-code"
CHAIN = spec("chain", root={"make": [CODE], "count": [CODE, "make"]})
DECIDE = spec(
    "decide",
    root={"make": [CODE], "count": [CODE, "make"], "decide": [CODE, "count"]},
    decide={"decide-then": (), "decide-otherwise": ()},
    decide_then={"yes": ()},
    decide_otherwise={"stop": ()},
)
LOOP = spec(
    "loop",
    root={"sweep": {"dependentTasks": [CODE], "parameterIterator": {"items": {"raw": "[1, 2, 3]"}}}},
    sweep={"score": ()},
)
WHATEVER = spec(
    "whatever",
    root={
        "make": [CODE],
        "count": [CODE, "make"],
        "tell": {
            "dependentTasks": [CODE, "count"],
            "triggerPolicy": {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"},
        },
    },
)
SLOW = spec("sleepy", root={"slow": {"dependentTasks": [CODE], "retryPolicy": {}}})
FLAKY = spec("retry", root={"flaky": {"dependentTasks": [CODE], "retryPolicy": {}}})
DONE = [("make", "SUCCEEDED", {}), ("count", "SUCCEEDED", {})]
# Recording -> spec, what its steps did, how it ended; without 2.17.0's templateDefaults where it says so.
RUNS: dict[str, tuple[Json, Sequence[tuple[str, str, Json]], str]] = {
    "chain-ok": (CHAIN, DONE, "SUCCEEDED"),
    "chain-unpatched": (CHAIN, [("make", "RUNNING", {}), ("make", "FAILED", {})], "FAILED"),
    "chain-cached": (CHAIN, [("make", "CACHED", {}), ("count", "CACHED", {})], "SUCCEEDED"),
    "chain-without-templatedefaults": (CHAIN, DONE, "SUCCEEDED"),
    "decide-yes": (DECIDE, [*DONE, ("decide-otherwise", "SKIPPED", {}), ("yes", "SUCCEEDED", {})], "SUCCEEDED"),
    "decide-no": (DECIDE, [*DONE, ("decide-then", "SKIPPED", {}), ("stop", "FAILED", {})], "FAILED"),
    "loop": (LOOP, [("score", "CACHED", {"iteration": number}) for number in range(3)], "SUCCEEDED"),
    "whatever-1": (WHATEVER, [DONE[0], ("count", "FAILED", {}), ("tell", "SUCCEEDED", {})], "FAILED"),
    "pod-deleted": (
        SLOW,
        [("slow", "ERROR", {"message": "pod deleted", "again": True}), ("slow", "SUCCEEDED", {"attempt": 1})],
        "SUCCEEDED",
    ),
    "stopped": (SLOW, [("slow", "RUNNING", {})], "STOPPED"),
    "retry-notemplatedefaults": (
        FLAKY,
        [*(("flaky", "FAILED", {"attempt": number, "again": True}) for number in range(3)),
         ("flaky", "PENDING", {"attempt": 3})],
        "",
    ),
    "2.15.0-chain": (CHAIN, DONE, "SUCCEEDED"),
    "2.5.0-loop": (LOOP, [("score", "SUCCEEDED", {"iteration": number}) for number in range(3)], "SUCCEEDED"),
}  # fmt: skip
UNDOUBLED = ("chain-without-templatedefaults", "retry-notemplatedefaults", "2.15.0-chain", "2.5.0-loop")


def imitated(name: str, workflow: str) -> Workflow:
    pipeline, acts, end = RUNS[name]
    began = 1_795_857_474
    made = Workflow(
        workflow, RUN, pipeline, root="s3://b/r", version="2.17.0", doubled=name not in UNDOUBLED, created=began
    )
    for number, (task, state, more) in enumerate(acts):
        now = began + 10 * number
        given = {"log": None, "iteration": None, "attempt": 0, "again": False, "message": None, **more}
        made.advance(task, state, now, ended=now + 5, **given)
    if end:
        made.conclude(end == "FAILED", began + 900, stopped=end == "STOPPED")
    return made


def nodes_of(workflow: Json) -> Counter[tuple[str, ...]]:
    name = workflow["metadata"]["name"]
    return Counter(
        (
            node["name"].replace(name, "WF"),
            node["id"],
            *(node[field] for field in ("type", "phase", "templateName")),
            (node.get("message") or "").partition(" deadline 20")[0],
        )
        for node in workflow["status"]["nodes"].values()
    )


def details_of(details: Sequence[Json]) -> Counter[tuple[str, ...]]:
    return Counter(
        (
            each.get("display_name", ""),
            each.get("state", "none"),
            *sorted(child["pod_name"] for child in each.get("child_tasks", ())),
            str(each["end_time"] == NO_END),
        )
        for each in details
    )


@pytest.mark.parametrize("name", RUNS)
def test_the_workflow_is_the_recorded_one(name: str) -> None:
    recorded = json.loads((RECORDED / f"{name}.json").read_text())
    made = imitated(name, recorded["workflow"]["metadata"]["name"])
    assert nodes_of(made.manifest()) == nodes_of(recorded["workflow"])
    details = recorded["run"]["run_details"]["task_details"]
    if details and not name.startswith("2."):
        assert details_of(made.details()) == details_of(details)
