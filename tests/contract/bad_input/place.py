"""A folder of a user's, the real command line in it, and what must hold however wrong the input is."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.run_store.reasons import known_paths
from tests.fixtures.preloaded import COMMAND, forking

MOST_LINES = 3
# What is refused costs at most this much processor time, beside the 0.4 s of a start, which is forked. (Not time on the
# clock: tests share the machine.)
MOST_CPU_S = 1.0
PATIENCE_S = 60


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str
    cpu_s: float


class Place:
    """A work folder with a home, in which nothing of the developer's is seen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True)
        self._out, self._err = folder / "out", folder / "err"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.temporary),
            "DRIVETRAIN_HOME": str(self.home),
        }

    def write(self, name: str, content: str | bytes) -> Path:
        """A file in the work folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def object(self, key: str, content: str | bytes) -> str:
        """An object in the local object store; gives its URI."""
        self.write(f"home/s3/{key}", content)
        return f"s3://{key}"

    def start(self, *arguments: object, **variables: str) -> subprocess.Popen[bytes]:
        """`drivetrain ...` at work, started anew; its output goes to the files `out` and `err` of the work folder."""
        return self._start([COMMAND, *map(str, arguments)], variables, None)

    def drivetrain(self, *arguments: object, before: Callable[[], None] | None = None, **variables: str) -> Ran:
        """`drivetrain ...`; `before` is called in the process before it becomes the command, which is started anew."""
        words = list(map(str, arguments))
        if before is not None:
            return self.end_of(self._start([COMMAND, *words], variables, before))
        environment = {**self.environment, **variables}
        with Path(os.devnull).open("rb") as none, self._out.open("wb") as out, self._err.open("wb") as err:
            files = (none.fileno(), out.fileno(), err.fileno())
            ended = forking().end_of(words, cwd=self.folder, environment=environment, files=files, timeout=PATIENCE_S)
        return self._ran(ended.code, ended.cpu_s)

    def python(self, *arguments: object, **variables: str) -> Ran:
        """`python ...`"""
        return self.end_of(self._start([sys.executable, *map(str, arguments)], variables, None))

    def run(self, definition: Any, *arguments: object, **variables: str) -> Ran:
        """`drivetrain run -d FILE` of a definition (JSON, text or bytes)."""
        content = definition if isinstance(definition, str | bytes) else json.dumps(definition)
        return self.drivetrain("run", "-d", self.write("definition.json", content), *arguments, **variables)

    def _start(
        self, command: list[str], variables: Mapping[str, str], before: Callable[[], None] | None
    ) -> subprocess.Popen[bytes]:
        with self._out.open("wb") as out, self._err.open("wb") as err:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env={**self.environment, **variables},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                preexec_fn=before,
            )

    def end_of(self, process: subprocess.Popen[bytes]) -> Ran:
        """Wait for a command, and read what it said."""
        late = threading.Timer(PATIENCE_S, process.kill)
        late.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        finally:
            late.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        return self._ran(process.returncode, usage.ru_utime + usage.ru_stime)

    def _ran(self, code: int, cpu_s: float) -> Ran:
        out, err = (path.read_text("utf-8", "replace") for path in (self._out, self._err))
        return Ran(code, out, err, cpu_s)

    def refused(self, ran: Ran, *words: str) -> None:
        """One error in at most three lines, with the words; exit code 2, quick, and nothing was begun."""
        self.error_of(ran, *words)
        assert ran.out == ""
        assert self.executions() == {}
        assert ran.cpu_s <= MOST_CPU_S

    def error_of(self, ran: Ran, *words: str) -> None:
        """One error on stderr in at most three lines, with the words; exit code 2."""
        assert ran.code == 2, ran
        lines = ran.err.splitlines()
        assert 1 <= len(lines) <= MOST_LINES and lines[0].startswith("error: "), ran.err
        assert "Traceback" not in ran.err
        for word in words:
            assert word in ran.err, ran.err

    def failed_by_input(self, ran: Ran, step: str, *words: str) -> None:
        """A step refused what it was given: one message, exit code 2, and the ledger says so."""
        assert ran.code == 2, ran
        assert "Traceback" not in ran.out, ran
        # What the service would refuse of a definition is told as its run begins.
        assert all(line.startswith("warning: the service would refuse") for line in ran.err.splitlines()), ran
        reason = self.step(step)[1]
        assert reason is not None and reason.startswith("error: ")
        for word in words:
            assert word in reason, reason
        assert known_paths(reason.splitlines()[0]) in ran.out
        assert list(self.executions().values()) == ["Failed"]

    def executions(self) -> dict[str, str]:
        """Id -> status in the ledger, which is whole."""
        return dict(self._rows("SELECT id, status FROM executions"))

    def step(self, name: str) -> tuple[str, str | None]:
        """Status and reason of a step in the latest execution."""
        sql = "SELECT s.status, s.reason FROM steps s JOIN executions e ON e.id = s.execution WHERE s.name = ?"
        return self._rows(sql + " ORDER BY e.started", name)[-1]

    def shown(self) -> list[str]:
        """The status of every execution as `runs list` shows it, the newest first."""
        ran = self.drivetrain("runs", "list", "--json")
        assert ran.code == 0, ran
        return [row["status"] for row in json.loads(ran.out)]

    def _rows(self, sql: str, *values: str) -> list[Any]:
        path = self.home / "ledger.db"
        if not path.exists():
            return []
        with closing(sqlite3.connect(path)) as ledger:
            assert ledger.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            return ledger.execute(sql, values).fetchall()

    def files(self) -> set[str]:
        """Every file of the work folder but those of the home and the cache, our own, and the temporary ones, which
        must be gone."""
        assert list(self.temporary.iterdir()) == []
        found = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if not path.is_dir()}
        ours = {"out", "err", "definition.json"}
        return {name for name in found - ours if not name.startswith(("home/", ".cache/drivetrain/", "__pycache__/"))}


def processing(
    name: str,
    program: str,
    *arguments: Any,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    environment: Mapping[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A Processing step that runs `python3 -c PROGRAM`, as anybody's definition could have it."""
    made: dict[str, Any] = {
        "ProcessingResources": {
            "ClusterConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30}
        },
        "AppSpecification": {
            "ImageUri": "000000000000.dkr.ecr.us-east-1.amazonaws.com/python:3.11",
            "ContainerEntrypoint": ["python3", "-c", program],
        },
        "RoleArn": "arn:aws:iam::000000000000:role/Role",
        "ProcessingInputs": [
            {"InputName": key, "S3Input": {"S3Uri": uri, "LocalPath": f"/opt/ml/processing/input/{key}"}}
            for key, uri in (inputs or {}).items()
        ],
        "ProcessingOutputConfig": {
            "Outputs": [
                {
                    "OutputName": key,
                    "S3Output": {
                        "S3Uri": uri,
                        "LocalPath": f"/opt/ml/processing/output/{key}",
                        "S3UploadMode": "EndOfJob",
                    },
                }
                for key, uri in (outputs or {}).items()
            ]
        },
    }
    if arguments:
        made["AppSpecification"]["ContainerArguments"] = list(arguments)
    if environment is not None:
        made["Environment"] = dict(environment)
    return {"Name": name, "Type": "Processing", "Arguments": made, **fields}


def training(
    name: str, program: str, hyperparameters: Mapping[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """A Training step that runs `python3 -c PROGRAM`."""
    made = {
        "AlgorithmSpecification": {
            "TrainingImage": "000000000000.dkr.ecr.us-east-1.amazonaws.com/python:3.11",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["python3", "-c", program],
        },
        "RoleArn": "arn:aws:iam::000000000000:role/Role",
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/trained"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        "HyperParameters": dict(hyperparameters or {}),
    }
    return {"Name": name, "Type": "Training", "Arguments": made, **fields}


def output_of(step: str, output: str) -> dict[str, str]:
    return {"Get": f"Steps.{step}.ProcessingOutputConfig.Outputs['{output}'].S3Output.S3Uri"}


def definition(*steps: Mapping[str, Any], parameters: tuple[Mapping[str, Any], ...] = ()) -> dict[str, Any]:
    return {"Version": "2020-12-01", "Parameters": list(parameters), "Steps": list(steps)}
