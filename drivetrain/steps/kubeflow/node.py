"""A node of a TrainJob: it brings the inputs, runs the step's program, and the first node takes the outputs away.

    python -m drivetrain.steps.kubeflow --node EXECUTOR-INPUT

KFP moves the objects of its own tasks' pods; a TrainJob's pods have nothing of it. Each node copies the inputs that
the program reads into a folder of its own, so that the program sees folders as everywhere. Outputs of the first node
replace what lies at their URIs; those of the others are dropped. Checkpoints are the program's: an s3:// URI or a
volume. Why the program failed stands in the pod's termination message.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, cast

from drivetrain.base.errors import BAD_INPUT, RETRY
from drivetrain.steps.kubeflow import objects
from drivetrain.steps.kubeflow.program import (
    Log,
    Reporter,
    arguments_of,
    command_of,
    environment_of,
    reason_of,
    start,
    tell,
)
from drivetrain.steps.kubeflow.task import COPIES, DOCUMENT, Json, RetryError, Task, TaskError, local_path

# Where the kubelet reads what it keeps of a container's end, at most 4,096 bytes (`terminationMessagePath`).
TERMINATION_MESSAGE, LONGEST_MESSAGE = "/dev/termination-log", 4096
MESSAGE_VARIABLE = "DRIVETRAIN_TERMINATION_MESSAGE"
# A folder with room for the inputs, among the step's own variables; that of temporary files unless given.
FOLDER_VARIABLE = "DRIVETRAIN_NODE_FOLDER"
_RANKS = ("PET_NODE_RANK", "JOB_COMPLETION_INDEX")


def main(executor_input: str) -> int:
    """Run the node's part; gives the exit code."""
    signal.signal(signal.SIGTERM, _leave)
    task = Task(executor_input, os.environ[DOCUMENT])
    room = task.document.get("environment", {}).get(FOLDER_VARIABLE)
    copies = tempfile.mkdtemp(prefix="drivetrain-node-", dir=None if room is None else task.text(room))
    os.environ[COPIES] = copies
    own = os.getpid()
    try:
        return _run(task)
    except RetryError as error:
        return _fail(RETRY, f"error: {error}")
    except (TaskError, OSError) as error:
        return _fail(BAD_INPUT, f"error: {error}")
    finally:
        if os.getpid() == own:  # the program, which goes on in a fork, reads these folders
            shutil.rmtree(copies, ignore_errors=True)
            task.clean_up()


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Process 1 of a container gets no SIGTERM without a handler, and would bring its inputs until it is killed."""
    sys.exit(128 + number)


def _run(task: Task) -> int:
    for name in sorted(_inputs_in(task.document["arguments"])):
        for artifact in task.artifacts.get(name, ()):
            objects.download(artifact["uri"], local_path(artifact["uri"]))
    outputs = [task.made[name]["uri"] for name in task.document.get("outputs", ())]
    for uri in outputs:
        local_path(uri).mkdir(parents=True)
    failure = task.folder / "failure"
    code = start(
        command_of(task.document["program"], arguments_of(task)),
        environment_of(task, failure),
        Log({}, Reporter(task)),
    )
    if code:
        return _fail(code, reason_of(code, failure))
    rank = next((os.environ[name] for name in _RANKS if os.environ.get(name)), "0")
    if int(rank) == 0:
        for uri in outputs:
            objects.upload(local_path(uri), uri)
    return 0


def _inputs_in(word: Any) -> Iterator[str]:
    """The inputs whose folders the words name."""
    if isinstance(word, dict):
        for kind, value in cast(Json, word).items():
            yield from [value] if kind == "input" else _inputs_in(value)
    elif isinstance(word, list):
        for part in cast("list[Any]", word):
            yield from _inputs_in(part)


def _fail(code: int, reason: str) -> int:
    if reason.startswith("error: "):
        tell(reason)
    path = Path(os.environ.get(MESSAGE_VARIABLE, TERMINATION_MESSAGE))
    try:
        path.write_bytes(reason.encode()[:LONGEST_MESSAGE])
    except OSError as error:
        tell(f"warning: cannot write {path}: {error.strerror}")
    return code
