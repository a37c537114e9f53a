"""Tells whoever runs a task on this machine what begins and how it ends."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from drivetrain.steps.kubeflow.task import Task

REPORTS = "DRIVETRAIN_TASK_REPORTS"


class Reporter:
    """Tells whoever runs the task on this machine; nobody where $DRIVETRAIN_TASK_REPORTS is not set."""

    def __init__(self, task: Task) -> None:
        self.path = os.environ.get(REPORTS)
        # kfp gives an iteration's task its own place for outputs, and a task that it tries again the same.
        self.about = {"step": task.step, "item": task.parameters.get("item"), "task": task.outputs["outputFile"]}

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
