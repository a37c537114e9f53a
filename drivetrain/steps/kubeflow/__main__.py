"""A task of Kubeflow Pipelines: run a step's program with what the task is given, and say what it made.

    python -m drivetrain.steps.kubeflow EXECUTOR-INPUT
    python -m drivetrain.steps.kubeflow --node EXECUTOR-INPUT       on a node of a TrainJob (node.py)

The executor input is KFP's JSON ({"inputs": {"parameterValues", "artifacts"}, "outputs": {"artifacts", "outputFile"}}).
What to run stands in $DRIVETRAIN_TASK, a JSON object:

    step, program                the step's name; `module:function` or `script:path/in/source`
    arguments, environment       words (see `text`), of the program
    outputs                      names of the folders that it writes
    metrics                      output parameter -> the number or text of the output `metrics` that it is
    texts                        the same as JSON text, in which nothing looks like a placeholder of the platform
    reports                      output parameter -> [output, file, path, type]: the value in a JSON file that it is
    logs                         training metric -> the regular expression that finds it in the program's log
    logged                       output parameter -> the training metric whose last value it is
    archives                     inputs that the program finds as one archive of that name (model.tar.gz)
    retries                      whether the platform tries the task again (`Earlier`)
    train_job                    the program runs on the nodes of a TrainJob; this is one of them (train_job.py)
    fail                         instead of a program: the words with which the task fails
    select                       instead of a program: which iteration of a loop is handed on, {"pick": "MaxBy",
                                 "values": INPUT} or {"index": 0}, and of what: "outputs", "parameters" (NAME-chosen)

`s3://bucket/key` lies at /s3/bucket/key, where KFP brings it before the task and takes it from after it, or below
$DRIVETRAIN_OBJECT_STORE where that is set (a run on one machine). There $DRIVETRAIN_TASK_REPORTS names a pipe, which is
told what begins and how it ended, and $DRIVETRAIN_TASK_LOGS the folder of the run's logs. Exit codes are the program's
own: 0 done, 1 it failed, 2 bad input, 75 another attempt may help.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from drivetrain.base.bounds import is_number
from drivetrain.base.errors import BAD_INPUT, FAILED, RETRY
from drivetrain.steps.kubeflow.program import (
    Become,
    Log,
    Reporter,
    arguments_of,
    command_of,
    environment_of,
    reason_of,
    start,
    tell,
)
from drivetrain.steps.kubeflow.reports import as_json, reported
from drivetrain.steps.kubeflow.task import DOCUMENT, OBJECT_STORE, Json, RetryError, Task, TaskError, local_path, stored

METRICS, METRICS_FILE = "metrics", "metrics.json"
REPEATS, PAUSE_S = 3, 30.0
_LARGEST_INTEGER = 2**53
NAME = "drivetrain-failed.json"


def run(task: Task, report: Reporter) -> int:
    """Run the task's program; gives its exit code."""
    earlier = Earlier.of(task)
    if (told := earlier.reason()) is not None:
        raise TaskError(f"an earlier attempt failed for a reason that a retry does not change: {told}")
    if "fail" in task.document:
        reason = task.text(task.document["fail"])
        report("ended", code=FAILED, seconds=0.0, reason=reason)
        tell(f"error: {reason}", sys.stderr)
        raise SystemExit(FAILED)
    if "select" in task.document:
        begun = time.monotonic()
        best, values = _select(task)
        _write_outputs(task, values)
        report(
            "ended", code=0, seconds=time.monotonic() - begun, parameters=values, outputs=_made(task), iteration=best
        )
        return 0
    _check_inputs(task)
    arguments = arguments_of(task)
    inputs = {name: [each["uri"] for each in found] for name, found in task.artifacts.items()}
    report("started", arguments=arguments, inputs=inputs)
    begun = time.monotonic()
    log = Log(task.document.get("logs", {}), report)
    code, reason = _repeated(task, arguments, log)
    seconds = time.monotonic() - begun
    if code:
        if code in (FAILED, BAD_INPUT):
            earlier.write(code, reason)
        report("ended", code=code, seconds=seconds, reason=reason)
        return code
    values = {**_metrics(task), **reported(task), **log.last(task.document.get("logged", {}))}
    _write_outputs(task, values)
    report("ended", code=0, seconds=seconds, parameters=values, outputs=_made(task), inputs=inputs)
    return 0


