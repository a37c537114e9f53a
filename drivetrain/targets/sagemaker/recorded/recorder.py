"""Runs a script of the SageMaker Python SDK, version 2 or 3, and keeps the definitions of its pipelines.

    python recorder.py SCRIPT RESULT ROLE

It runs in the script's folder, and writes RESULT, a JSON file. Nothing is sent: no socket is opened, and calls to AWS
are answered here. Standard library and the SDK, Python 3.8 or newer.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import traceback
from typing import Any, NoReturn

SOCKETS = ("socket.__new__", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.connect")
EMPTY = (
    *("s3 HeadBucket", "s3 ListBuckets", "s3 ListObjectsV2", "s3 CompleteMultipartUpload"),
    "iam SimulatePrincipalPolicy",
)
PROGRAMS = ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork")
SDK = (
    ("sagemaker.mlops.workflow.pipeline", "sagemaker.mlops.workflow.steps", "sagemaker.core.workflow.parameters"),
    ("sagemaker.workflow.pipeline", "sagemaker.workflow.steps", "sagemaker.workflow.parameters"),
)


class ClosedError(PermissionError):
    """The network, or a program that could reach it."""


class UnansweredError(Exception):
    """A call that only AWS can answer."""


class Ended(BaseException):
    """The script goes on with the results of an execution, which nobody has started."""


class Started:
    """An execution of a pipeline, as start() returns it."""

    def __init__(self, arn: str) -> None:
        self.arn = arn

    def __getattr__(self, name: str) -> NoReturn:
        raise Ended(name)


class Recorder:
    """Keeps what a script makes."""

    def __init__(self, script: str, role: str) -> None:
        self.script, self.folder, self.role = script, os.getcwd() + os.sep, role
        self.partition, self.account = role.split(":")[1], role.split(":")[4]
        self.pipelines: list[Any] = []
        self.definitions: dict[str, str] = {}
        self.places: dict[str, list[tuple[str, int]]] = {}
        """Name of a step, a parameter or a pipeline -> files and lines of the script that make it, innermost first."""
        self.uploads: dict[str, None] = {}
        self.idle: dict[str, None] = {}
        """Calls that would change something."""
        self.refused: dict[str, None] = {}

    def watch(self, names: tuple[str, str, str]) -> None:
        """Have the SDK's classes and boto3 come here."""
        pipeline, step, parameter = (importlib.import_module(name) for name in names)
        for made, kept in ((pipeline.Pipeline, self.pipelines), (step.Step, []), (parameter.Parameter, [])):
            self._watch_making(made, kept)
        for name in ("create", "update", "upsert", "start", "delete", "put_triggers", "delete_triggers"):
            self._replace(pipeline.Pipeline, name)
        boto: Any = importlib.import_module("botocore.client")

        def answer(client: Any, operation: str, given: dict[str, Any]) -> Any:
            return self.answer(client, operation, given)

        def without_profile(_: Any) -> dict[str, Any]:
            return {}

        boto.BaseClient._make_api_call = answer
        # A profile is of this machine's configuration, which the script does not see.
        importlib.import_module("botocore.session").Session.get_scoped_config = without_profile

    def _watch_making(self, made: Any, kept: list[Any]) -> None:
        original = made.__init__

        def __init__(this: Any, *given: Any, **named: Any) -> None:  # noqa: N807
            original(this, *given, **named)
            kept.append(this)
            frames = traceback.extract_stack()[-2::-1]
            self.places.setdefault(
                str(this.name), [(frame.filename, frame.lineno or 0) for frame in frames if self.is_own(frame.filename)]
            )

        made.__init__ = __init__

    def _replace(self, pipeline: Any, name: str) -> None:
        def replaced(this: Any, *_: Any, **__: Any) -> Any:
            self.idle[f"{this.name}: {name}()"] = None
            if name in ("create", "update", "upsert"):
                self.definitions[str(this.name)] = this.definition()
            arn = self.arn("sagemaker", f"pipeline/{this.name}")
            return Started(f"{arn}/execution/recorded") if name == "start" else {"PipelineArn": arn}

        if hasattr(pipeline, name):
            setattr(pipeline, name, replaced)

    def arn(self, service: str, resource: str) -> str:
        return f"arn:{self.partition}:{service}:{os.environ['AWS_DEFAULT_REGION']}:{self.account}:{resource}"

    def is_own(self, file: str) -> bool:
        """Return True for the script, and for files of its folder that no installer put there."""
        return file == self.script or (file.startswith(self.folder) and "site-packages" not in file)

    def answer(self, client: Any, operation: str, given: dict[str, Any]) -> Any:
        """The answer to a call of AWS."""
        call = f"{client.meta.service_model.service_name} {operation}"
        name = given.get("RoleName") or given.get("FunctionName") or given.get("PipelineName") or given.get("Bucket")
        if call == "sts GetCallerIdentity":
            return {"Account": self.account, "Arn": self.role, "UserId": "recorder"}
        if call == "iam GetRole":
            other = f"arn:{self.partition}:iam::{self.account}:role/{name}"
            return {"Role": {"RoleName": name, "Arn": self.role if self.role.endswith(f"/{name}") else other}}
        if call in (
            "s3 HeadBucket",
            "s3 ListBuckets",
            "s3 ListObjectsV2",
            "s3 CompleteMultipartUpload",
            "iam SimulatePrincipalPolicy",
        ):
            return {"Buckets": [], "EvaluationResults": []}
        if call in ("s3 HeadObject", "lambda GetFunction"):  # nothing is there yet
            missing: Any = importlib.import_module("botocore.exceptions").ClientError
            raise missing({"Error": {"Code": "404", "Message": "Not Found"}}, operation)
        if call == "sagemaker DescribeModel":  # the SDK names a job by its image
            return {"ModelName": given["ModelName"]}
        if call == "s3 UploadPart":
            return {"ETag": "recorded"}
        if call in ("s3 PutObject", "s3 CreateMultipartUpload"):
            self.uploads[f"s3://{name}/{given['Key']}"] = None
            return {"UploadId": "recorded"}
        if call in ("lambda CreateFunction", "lambda UpdateFunctionCode"):
            self.idle[f"{call} {name}"] = None
            return {"FunctionArn": self.arn("lambda", f"function:{name}")}
        if call in ("s3 CreateBucket", "sagemaker CreateModelPackageGroup", "sagemaker AddTags"):
            self.idle[call] = None
            return {}
        if call in ("sagemaker CreatePipeline", "sagemaker UpdatePipeline", "sagemaker StartPipelineExecution"):
            self.idle[f"{call} {name}"] = None
            if "PipelineDefinition" in given:
                self.definitions[str(name)] = given["PipelineDefinition"]
            arn = self.arn("sagemaker", f"pipeline/{name}")
            return {"PipelineArn": arn, "PipelineExecutionArn": f"{arn}/execution/recorded"}
        if "PipelineExecutionArn" in given:
            raise Ended(call)
        self.refused[call] = None
        raise UnansweredError(call)

    def result(self) -> dict[str, Any]:
        """Run the script; a problem is what was wrong with it."""
        problem, left = "", ""
        failed: dict[str, str] = {}
        try:
            self._run()
        except Ended as ended:
            left = f"{self._line(ended)}, which needs an execution ({ended})"
        except BaseException as error:
            if not isinstance(error, SystemExit) or error.code not in (None, 0):
                problem = self._problem(error)
        for pipeline in () if problem else self.pipelines:
            if pipeline.name not in self.definitions:
                try:
                    self.definitions[str(pipeline.name)] = pipeline.definition()
                except Exception as error:
                    failed[str(pipeline.name)] = self._problem(error)
        notes = {"Not uploaded": [*self.uploads], "Without effect": [*self.idle], "Not asked of AWS": [*self.refused]}
        notes["The script was left at"] = [left] if left else []
        made = {"definitions": self.definitions, "failed": failed, "places": self.places}
        return {"problem": problem, "notes": notes, **made}

    def _run(self) -> None:
        sys.argv = [self.script]
        sys.path[0] = self.folder
        with open(self.script, "rb") as file:
            text = file.read()
        main = type(sys)("__main__")
        main.__file__ = self.script
        sys.modules["__main__"] = main
        exec(compile(text, self.script, "exec"), main.__dict__)

    def _line(self, error: BaseException) -> str:
        """The script's own line in which it was raised."""
        if isinstance(error, SyntaxError) and error.filename and self.is_own(error.filename):
            file, number, text = error.filename, error.lineno, (error.text or "").strip()
        else:
            own = [frame for frame in traceback.extract_tb(error.__traceback__) if self.is_own(frame.filename)]
            if not own:
                return "at its end"
            file, number, text = own[-1].filename, own[-1].lineno, own[-1].line or ""
        return f"{'' if file == self.script else os.path.relpath(file) + ', '}line {number} ({text:.90})"

    def _problem(self, error: BaseException) -> str:
        last: BaseException | None = error
        seen: list[BaseException] = []
        while last is not None and last not in seen:
            if isinstance(last, (UnansweredError, ClosedError)):
                wish = f"asks AWS for {last}" if isinstance(last, UnansweredError) else f"wants {last}"
                return f"{self._line(error)}: it {wish}, and the network is closed"
            seen.append(last)
            last = last.__cause__ or last.__context__
        after = f" (it asked AWS for {', '.join(self.refused)}, and the network is closed)" if self.refused else ""
        text = (str(error).strip().splitlines() or [""])[0].rstrip(".")
        return f"{self._line(error)}: {type(error).__name__}: {text}{after}"


def close_network() -> None:
    """Refuse sockets, and programs where this process is in a network of others."""
    try:
        with open("/proc/self/net/dev") as file:
            is_alone = all(line.strip().startswith("lo:") for line in file.read().splitlines()[2:])
    except OSError:
        is_alone = False
    closed = SOCKETS if is_alone else SOCKETS + PROGRAMS

    def refuse(event: str, given: tuple[Any, ...]) -> None:
        if event in closed:
            raise ClosedError(f"{event}({', '.join(str(each) for each in given if isinstance(each, (str, int)))})")

    sys.addaudithook(refuse)


def main(script: str, result: str, role: str) -> None:
    close_network()
    recorder = Recorder(script, role)
    said: dict[str, Any] = {"missing": True}
    if importlib.util.find_spec("sagemaker") is not None:
        recorder.watch(SDK[0] if importlib.util.find_spec("sagemaker.mlops") is not None else SDK[1])
        said = recorder.result()
    with open(result, "w", encoding="utf-8") as file:
        json.dump(said, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
