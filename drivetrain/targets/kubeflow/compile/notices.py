"""A notice when a run has ended: an exit task, which the platform tells how all the steps together ended.

All of the pipeline then stands in one task of the root, and the exit task beside it. Its program travels in its
command, so that it needs neither the code archive nor anything else that may be what failed.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from drivetrain.targets.kubeflow.compile.mounts import secret_variables

Json = dict[str, Any]
STEPS, NOTICE = "all-steps", "notice"
STATUS, RUN = "status", "run"
_RUN_ID = "{{$.pipeline_job_uuid}}"
_PROGRAM = "drivetrain.steps.kubeflow.notice"


def notice(pipeline: str, image: str) -> tuple[Json, Json, Json]:
    """The exit task in the root, its component, and the container that it runs.

    The comment in the command is for kfp's local runner, which runs nothing without that word.
    """
    task = {
        "cachingOptions": {},
        "componentRef": {"name": f"comp-{NOTICE}"},
        "dependentTasks": [STEPS],
        "inputs": {
            "parameters": {
                RUN: {"runtimeValue": {"constant": _RUN_ID}},
                STATUS: {"taskFinalStatus": {"producerTask": STEPS}},
            }
        },
        "taskInfo": {"name": NOTICE},
        "triggerPolicy": {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"},
    }
    component = {
        "executorLabel": f"exec-{NOTICE}",
        "inputDefinitions": {
            "parameters": {
                RUN: {"parameterType": "STRING"},
                STATUS: {"isOptional": True, "parameterType": "TASK_FINAL_STATUS"},
            }
        },
    }
    command = 'exec "python3" -I -S -c "$0" "$@"  # kfp.dsl.executor_main'
    container = {
        "args": [f"{{{{$.inputs.parameters[{name!r}]}}}}" for name in (STATUS, RUN)],
        "command": ["sh", "-c", command, _program_text()],
        "env": [{"name": "DRIVETRAIN_PIPELINE", "value": pipeline}],
        "image": image,
    }
    return task, component, {"container": container}


def notice_platform(secret: str) -> Json:
    """The exit task's part of the platform's document: the URL, by reference."""
    return {"secretAsEnv": secret_variables({"DRIVETRAIN_NOTICE_URL": secret})}


@cache
def _program_text() -> str:
    found = find_spec(_PROGRAM)
    assert found is not None and found.origin is not None
    return Path(found.origin).read_text(encoding="utf-8")
