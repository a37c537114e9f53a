"""Run a SageMaker training job from another platform: create it, follow it with its log, stop it when it is cancelled.

    python -m drivetrain.components.train_on_sagemaker --model build/model --metrics build/metrics \\
        --request train.json --train s3://data/prepared/train --output-path s3://models/runs --execution run-7

The request is CreateTrainingJob's, as a JSON file: that of a step of ours stands in what `drivetrain compile` prints,
under its `Arguments`. What refers to other steps there is given here. The job's name follows from the request and the
run, so that a step which is killed and started again goes on following the job that it made.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import signal
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn, cast

from drivetrain.aws.session import client, open_session
from drivetrain.base.errors import RETRY, InputError
from drivetrain.steps import Input, Output
from drivetrain.steps.declaration import component
from drivetrain.steps.trainings import EXECUTION

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
POLL_S = 15.0
_ATTEMPTS = 10
_LONGEST_NAME = 63
# Reasons of the service's own, after which another job may succeed: https://docs.aws.amazon.com/sagemaker/latest/dg/
# training-troubleshooting.html. What the program or its input did ("AlgorithmError", "ClientError") is final.
_MAY_CHANGE = ("InternalServerError", "CapacityError", "ResourceLimitExceeded")
_MOST_JOBS = 5

Json = dict[str, Any]


class Trained(NamedTuple):
    """The job, where its model lies, and how long it was paid for [s]."""

    job: str
    model_uri: str
    billable_seconds: float


@component(cached=False, needs=("boto3",))
def train_on_sagemaker(
    request: Input,
    model: Output,
    *,
    name: str = "train",
    train: str = "",
    validation: str = "",
    continue_from: str = "",
    output_path: str = "",
    execution: str = "",
    region: str = "",
) -> Trained:
    """Run a SageMaker training job from another platform.

    Args:
        request: a JSON file, or the folder with it: the body of CreateTrainingJob, without a name.
        model: gets the content of the job's model.tar.gz.
        name: begins the job's name.
        train: the S3 URI of the channel train, in place of the request's.
        validation: the S3 URI of the channel validation, in place of the request's.
        continue_from: the S3 URI of the channel continue_from: what fetch_previous wrote of an earlier model.
        output_path: the S3 URI below which the job writes, in place of the request's.
        execution: the run, in a pipeline execution("PipelineExecutionId"); without one the same request is one job.
        region: the job's; that of the environment unless given.

    Raises:
        InputError: no such request, what it lacks, or what AWS refuses: no credentials, no rights, a wrong field.
        RuntimeError: the job failed, with its reason.
    """
    channels = {"train": train, "validation": validation, "continue_from": continue_from}
    body = _body(request, channels, output_path)
    first = job_name(name, body, execution)
    # Jobs that follow one another train for one execution, whatever they are called.
    body["Environment"] = {EXECUTION: execution or first, **body.get("Environment", {})}
    job = _Job(_Clients(region), body, first)
    with _stopping(job):
        described = job.follow_to_its_end()
    uri = str(described["ModelArtifacts"]["S3ModelArtifacts"])
    _unpack(uri, model)
    seconds = float(described.get("BillableTimeInSeconds", described.get("TrainingTimeInSeconds", 0)))
    return Trained(job.name, uri, seconds)


def job_name(name: str, body: Mapping[str, Any], execution: str) -> str:
    """The first job's name: the same for the same request in the same run."""
    digest = hashlib.sha256(json.dumps([body, execution], sort_keys=True).encode()).hexdigest()[:16]
    base = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[: _LONGEST_NAME - len(digest) - 4].rstrip("-")
    return f"{base or 'train'}-{digest}"


