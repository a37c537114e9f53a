"""The step's program as a process: what it writes goes on, metrics are read from it, and a runner on this machine
learns of its begin and end.

Of the standard library it imports what is fast to import: a task of a moment is mostly imports.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

from drivetrain.steps.kubeflow.task import DOCUMENT, EXECUTION, OBJECT_STORE, REGISTER, Json, Task, TaskError

LOGS = "DRIVETRAIN_TASK_LOGS"
CALL = "drivetrain.steps.call"
REGISTRY = "DRIVETRAIN_REGISTRY"
LOOKS = "drivetrain.components.source_version:source_version"
# Variables that no interpreter and no library reads as it is loaded.
_OF_THE_PLATFORM = re.compile(r"PYTHONUNBUFFERED|(AWS|DRIVETRAIN|SM|SAGEMAKER|TRAINING|PROCESSING)_\w+")
REPORTS = "DRIVETRAIN_TASK_REPORTS"
# In a run on one machine the iteration of a loop is a folder above the task's own: kfp's local runner names it so.
_ITERATION = re.compile(r"-iteration-(\d+)/[^/]+/[^/]+$")


class Log:
    """The destination of the program's output: to this process's own or, in a run on one machine, to a file; what
    training metrics say in it is kept."""

    def __init__(self, patterns: Mapping[str, str], report: Reporter) -> None:
        self.patterns = {name: re.compile(pattern) for name, pattern in patterns.items()}
        self.values: dict[str, float] = {}
        self.is_stopped = False
        """True once the program was told to end, by a signal to this process."""
        self.report, self.begun = report, time.monotonic()
        folder = os.environ.get(LOGS)
        self.file = None if folder is None else _log_file(Path(folder), report.about)

    def take(self, raw: bytes) -> None:
        """One line."""
        line = raw.decode("utf-8", "replace")
        for name, pattern in self.patterns.items():
            if found := pattern.findall(line):
                self.values[name] = float(found[-1])
                self.report("metric", name=name, value=self.values[name], seconds=time.monotonic() - self.begun)
        if self.file is None:
            _write(sys.stdout, raw)
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
    """A new attempt's log, where the home of the runs has it (drivetrain/targets/local/home.py)."""
    name = str(about["step"]) if about["iteration"] is None else f"{about['step']}-{about['iteration']}"
    number = 1
    while (run / name / f"attempt-{number}").exists():
        number += 1
    folder = run / name / f"attempt-{number}" / "logs"
    folder.mkdir(parents=True)
    file = folder / "algo-1.log"
    file.touch()
    return file


FAILURE_FILE = "DRIVETRAIN_FAILURE_FILE"


def tell(text: str, stream: TextIO | None = None) -> None:
    """Print a line, on standard output unless given."""
    _write(stream or sys.stdout, f"{text}\n".encode())


def _write(stream: TextIO, raw: bytes) -> None:
    """Write where the platform reads. Its launcher gets SIGTERM when we do, and dies at once: from then on nobody
    reads, and what is written must not end a program that saves."""
    try:
        stream.flush()
        stream.buffer.write(raw)
        stream.buffer.flush()
    except BrokenPipeError:  # what is still buffered goes there, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def arguments_of(task: Task) -> list[str]:
    """The program's own command line."""
    return [each for word in task.document["arguments"] for each in task.option(word)]


def environment_of(task: Task, failure: Path) -> dict[str, str]:
    """The program's variables: this process's, without what is the task's alone, and those of the document. A program
    that asks no registry is not told where on this machine that and all objects are; one that looks at the inputs of
    other steps finds the objects.

    Args:
        failure: where the program says why it fails.
    """
    own = {DOCUMENT, REPORTS, LOGS}
    if OBJECT_STORE in os.environ and not _asks_registry(task.document):
        own |= {REGISTRY} if task.document["program"] == LOOKS else {OBJECT_STORE, REGISTRY}
    environment = {name: value for name, value in os.environ.items() if name not in own}
    environment.setdefault(EXECUTION, task.run)
    for name, word in task.document.get("environment", {}).items():
        if name != REGISTRY or name not in os.environ:  # a run on this machine sets a registry here
            environment[name] = task.text(word)
    return {**environment, FAILURE_FILE: str(failure)}


