"""A task of Kubeflow Pipelines: run a step's program with what the task is given, and say what it made.

    python -m drivetrain.steps.kubeflow_task EXECUTOR-INPUT

The executor input is KFP's JSON ({"inputs": {"parameterValues", "artifacts"}, "outputs": {"artifacts", "outputFile"}}).
What to run stands in $DRIVETRAIN_TASK, a JSON object:

    step, program                the step's name; `module:function` or `script:path/in/source`
    arguments, environment       words (see `text`), of the program
    outputs                      names of the folders that it writes
    metrics                      output parameter -> the number or text of the output `metrics` that it is
    logs                         training metric -> the regular expression that finds it in the program's log
    logged                       output parameter -> the training metric whose last value it is
    fail                         instead of a program: the words with which the task fails
    select                       instead of a program: which iteration of a loop is handed on, {"pick": "MaxBy",
                                 "values": INPUT} or {"index": 0}, and of what: "outputs", "parameters" (NAME-chosen)

`s3://bucket/key` lies at /s3/bucket/key, where KFP brings it before the task and takes it from after it, or below
$DRIVETRAIN_OBJECT_STORE where that is set (a run on one machine). There $DRIVETRAIN_TASK_REPORTS names a pipe, which is
told what begins and how it ended, and $DRIVETRAIN_TASK_LOGS the folder of the run's logs. Exit codes are the program's
own: 0 done, 1 it failed, 2 bad input.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

DOCUMENT, REPORTS, LOGS = "DRIVETRAIN_TASK", "DRIVETRAIN_TASK_REPORTS", "DRIVETRAIN_TASK_LOGS"
OBJECT_STORE, FAILURE_FILE = "DRIVETRAIN_OBJECT_STORE", "DRIVETRAIN_FAILURE_FILE"
EXECUTION = "DRIVETRAIN_EXECUTION"
METRICS, METRICS_FILE = "metrics", "metrics.json"
# Where KFP's own library has the objects of a scheme (kfp.dsl.types.artifact_types).
_FOLDERS = {"s3": "/s3/", "minio": "/minio/", "gs": "/gcs/"}
FAILED, BAD_INPUT = 1, 2

Json = dict[str, Any]


class TaskError(ValueError):
    """The task cannot run, or has not made what it promises; the message says what was found and what to do."""


class Task:
    """What the platform gives a task, and what its document says."""

    def __init__(self, executor_input: str, document: str) -> None:
        try:
            given = cast(Json, json.loads(executor_input))
            self.document = cast(Json, json.loads(document))
        except ValueError as error:
            raise TaskError(f"the executor input, or ${DOCUMENT}, is not JSON: {error}.") from None
        inputs, self.outputs = given.get("inputs", {}), given["outputs"]
        self.parameters: Json = inputs.get("parameterValues", {})
        self.artifacts: dict[str, list[Json]] = {
            name: found.get("artifacts", []) for name, found in inputs.get("artifacts", {}).items()
        }
        self.made: dict[str, Json] = {
            name: found["artifacts"][0] for name, found in self.outputs.get("artifacts", {}).items()
        }
        self.folder = Path(tempfile.mkdtemp(prefix="drivetrain-task-"))

    @property
    def step(self) -> str:
        return str(self.document.get("step", "task"))

    @property
    def output_file(self) -> Path:
        """Where the platform reads what the task made."""
        return Path(self.outputs["outputFile"])

    def text(self, word: Any) -> str:
        """A word of the document as text.

        Raises:
            TaskError: it names what the task is not given.
        """
        if isinstance(word, str):
            return word
        kind = next(iter(word))
        value = word[kind]
        if kind == "join":
            return str(value[0]).join(self.text(part) for part in value[1])
        if kind == "place":
            uri = self.text(value)
            return str(local_path(uri)) if OBJECT_STORE in os.environ else uri
        if kind == "parameter":
            return self._parameter(value, word)
        if kind == "output":
            return str(local_path(self.made[value]["uri"]))
        if value not in self.artifacts or not self.artifacts[value]:
            raise TaskError(f"the task is given no {value!r}. It is given {', '.join(self.artifacts) or 'nothing'}.")
        uri = str(self.artifacts[value][0]["uri"])
        return uri if kind == "uri" else str(self._input(value, local_path(uri)))

    def option(self, word: Any) -> list[str]:
        """The words of an argument: an option with its value, joined by `=` where that would be taken for an option."""
        if not (isinstance(word, dict) and "option" in word):
            return [self.text(word)]
        flag, value = cast("list[Any]", word["option"])
        text = self.text(value)
        return [f"{flag}={text}"] if text.startswith("-") else [flag, text]

    def _parameter(self, name: str, word: Mapping[str, Any]) -> str:
        if name == "execution" and EXECUTION in os.environ:
            return os.environ[EXECUTION]
        if name not in self.parameters:
            raise TaskError(f"the task is given no parameter {name!r}. It is given {', '.join(self.parameters)}.")
        return spelled(self.parameters[name], str(word["type"]), str(word.get("path", "")))

    def _input(self, name: str, path: Path) -> Path:
        """The folder of an input; a single file is put into one, as SageMaker does."""
        if not path.is_file():
            return path
        folder = self.folder / "inputs" / name
        folder.mkdir(parents=True, exist_ok=True)
        link = folder / path.name
        if not link.is_symlink():
            link.symlink_to(path)
        return folder


def local_path(uri: str) -> Path:
    """Where an object or folder is on this machine."""
    scheme, mark, key = uri.partition("://")
    if not mark:
        return Path(uri)
    if scheme == "s3" and (store := os.environ.get(OBJECT_STORE)):
        return Path(store) / key
    if scheme not in _FOLDERS:
        raise TaskError(f"{uri} is of a scheme that no task reads. Allowed: {', '.join(_FOLDERS)}, and plain paths.")
    return Path(_FOLDERS[scheme] + key)


def spelled(value: Any, type: str, path: str = "") -> str:
    """A parameter's value as text. The platform has every number as a double, so the declared type decides.

    Args:
        path: of a field, `a.b`, where the value is an object's JSON text.
    """
    if path:
        found = json.loads(value)
        for key in path.split("."):
            found = found[int(key) if isinstance(found, list) else key]
        value = found
        type = "" if not isinstance(value, str) else "String"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if type == "Integer" else repr(float(value) if type == "Float" else value)


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


def run(task: Task, report: Reporter) -> int:
    """Run the task's program; gives its exit code."""
    failed_before = task.output_file.with_name("drivetrain-failed.json")
    if failed_before.is_file():  # a retry, which the platform makes whatever the reason was
        told = json.loads(failed_before.read_text(encoding="utf-8"))
        raise TaskError(f"an earlier attempt failed for a reason that another one does not change: {told['reason']}")
    if "fail" in task.document:
        raise SystemExit(_fail(task, report, task.text(task.document["fail"])))
    if "select" in task.document:
        begun = time.monotonic()
        best, values = _select(task)
        _write_outputs(task, values)
        report(
            "ended", code=0, seconds=time.monotonic() - begun, parameters=values, outputs=_made(task), iteration=best
        )
        return 0
    for name in task.document.get("outputs", ()):
        _empty(local_path(task.made[name]["uri"]))
    arguments = [each for word in task.document["arguments"] for each in task.option(word)]
    failure = task.folder / "failure"
    environment = {**os.environ, FAILURE_FILE: str(failure)}
    for name, word in task.document.get("environment", {}).items():
        if name not in ("DRIVETRAIN_REGISTRY",) or name not in os.environ:  # whoever runs it here has a registry here
            environment[name] = task.text(word)
    for name in (DOCUMENT, REPORTS, LOGS):
        environment.pop(name, None)
    inputs = {name: [each["uri"] for each in found] for name, found in task.artifacts.items()}
    report("started", arguments=arguments, inputs=inputs)
    begun = time.monotonic()
    log = _Log(task.document.get("logs", {}), report)
    code = _start(_command(task.document["program"], arguments), environment, log)
    seconds = time.monotonic() - begun
    if code:
        reason = failure.read_text(encoding="utf-8").strip() if failure.is_file() else f"exit code {code}"
        if code in (FAILED, BAD_INPUT):
            failed_before.parent.mkdir(parents=True, exist_ok=True)
            failed_before.write_text(json.dumps({"code": code, "reason": reason}), encoding="utf-8")
        report("ended", code=code, seconds=seconds, reason=reason)
        return code
    values = {**_metrics(task), **log.last(task.document.get("logged", {}))}
    _write_outputs(task, values)
    report("ended", code=0, seconds=seconds, parameters=values, outputs=_made(task), inputs=inputs)
    return 0