def _body(request: Path, channels: Mapping[str, str], output_path: str) -> Json:
    """The request with what is given beside it.

    Raises:
        InputError: no JSON object, or one that still refers to what a pipeline would put there.
    """
    files = sorted(request.glob("*.json")) if request.is_dir() else [request]
    if len(files) != 1:
        raise InputError(f"request {request} holds {len(files)} JSON files. Give one, the body of CreateTrainingJob.")
    try:
        body = json.loads(files[0].read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"request {files[0].name} is not JSON: {error}. Give the body of CreateTrainingJob.") from None
    if not isinstance(body, dict):
        raise InputError(f"request {files[0].name} holds no JSON object. Give the body of CreateTrainingJob.")
    found = cast(Json, body)
    found.pop("TrainingJobName", None)
    listed = {each.get("ChannelName"): each for each in found.get("InputDataConfig", [])}
    for channel, uri in channels.items():
        if uri:
            if channel not in listed:
                raise InputError(f"{channel} is given, but the request has no such channel. It has {_names(listed)}.")
            listed[channel]["DataSource"]["S3DataSource"]["S3Uri"] = uri
    if output_path:
        found.setdefault("OutputDataConfig", {})["S3OutputPath"] = output_path
    for where, value in _references(found, "request"):
        raise InputError(f"{where} is {json.dumps(value)[:80]}, which only a pipeline fills in. Give a value for it.")
    return found


def _names(listed: Mapping[Any, Any]) -> str:
    return ", ".join(map(str, listed)) or "none"