def _asks_registry(document: Json) -> bool:
    if document["program"] == REGISTER or REGISTRY in document.get("environment", {}):
        return True
    words = cast("list[Json | str]", document["arguments"])
    return any("--registry" in word.get("option", ()) for word in words if isinstance(word, dict))


def reason_of(code: int, failure: Path) -> str:
    """Why the program failed, in its own words if it has left some."""
    return failure.read_text(encoding="utf-8").strip() if failure.is_file() else f"exit code {code}"


def command_of(program: str, arguments: Sequence[str]) -> list[str]:
    if program.startswith("script:"):
        script = Path(os.environ["DRIVETRAIN_SOURCE"]) / program.removeprefix("script:")
        if not script.is_file():
            raise TaskError(f"no script {program.removeprefix('script:')!r} in the source folder. Deploy again.")
        return [sys.executable, str(script), *arguments]
    return [sys.executable, "-m", CALL, program, *arguments]


class Become(BaseException):
    """In the child of this process: be the program, from where a program begins."""

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__()
        self.arguments = list(arguments)

    def run(self) -> NoReturn:
        """Run the component as `python -u -m drivetrain.steps.call` would."""
        sys.stdout = sys.__stdout__ = _unbuffered(1)
        sys.stderr = sys.__stderr__ = _unbuffered(2)
        sys.argv[1:] = self.arguments
        runpy.run_module(CALL, run_name="__main__", alter_sys=True)
        sys.exit(0)


def start(command: Sequence[str], environment: Mapping[str, str], log: Log) -> int:
    """Run a command; what stops this process stops it, and what it writes is read to its end.

    A component goes on in a fork: another interpreter would take as long as all else of a task. It gets one of its own
    where it has variables that an interpreter or a library reads as it is loaded.

    Raises:
        Become: in the child.
    """
    sys.stdout.flush()
    environment = {**environment, "PYTHONUNBUFFERED": "1"}
    more = [name for name, value in environment.items() if os.environ.get(name) != value]
    forks = list(command[1:3]) == ["-m", CALL] and all(_OF_THE_PLATFORM.fullmatch(name) for name in more)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(write, 1)
        os.dup2(write, 2)
        os.close(read)
        os.close(write)
        if forks:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a node's own ends the node
            os.environ.clear()
            os.environ.update(environment)
            raise Become(command[3:])
        try:
            os.execve(command[0], list(command), environment)
        except OSError as error:
            os.write(2, f"error: {command[0]}: {error.strerror}\n".encode())
            os._exit(127)

    def forward(number: int, _: Any) -> None:
        log.is_stopped = True
        with contextlib.suppress(ProcessLookupError):  # it has just ended, and says itself how
            os.kill(pid, number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        os.close(write)
        for raw in _lines(read, pid):
            log.take(raw)
        os.close(read)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:  # the program has ended, and its number may be another process's
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 - code if code < 0 else code


def _unbuffered(descriptor: int) -> io.TextIOWrapper:
    """As `python -u` opens it: lines are seen when they are written, also by what does not come to its end."""
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(cast(Any, raw), encoding="utf-8", errors="backslashreplace", write_through=True)


def _lines(output: int, pid: int) -> Iterator[bytes]:
    """The lines that a process writes, until it has ended: what it has started may hold its output open for ever."""
    ended, waiting = os.pidfd_open(pid), b""
    os.set_blocking(output, False)
    poll = select.poll()
    poll.register(output, select.POLLIN)
    poll.register(ended, select.POLLIN)
    last = is_closed = False
    while not last:
        last = any(descriptor == ended for descriptor, _ in poll.poll())
        while chunk := _read(output):
            *lines, waiting = (waiting + chunk).split(b"\n")
            yield from (line + b"\n" for line in lines)
        if chunk == b"" and not is_closed:
            poll.unregister(output)
            is_closed = True
    os.close(ended)
    if waiting:
        yield waiting


def _read(output: int) -> bytes | None:
    """Read what is there; None if nothing is there yet, empty at the end."""
    try:
        return os.read(output, 65_536)
    except BlockingIOError:
        return None


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