class _Log:
    """Where the program's output goes: to this process's own or, in a run on one machine, to a file; what training
    metrics say in it is kept."""

    def __init__(self, patterns: Mapping[str, str], report: Reporter) -> None:
        self.patterns = {name: re.compile(pattern) for name, pattern in patterns.items()}
        self.values: dict[str, float] = {}
        self.report, self.begun = report, time.monotonic()
        folder = os.environ.get(LOGS)
        self.file = None if folder is None else _log_file(Path(folder), report.about)

    @property
    def is_needed(self) -> bool:
        """Whether anybody reads the output but those who read this process's own."""
        return bool(self.patterns) or self.file is not None

    def take(self, raw: bytes) -> None:
        """One line."""
        line = raw.decode("utf-8", "replace")
        for name, pattern in self.patterns.items():
            if found := pattern.findall(line):
                self.values[name] = float(found[-1])
                self.report("metric", name=name, value=self.values[name], seconds=time.monotonic() - self.begun)
        if self.file is None:
            sys.stdout.buffer.write(raw)
            sys.stdout.buffer.flush()
        else:
            from drivetrain.base.masking import without_secrets

            with self.file.open("a", encoding="utf-8") as file:
                file.write(without_secrets(line))

    def last(self, wanted: Mapping[str, str]) -> Json:
        """Output parameter -> the last value of its metric.

        Raises:
            TaskError: the log has none.
        """
        missing = [name for name in wanted.values() if name not in self.values]
        if missing:
            raise TaskError(
                f"step {self.report.about['step']!r} logged no {missing[0]!r}, which another step reads. It logged "
                f"{', '.join(self.values) or 'nothing'}."
            )
        return {key: self.values[name] for key, name in wanted.items()}


