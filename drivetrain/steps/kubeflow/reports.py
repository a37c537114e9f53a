"""Reports a task's begin and end to its runner on this machine."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from drivetrain.steps.kubeflow.task import Task

REPORTS = "DRIVETRAIN_TASK_REPORTS"
# In a run on one machine the iteration of a loop is a folder above the task's own: kfp's local runner names it so.
_ITERATION = re.compile(r"-iteration-(\d+)/[^/]+/[^/]+$")


class Reporter:
    """Reports to the task's runner on this machine; to nobody if $DRIVETRAIN_TASK_REPORTS is not set."""

    def __init__(self, task: Task) -> None:
        self.path = os.environ.get(REPORTS)
        found = _ITERATION.search(task.outputs["outputFile"])
        self.about = {"step": task.step, "iteration": None if found is None else int(found[1])}

    def __call__(self, event: str, **facts: Any) -> None:
        if self.path is None:
            return
        line = json.dumps({"event": event, **self.about, **facts, "pid": os.getpid()}) + "\n"
        # One write is one message: shorter than what a pipe takes in one piece, or in a file of its own.
        if len(line) > 4000:
            name = Path(self.path).with_name(f"report-{os.urandom(8).hex()}.json")
            name.write_text(line, encoding="utf-8")
            line = json.dumps({"event": "file", "path": str(name)}) + "\n"
        pipe = os.open(self.path, os.O_WRONLY)
        try:
            os.write(pipe, line.encode())
        finally:
            os.close(pipe)
