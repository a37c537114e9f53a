"""The step's program as a process: what it writes goes on, and metrics are read from it."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drivetrain.steps.kubeflow.reports import Reporter
from drivetrain.steps.kubeflow.task import Json, TaskError

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
            for raw in _lines(child.stdout.fileno(), child.pid):
                log.take(raw)
        code = child.wait()
    return 128 - code if code < 0 else code


def _lines(output: int, pid: int) -> Iterator[bytes]:
    """What a process writes, until it has ended: what it has started may hold its output open for ever."""
    ended, waiting = os.pidfd_open(pid), b""
    os.set_blocking(output, False)
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        selector.register(ended, selectors.EVENT_READ)
        last = False
        while not last:
            last = any(key.fd == ended for key, _ in selector.select())
            while chunk := _read(output):
                *lines, waiting = (waiting + chunk).split(b"\n")
                yield from (line + b"\n" for line in lines)
            if chunk == b"" and output in selector.get_map():
                selector.unregister(output)
    os.close(ended)
    if waiting:
        yield waiting


def _read(output: int) -> bytes | None:
    """What can be read at once; None where nothing is there yet, empty at the end."""
    try:
        return os.read(output, 65_536)
    except BlockingIOError:
        return None