def _repeated(task: Task, arguments: list[str], log: Log) -> tuple[int, str]:
    """Run the program; in a cluster again where another attempt may help, since Kubeflow Pipelines as it is installed
    tries no program again. On one machine its runner does, and of a TrainJob the follower has."""
    repeats = REPEATS if task.document.get("retries") and OBJECT_STORE not in os.environ else 0
    while True:
        for made in task.made.values():
            place = local_path(made["uri"])
            _empty(place)
            place.mkdir(parents=True)
        code, reason = _program(task, arguments, log)
        if code != RETRY or log.is_stopped or not repeats or "train_job" in task.document:
            return code, reason
        tell(f"{reason}. It is started again in this pod, at most {repeats} times")
        repeats -= 1
        time.sleep(PAUSE_S)


def _program(task: Task, arguments: list[str], log: Log) -> tuple[int, str]:
    """Run the program here or on several nodes; its exit code, and why it failed."""
    if "train_job" in task.document:
        from drivetrain.steps.kubeflow.nodes import train_on_nodes

        end = train_on_nodes(task, log)
        if end.code:
            tell(f"error: {end.reason}", sys.stderr)
        return end.code, end.reason
    failure = task.folder / "failure"
    failure.unlink(missing_ok=True)
    code = start(command_of(task.document["program"], arguments), environment_of(task, failure), log)
    return code, reason_of(code, failure) if code else ""


def _check_inputs(task: Task) -> None:
    """
    Raises:
        TaskError: a folder that an earlier step was to fill is empty.
    """
    if "train_job" in task.document:
        return  # its nodes read them
    for name, artifacts in task.artifacts.items():
        for artifact in artifacts:
            place = local_path(artifact["uri"])
            if place.is_dir() and not any(path.is_file() for path in place.rglob("*")):
                raise TaskError(f"input {name!r} is empty: nothing was written to {stored(str(place))}.")


def _made(task: Task) -> dict[str, str]:
    return {name: str(artifact["uri"]) for name, artifact in task.made.items()}


def _metrics(task: Task) -> Json:
    """The numbers and texts that the program returned, as far as other tasks ask for them."""
    values: Mapping[str, str] = task.document.get("metrics", {})
    texts: Mapping[str, str] = task.document.get("texts", {})
    asked = {**values, **texts}
    if not asked:
        return {}
    file = local_path(task.made[METRICS]["uri"]) / METRICS_FILE
    returned = _numbers(file)
    missing = [name for name in asked.values() if name not in returned]
    if missing:
        raise TaskError(
            f"step {task.step!r} returned no {missing[0]!r}, which another step reads. It returned "
            f"{', '.join(returned) or 'nothing'}."
        )
    found = {key: returned[name] for key, name in values.items()}
    return found | {key: as_json(returned[name]) for key, name in texts.items()}