def _log_file(run: Path, about: Mapping[str, Any]) -> Path:
    """A new attempt's log; the runner of the run knows the iteration by the item, which names it here."""
    name = str(about["step"]) if about["item"] is None else f"{about['step']}-{_plain(str(about['item']))}"
    number = 1
    while (run / name / f"attempt-{number}").exists():
        number += 1
    folder = run / name / f"attempt-{number}" / "logs"
    folder.mkdir(parents=True)
    return folder / "algo-1.log"


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:60]


def _made(task: Task) -> dict[str, str]:
    return {name: str(artifact["uri"]) for name, artifact in task.made.items()}


def _command(program: str, arguments: Sequence[str]) -> list[str]:
    if program.startswith("script:"):
        script = Path(os.environ["DRIVETRAIN_SOURCE"]) / program.removeprefix("script:")
        if not script.is_file():
            raise TaskError(f"no script {program.removeprefix('script:')!r} in the source folder. Deploy again.")
        return [sys.executable, str(script), *arguments]
    return [sys.executable, "-m", "drivetrain.steps.call", program, *arguments]


def _start(command: Sequence[str], environment: Mapping[str, str], log: _Log) -> int:
    """Run a command; what stops this process stops it."""
    sys.stdout.flush()
    piped: Json = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if log.is_needed else {}
    with subprocess.Popen(command, env={**environment, "PYTHONUNBUFFERED": "1"}, **piped) as child:

        def forward(number: int, _: Any) -> None:
            child.send_signal(number)

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, forward)
        if child.stdout is not None:
            for raw in child.stdout:
                log.take(raw)
        code = child.wait()
    return 128 - code if code < 0 else code


def _metrics(task: Task) -> Json:
    """The numbers and texts that the program returned, as far as other tasks ask for them."""
    asked: Mapping[str, str] = task.document.get("metrics", {})
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
    return {key: returned[name] for key, name in asked.items()}


def _numbers(file: Path) -> Json:
    return cast(Json, json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


def _write_outputs(task: Task, values: Mapping[str, Any]) -> None:
    """Say what was made: of an output that the file does not name, the platform knows nothing."""
    artifacts: Json = {}
    for name, artifact in task.made.items():
        local_path(artifact["uri"]).mkdir(parents=True, exist_ok=True)
        metadata: Json = {}
        if name == METRICS:
            found = _numbers(local_path(artifact["uri"]) / METRICS_FILE)
            metadata = {key: value for key, value in found.items() if not isinstance(value, str)}
        artifacts[name] = {"artifacts": [{"name": artifact["name"], "uri": artifact["uri"], "metadata": metadata}]}
    content = {"parameterValues": dict(values), "artifacts": artifacts}
    task.output_file.parent.mkdir(parents=True, exist_ok=True)
    beside = task.output_file.with_suffix(".part")
    beside.write_text(json.dumps(content), encoding="utf-8")
    beside.replace(task.output_file)


def _select(task: Task) -> tuple[int, Json]:
    """Hand on what one iteration gave: that whose value is the largest or the smallest, or that of a number."""
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
        shutil.rmtree(folder)
    elif folder.exists():
        folder.unlink()


def _fail(task: Task, report: Reporter, reason: str) -> int:
    report("ended", code=FAILED, seconds=0.0, reason=reason)
    print(f"error: {reason}", file=sys.stderr, flush=True)
    return FAILED


def main() -> NoReturn:
    if len(sys.argv) != 2 or DOCUMENT not in os.environ:
        print(__doc__, file=sys.stderr)
        sys.exit(BAD_INPUT)
    task: Task | None = None
    try:
        task = Task(sys.argv[1], os.environ[DOCUMENT])
        report = Reporter(task)
        try:
            code = run(task, report)
        except (TaskError, OSError, KeyError) as error:
            report("ended", code=BAD_INPUT, seconds=0.0, reason=f"{error}")
            raise
    except (TaskError, OSError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        code = BAD_INPUT
    finally:
        if task is not None:
            shutil.rmtree(task.folder, ignore_errors=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
