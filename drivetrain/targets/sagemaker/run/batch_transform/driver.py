"""The batch transform itself, in the job's own process: `python -m ...driver BASE`.

BASE is /opt/ml; BASE/transform/plan.json says what to do. A server a container is started beside, asked until it
answers its ping, and given every request of every file; of several each is given what the one before it answered. One
failure ends the job, and BASE/output/failure says it.
https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-batch-code.html
https://docs.aws.amazon.com/sagemaker/latest/dg/inference-pipeline-batch.html
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from drivetrain.base.ports import held_port
from drivetrain.targets.sagemaker.run.batch_transform import records
from drivetrain.targets.sagemaker.run.batch_transform.data_processing import ProcessingError
from drivetrain.targets.sagemaker.run.batch_transform.records import RecordError
from drivetrain.targets.sagemaker.run.batch_transform.settings import DEFAULT_PAYLOAD_MB, Settings

FOLDER = "transform"
PLAN, INPUT, OUTPUT = f"{FOLDER}/plan.json", f"{FOLDER}/input", f"{FOLDER}/output"
HOST = "127.0.0.1"
PORT_VARIABLE = "SAGEMAKER_BIND_TO_PORT"
# What the service waits for a server to come up; its own pings time out after two seconds.
STARTUP_S, _PING_S = 480.0, 2.0
_LOOK_EVERY_S = 0.05
_LONGEST_REASON = 1024
_STRATEGIES = {"MULTI_RECORD": records.MULTI, "SINGLE_RECORD": records.SINGLE}


class TransformError(Exception):
    """Why the job fails, in one line."""


class Server:
    """A started server that answers; `stop` ends it. The job's variables count before those of its container."""

    def __init__(
        self,
        command: Sequence[str],
        port: int,
        environment: Mapping[str, str] | None = None,
        *,
        startup_s: float = STARTUP_S,
    ) -> None:
        self.port = port
        print(f"server: {' '.join(command)} on {HOST}:{port} (${PORT_VARIABLE})", flush=True)
        variables = {**(environment or {}), **os.environ, PORT_VARIABLE: str(port)}
        try:
            self._process = subprocess.Popen(command, env=variables)
        except OSError as error:
            raise TransformError(f"the server {command[0]!r} could not be started: {error.strerror}") from None
        self._wait(time.monotonic() + startup_s, startup_s)

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def defaults(self) -> Mapping[str, Any]:
        """Ask the server for its settings at /execution-parameters; empty if it has no such page."""
        try:
            status, body, _ = self.ask("GET", "/execution-parameters", timeout_s=_PING_S)
            said: Any = json.loads(body) if status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return {}
        return cast("dict[str, Any]", said) if isinstance(said, dict) else {}

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None, *, timeout_s: float
    ) -> tuple[int, bytes, str | None]:
        """Status, body and content type of the answer."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=timeout_s)
        try:
            connection.request(method, path, body or None, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers.get("Content-Type")
        finally:
            connection.close()

    def _wait(self, deadline: float, startup_s: float) -> None:
        while True:
            code = self._process.poll()
            if code is not None:
                raise TransformError(f"the server ended with {code} before it answered; its log says why")
            try:
                status, _, _ = self.ask("GET", "/ping", timeout_s=_PING_S)
                if status == 200:
                    return
                said = f"answered GET /ping with {status}, not 200,"
            except (OSError, http.client.HTTPException):
                said = "did not answer GET /ping"
            if time.monotonic() > deadline:
                self.stop()
                raise TransformError(
                    f"the server {said} on {HOST}:{self.port} (${PORT_VARIABLE}) within {startup_s:.0f} s"
                )
            time.sleep(_LOOK_EVERY_S)


class Transform:
    """Files in, files out; `servers` answer, one after the other."""

    def __init__(self, settings: Settings, *servers: Server) -> None:
        said = servers[0].defaults()
        self._settings = replace(
            settings,
            strategy=settings.strategy or _STRATEGIES.get(str(said.get("BatchStrategy")), records.MULTI),
            payload_mb=_first_number(settings.payload_mb, said.get("MaxPayloadInMB"), DEFAULT_PAYLOAD_MB),
        )
        self._servers = servers
        self.requests = 0

    def file(self, content: bytes) -> bytes:
        """The output of one input.

        Raises:
            TransformError: data that do not split, fit or join, or a server that refuses them.
        """
        settings, strategy = self._settings, self._settings.strategy
        assert strategy is not None and settings.payload_mb is not None
        most = settings.payload_mb * 1024 * 1024 or None
        try:
            found = records.split(content, settings.split_type, bare=strategy == records.SINGLE)
            separator = b"\n" if settings.split_type == records.LINE else b""
            outputs: list[bytes] = []
            for taken, body in records.batches(found, strategy, most, separator, settings.processing.payload):
                outputs += settings.processing.output(taken, self._answer(body))
            return records.assembled(outputs, settings.assemble_with)
        except (RecordError, ProcessingError) as error:
            raise TransformError(str(error)) from None

    def _answer(self, body: bytes) -> bytes:
        self.requests += 1
        kind = self._settings.content_type
        for number, server in enumerate(self._servers, start=1):
            is_last = number == len(self._servers)
            headers = {
                **({"Content-Type": kind} if kind else {}),
                **({"Accept": self._settings.accept} if is_last and self._settings.accept else {}),
            }
            who = "the server" if len(self._servers) == 1 else f"the server of container {number}"
            body, kind = self._asked(server, body, headers, f"request {self.requests}: {who}")
        return body

    def _asked(self, server: Server, body: bytes, headers: Mapping[str, str], who: str) -> tuple[bytes, str | None]:
        """The answer to one request and its content type; what fails is asked again."""
        settings = self._settings
        for left in range(settings.retries, -1, -1):
            try:
                status, answer, kind = server.ask("POST", "/invocations", body, headers, timeout_s=settings.timeout_s)
            except (OSError, http.client.HTTPException) as error:
                if not left:
                    raise TransformError(f"{who} gave no answer: {error}") from None
                continue
            if status == 200:
                return answer, kind
            # A request that was refused is refused again; only what failed may succeed another time.
            if status < 500 or not left:
                said = answer.decode("utf-8", "replace").strip()
                raise TransformError(f"{who} answered {status}: {said:.300}")
        raise AssertionError("the last try returns or raises")


def run(base: Path) -> None:
    """
    Raises:
        TransformError: the job fails.
    """
    from drivetrain.processes.mounts import rewrite

    plan: dict[str, Any] = json.loads((base / PLAN).read_text(encoding="utf-8"))
    with ExitStack() as servers:
        started: list[Server] = []
        for each in plan["servers"]:
            port = servers.enter_context(held_port()).getsockname()[1]
            variables = {name: rewrite(value, base) for name, value in each["environment"].items()}
            started.append(Server([rewrite(word, base) for word in each["command"]], port, variables))
            servers.callback(started[-1].stop)
        transform = Transform(Settings.of(plan["arguments"]), *started)
        for name, output in plan["files"]:
            try:
                content = transform.file((base / INPUT / name).read_bytes())
            except TransformError as error:
                raise TransformError(f"{name}: {error}") from None
            target = base / OUTPUT / output
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            print(f"{output}: {len(content):,} bytes", flush=True)
        (base / FOLDER / "requests").write_text(str(transform.requests), encoding="utf-8")


def _first_number(*values: Any) -> int:
    return next(value for value in values if isinstance(value, int) and not isinstance(value, bool))


def main(base: str) -> int:
    try:
        run(Path(base))
    except TransformError as error:
        failure = Path(base) / "output" / "failure"
        failure.parent.mkdir(parents=True, exist_ok=True)
        failure.write_text(str(error)[:_LONGEST_REASON], encoding="utf-8")
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
