"""The step's program as a process: what it writes goes on, and metrics are read from it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drivetrain.steps.kubeflow.reports import REPORTS, Reporter
from drivetrain.steps.kubeflow.task import DOCUMENT, Json, Task, TaskError

LOGS = "DRIVETRAIN_TASK_LOGS"


class Log:
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


FAILURE_FILE = "DRIVETRAIN_FAILURE_FILE"


def arguments_of(task: Task) -> list[str]:
    """The program's own command line."""
    return [each for word in task.document["arguments"] for each in task.option(word)]


def environment_of(task: Task, failure: Path) -> dict[str, str]:
    """The program's variables: this process's, without what is the task's alone, and those of the document.

    Args:
        failure: where the program says why it fails.
    """
    own = (DOCUMENT, REPORTS, LOGS)
    environment = {name: value for name, value in os.environ.items() if name not in own}
    for name, word in task.document.get("environment", {}).items():
        if name != "DRIVETRAIN_REGISTRY" or name not in os.environ:  # whoever runs it here has a registry here
            environment[name] = task.text(word)
    return {**environment, FAILURE_FILE: str(failure)}


def reason_of(code: int, failure: Path) -> str:
    """Why the program failed, in its own words if it has left some."""
    return failure.read_text(encoding="utf-8").strip() if failure.is_file() else f"exit code {code}"


def command_of(program: str, arguments: Sequence[str]) -> list[str]:
    if program.startswith("script:"):
        script = Path(os.environ["DRIVETRAIN_SOURCE"]) / program.removeprefix("script:")
        if not script.is_file():
            raise TaskError(f"no script {program.removeprefix('script:')!r} in the source folder. Deploy again.")
        return [sys.executable, str(script), *arguments]
    return [sys.executable, "-m", "drivetrain.steps.call", program, *arguments]


def start(command: Sequence[str], environment: Mapping[str, str], log: Log) -> int:
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