def _numbers(file: Path) -> Json:
    return cast(Json, json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


def _write_outputs(task: Task, values: Mapping[str, Any]) -> None:
    """Say what was made: of an output that the file does not name, the platform knows nothing.

    Raises:
        TaskError: a value is no number that JSON has, and the platform would not read the file.
    """
    for key, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise TaskError(f"step {task.step!r} gave {key} = {value}. Allowed there: finite numbers.")
        if isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
            raise TaskError(
                f"step {task.step!r} returned {key} = {value}, which is compared as a double there. Allowed: "
                "-2**53 to 2**53."
            )
    artifacts: Json = {}
    for name, artifact in task.made.items():
        local_path(artifact["uri"]).mkdir(parents=True, exist_ok=True)
        metadata: Json = {}
        if name == METRICS:
            found = _numbers(local_path(artifact["uri"]) / METRICS_FILE)
            metadata = {key: value for key, value in found.items() if is_number(value)}  # what KFP takes
        said = {"name": artifact.get("name", name), "uri": artifact["uri"], "metadata": metadata}
        artifacts[name] = {"artifacts": [said]}
    content = {"parameterValues": dict(values), "artifacts": artifacts}
    task.output_file.parent.mkdir(parents=True, exist_ok=True)
    beside = task.output_file.with_suffix(".part")
    beside.write_text(json.dumps(content), encoding="utf-8")
    beside.replace(task.output_file)


def _select(task: Task) -> tuple[int, Json]:
    """Pass on the outputs of one iteration: by the largest or smallest value, or by its number."""
    import shutil

    told: Json = task.document["select"]
    if "pick" in told:
        values = [float(value) for value in task.parameters[told["values"]]]
        best = values.index((max if told["pick"] == "MaxBy" else min)(values))
    else:
        best = int(told["index"])
    for name in told["outputs"]:
        source, target = local_path(task.artifacts[name][best]["uri"]), local_path(task.made[name]["uri"])
        _empty(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target)
    return best, {key: task.parameters[key.removesuffix("-chosen")][best] for key in told["parameters"]}


def _empty(folder: Path) -> None:
    """Take away what an earlier attempt left."""
    if folder.is_dir():
        import shutil  # which is slow to import, and most folders are not there

        shutil.rmtree(folder)
    elif folder.exists():
        folder.unlink()


def main() -> NoReturn:
    if len(sys.argv) not in (2, 3) or sys.argv[1:-1] not in ([], ["--node"]) or DOCUMENT not in os.environ:
        print(__doc__, file=sys.stderr)
        sys.exit(BAD_INPUT)
    if sys.argv[1] == "--node":
        from drivetrain.steps.kubeflow import node

        sys.exit(node.main(sys.argv[2]))
    task: Task | None = None
    process = os.getpid()
    try:
        task = Task(sys.argv[1], os.environ[DOCUMENT])
        report = Reporter(task)
        try:
            code = run(task, report)
        except (TaskError, OSError, KeyError) as error:
            code = RETRY if isinstance(error, RetryError) else BAD_INPUT
            report("ended", code=code, seconds=0.0, reason=f"error: {error}")
            raise
    except (TaskError, OSError) as error:
        tell(f"error: {error}", sys.stderr)
        code = RETRY if isinstance(error, RetryError) else BAD_INPUT
    finally:
        if task is not None and os.getpid() == process:
            task.clean_up()
    sys.exit(code)


@dataclass(frozen=True)
class Earlier:
    """The place of the reason: a file on one machine, an object in a cluster, None where nobody tries again."""

    place: Path | str | None

    @staticmethod
    def of(task: Task) -> Earlier:
        """A task's."""
        if not task.document.get("retries"):
            return Earlier(None)
        if OBJECT_STORE in os.environ:
            return Earlier(task.output_file.with_name(NAME))
        from drivetrain.steps.kubeflow import objects  # slow to import, and most tasks need none of it

        uris = sorted(str(artifact["uri"]) for artifact in task.made.values())
        kept = [uri for uri in uris if uri.partition("://")[0] in objects.SCHEMES]
        return Earlier(f"{kept[0].rstrip('/').rpartition('/')[0]}/{NAME}" if kept else None)

    def reason(self) -> str | None:
        """Why an earlier attempt failed, where another one would, too.

        Raises:
            TaskError: the storage cannot be asked.
        """
        if self.place is None:
            return None
        if isinstance(self.place, Path):
            found = self.place.read_bytes() if self.place.is_file() else None
        else:
            from drivetrain.steps.kubeflow import objects

            found = objects.read(self.place)
        return None if found is None else str(json.loads(found)["reason"])

    def write(self, code: int, reason: str) -> None:
        """Leave a reason to the attempts that follow."""
        content = json.dumps({"code": code, "reason": reason}).encode()
        if isinstance(self.place, Path):
            self.place.parent.mkdir(parents=True, exist_ok=True)
            self.place.write_bytes(content)
        elif self.place is not None:
            from drivetrain.steps.kubeflow import objects

            objects.write(self.place, content)


if __name__ == "__main__":
    try:
        main()
    except Become as program:
        program.run()