def _references(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Places where a compiled pipeline refers to something: {"Get": ...}, {"Std:Join": ...}."""
    if isinstance(value, dict):
        entries = cast(Json, value)
        if set(entries) & {"Get", "Std:Join", "Std:JsonGet"}:
            yield where, entries
            return
        for name, each in entries.items():
            yield from _references(each, f"{where}.{name}")
    elif isinstance(value, list):
        for index, each in enumerate(cast("list[Any]", value)):
            yield from _references(each, f"{where}[{index}]")


class _Clients:
    """boto3's clients, whose refusals are told as what to do."""

    def __init__(self, region: str) -> None:
        if not (region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
            raise InputError("no region: give --region, or set AWS_REGION.")
        session = open_session("a SageMaker job needs")
        self.sagemaker, self.logs = (
            client(session, service, region=region, attempts=_ATTEMPTS) for service in ("sagemaker", "logs")
        )
        self.errors: Any = importlib.import_module("botocore.exceptions")

    def call(self, operation: str, **given: Any) -> Json | None:
        """SageMaker's answer; None where there is no such job.

        Raises:
            InputError: refused, or no credentials.
        """
        try:
            return cast(Json, getattr(self.sagemaker, operation)(**given))
        except (self.errors.NoCredentialsError, self.errors.ParamValidationError) as error:
            raise InputError(f"{operation}: {' '.join(str(error).split())}") from None
        except self.errors.ClientError as error:
            told: Json = error.response["Error"]
            if operation == "describe_training_job" and "not find" in str(told.get("Message")):
                return None
            if int(error.response["ResponseMetadata"]["HTTPStatusCode"]) >= 500:
                self._give_up(operation, error)
            raise InputError(f"SageMaker refuses {operation}: {told['Code']}: {told.get('Message')}") from None
        except self.errors.BotoCoreError as error:
            self._give_up(operation, error)

    @staticmethod
    def _give_up(operation: str, error: Exception) -> NoReturn:
        """End the step so that its platform tries again: the job goes on, and the next attempt follows it."""
        from drivetrain.steps.call import fail

        fail(f"SageMaker does not answer {operation}, in {_ATTEMPTS} attempts: {error}", code=RETRY)

    def log_streams(self, job: str) -> list[str]:
        """The names of a job's log streams, one a host."""
        try:
            found = self.logs.describe_log_streams(logGroupName=LOG_GROUP, logStreamNamePrefix=f"{job}/")
        except self.errors.ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":  # nothing was ever logged there
                return []
            raise InputError(f"the log of {job} cannot be read: {error}") from None
        except self.errors.BotoCoreError as error:
            _say(f"warning: the log of {job} cannot be read now: {error}")
            return []
        return sorted(str(each["logStreamName"]) for each in found["logStreams"])

    def log_lines(self, stream: str, token: str | None) -> tuple[list[str], str | None]:
        """The new lines of a stream, and the token to go on from."""
        more = {"nextToken": token} if token else {}
        found = self.logs.get_log_events(logGroupName=LOG_GROUP, logStreamName=stream, startFromHead=True, **more)
        return [str(each["message"]) for each in found["events"]], str(found["nextForwardToken"])


def _unpack(uri: str, folder: Path) -> None:
    """The content of a model.tar.gz in a folder."""
    from drivetrain.registry.artifacts import fetch

    with tempfile.TemporaryDirectory() as room, tarfile.open(fetch(uri, Path(room))) as archive:
        archive.extractall(folder, filter="data")


class _Job:
    """The training job of a step, under whatever name it goes on."""

    def __init__(self, clients: _Clients, body: Json, base: str) -> None:
        self.clients, self.body, self.base, self.name = clients, body, base, ""
        self._told = 0
        self._tokens: dict[str, str | None] = {}

    def follow_to_its_end(self) -> Json:
        """The description of the job that has succeeded.

        Raises:
            RuntimeError: it failed, or was stopped.
        """
        reason = ""
        for number in range(1, _MOST_JOBS + 1):
            self.name = self.base if number == 1 else f"{self.base}-{number}"
            self._told, self._tokens = 0, {}
            described = self.clients.call("describe_training_job", TrainingJobName=self.name)
            known = described is not None
            if described is None:
                self.clients.call("create_training_job", TrainingJobName=self.name, **self.body)
                _say(f"{self.name} is created")
            else:
                _say(f"{self.name} is there already ({described['TrainingJobStatus']})")
            described = self._followed()
            status, reason = described["TrainingJobStatus"], str(described.get("FailureReason", ""))
            if status == "Completed":
                return described
            if status == "Failed" and not reason.startswith(_MAY_CHANGE):
                raise RuntimeError(f"the training job {self.name} failed: {reason or 'it says no reason'}")
            if status == "Stopped" and not known:
                raise RuntimeError(f"the training job {self.name} was stopped, and not by this step.")
            _say(f"{self.name} has ended as {status} ({reason or 'stopped with an earlier attempt'}): another one")
        raise RuntimeError(f"{_MOST_JOBS} jobs {self.base} have not come to their end; the last one: {reason}")

    def _followed(self) -> Json:
        while True:
            described = self.clients.call("describe_training_job", TrainingJobName=self.name)
            if described is None:
                raise RuntimeError(f"the training job {self.name} is gone.")
            transitions = described.get("SecondaryStatusTransitions", [])
            for each in transitions[self._told :]:
                _say(f"{self.name}: {each['Status']}: {each.get('StatusMessage', '')}")
            self._told = len(transitions)
            ended = described["TrainingJobStatus"] in ("Completed", "Failed", "Stopped")
            self._tell_log()
            if ended:
                return described
            time.sleep(POLL_S)

    def _tell_log(self) -> None:
        """The first host's log goes on to this step's; the others' stay where they are."""
        for stream in self.clients.log_streams(self.name)[:1]:
            while True:
                before = self._tokens.get(stream)
                lines, self._tokens[stream] = self.clients.log_lines(stream, before)
                for line in lines:
                    print(line.rstrip("\n"), flush=True)
                if self._tokens[stream] == before or not lines:
                    break

    def stop(self) -> None:
        """Stop the job, if it is at work."""
        described = self.clients.call("describe_training_job", TrainingJobName=self.name) if self.name else None
        if described is not None and described["TrainingJobStatus"] == "InProgress":
            self.clients.call("stop_training_job", TrainingJobName=self.name)
            _say(f"{self.name} is stopped")


class _CancelledError(BaseException):
    """The step was told to stop."""


class _stopping:  # noqa: N801
    """As long as it lasts, SIGTERM and SIGINT stop the job and end this process."""

    def __init__(self, job: _Job) -> None:
        self.job, self.before = job, dict[signal.Signals, Any]()

    def __enter__(self) -> None:
        def cancelled(number: int, frame: FrameType | None) -> NoReturn:
            raise _CancelledError(number)

        for number in (signal.SIGTERM, signal.SIGINT):
            self.before[number] = signal.signal(number, cancelled)

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        for number in self.before:
            signal.signal(number, signal.SIG_IGN if isinstance(error, _CancelledError) else self.before[number])
        if isinstance(error, _CancelledError):
            self.job.stop()
            sys.exit(128 + int(error.args[0]))


def _say(text: str) -> None:
    print(f"sagemaker: {text.rstrip(': ')}", flush=True)


if __name__ == "__main__":
    train_on_sagemaker.main()
