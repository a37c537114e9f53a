"""A SageMaker job that a step of another platform runs, on moto; what becomes of the job is the test's to say."""

from __future__ import annotations

import io
import json
import signal
import tarfile
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.components import train_on_sagemaker as module
from drivetrain.components.train_on_sagemaker import LOG_GROUP, Trained, train_on_sagemaker
from tests.fixtures import service_descriptions

Json = dict[str, Any]
REGION = "eu-west-3"


class Service:
    """moto's jobs, which are all done at once, with a life of their own: each is at work until it is told otherwise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import boto3
        from moto.sagemaker.models import SageMakerModelBackend, sagemaker_backends
        from moto.sagemaker.responses import SageMakerResponse

        self.jobs: Json = sagemaker_backends["123456789012"][REGION].training_jobs
        self.s3: Any = boto3.client("s3", region_name="us-east-1")
        self.logs: Any = boto3.client("logs", region_name=REGION)
        self.changed = threading.Condition()
        self.stopped: list[str] = []
        create = SageMakerModelBackend.create_training_job

        def begin(*given: Any, **more: Any) -> Any:
            job = create(*given, **more)
            job.training_job_status = job.secondary_status = "InProgress"
            with self.changed:
                self.changed.notify_all()
            return job

        def stop(response: Any) -> str:
            name = json.loads(response.body)["TrainingJobName"]
            self.stopped.append(name)
            self.jobs[name].training_job_status = "Stopped"
            return "{}"

        monkeypatch.setattr(SageMakerModelBackend, "create_training_job", begin)
        monkeypatch.setattr(SageMakerResponse, "stop_training_job", stop, raising=False)
        self.s3.create_bucket(Bucket="models")

    def job(self, number: int = 1) -> str:
        """The name of the newest job, once there are so many."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.jobs) == number, 10), list(self.jobs)
        return list(self.jobs)[-1]

    def end(self, name: str, status: str = "Completed", reason: str = "") -> None:
        job = self.jobs[name]
        if status == "Completed":
            room = io.BytesIO()
            with tarfile.open(fileobj=room, mode="w:gz") as archive:
                entry = tarfile.TarInfo("weights.txt")
                entry.size = 3
                archive.addfile(entry, io.BytesIO(b"abc"))
            key = job.model_artifacts["S3ModelArtifacts"].removeprefix("s3://models/")
            self.s3.put_object(Bucket="models", Key=key, Body=room.getvalue())
        if reason:
            job.failure_reason = reason
        job.training_job_status = status

    def say(self, name: str, *lines: str) -> None:
        stream = {"logGroupName": LOG_GROUP, "logStreamName": f"{name}/algo-1-1"}
        self.logs.create_log_group(logGroupName=LOG_GROUP)
        self.logs.create_log_stream(**stream)
        events = [{"timestamp": int(time.time() * 1000) + at, "message": line} for at, line in enumerate(lines)]
        self.logs.put_log_events(**stream, logEvents=events)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Generator[Service]:
    from moto import mock_aws

    monkeypatch.setattr(module, "POLL_S", 0.01)
    service_descriptions.read_once()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_REGION", REGION)
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        yield Service(monkeypatch)


def asked(**more: Any) -> str:
    channel = {
        "ChannelName": "train",
        "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://data/train"}},
    }
    body: Json = {
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::123456789012:role/training",
        "InputDataConfig": [channel],
        "OutputDataConfig": {"S3OutputPath": "s3://models/runs"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    }
    return json.dumps(body | more)


def beside(action: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    return thread


def run(folder: Path, request: str | None = None, **given: Any) -> Trained:
    file = folder.parent / f"{folder.name}-request.json"
    file.write_text(asked() if request is None else request)
    return train_on_sagemaker(file, folder, **({"execution": "run-7"} | given))


def test_a_job_is_created_followed_and_its_model_unpacked(service: Service, tmp_path: Path, capsys: Any) -> None:
    def happens() -> None:
        name = service.job()
        service.say(name, "loss=0.5", "loss=0.25")
        service.end(name)

    told = beside(happens)
    found = run(tmp_path, name="Fit model!")
    told.join()
    [name] = service.jobs
    assert found == Trained(name, f"s3://models/runs/{name}/output/model.tar.gz", 0.0)
    assert name.startswith("Fit-model-") and len(name) <= 63
    assert (tmp_path / "weights.txt").read_text() == "abc"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"sagemaker: {name} is created"
    assert f"sagemaker: {name}: Starting: Preparing the instances for training" in lines
    assert [line for line in lines if line.startswith("loss")] == ["loss=0.5", "loss=0.25"]


@pytest.mark.usefixtures("service")
def test_both_services_use_the_same_credentials() -> None:
    """A profile with a second factor asks for it once."""
    clients = module._Clients(REGION)
    credentials = [each._request_signer._credentials for each in (clients.sagemaker, clients.logs)]
    assert credentials[0] is credentials[1]


def test_a_restarted_step_follows_its_job(service: Service, tmp_path: Path, monkeypatch: Any) -> None:
    class KilledError(Exception):
        pass

    def killed(seconds: float) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(module.time, "sleep", killed)
        with pytest.raises(KilledError):
            run(tmp_path)
    name = service.job()
    told = beside(lambda: service.end(name))
    assert run(tmp_path).job == name
    told.join()
    assert list(service.jobs) == [name]
    # One that has ended meanwhile is done.
    assert run(tmp_path).job == name


def test_a_new_run_or_request_is_a_new_job(service: Service, tmp_path: Path) -> None:
    for number, given in enumerate(({}, {"execution": "run-8"}, {"train": "s3://data/other"}), 1):
        told = beside(lambda number=number: service.end(service.job(number)))
        run(tmp_path, **given)
        told.join()
    assert len(service.jobs) == 3
    channel = list(service.jobs.values())[-1].input_data_config[0]
    assert channel["DataSource"]["S3DataSource"]["S3Uri"] == "s3://data/other"


def test_a_failure_of_the_program_is_final(service: Service, tmp_path: Path) -> None:
    told = beside(lambda: service.end(service.job(), "Failed", "AlgorithmError: rank 1 failed: boom"))
    for _ in range(2):  # and stays so for the platform's next attempt
        with pytest.raises(RuntimeError, match=r"the training job .* failed: AlgorithmError: rank 1 failed: boom"):
            run(tmp_path)
        told.join()
    assert len(service.jobs) == 1


def test_a_service_failure_starts_another_job(service: Service, tmp_path: Path) -> None:
    def happens() -> None:
        service.end(service.job(), "Failed", "CapacityError: Unable to provision requested ML compute capacity")
        service.end(service.job(2))

    told = beside(happens)
    found = run(tmp_path)
    told.join()
    first, second = service.jobs
    assert found.job == second == f"{first}-2"


def test_service_failures_are_limited(service: Service, tmp_path: Path) -> None:
    def happens() -> None:
        for number in range(1, 6):
            service.end(service.job(number), "Failed", "CapacityError: none")

    told = beside(happens)
    with pytest.raises(RuntimeError, match=r"5 jobs .* have not come to their end; the last one: CapacityError: none"):
        run(tmp_path)
    told.join()


def test_a_step_that_is_cancelled_stops_its_job(service: Service, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    told = beside(lambda: (service.job(), signal.raise_signal(signal.SIGTERM)))
    try:
        with pytest.raises(SystemExit) as ended:
            run(tmp_path)
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    told.join()
    assert ended.value.code == 143
    assert service.stopped == list(service.jobs)
    # A new attempt of the step is another job: a name is used once.
    again = beside(lambda: service.end(service.job(2)))
    assert run(tmp_path).job == f"{service.stopped[0]}-2"
    again.join()


def test_an_unavailable_service_lets_the_platform_retry(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from botocore.exceptions import EndpointConnectionError

    def away(self: Any, **given: Any) -> Any:
        raise EndpointConnectionError(endpoint_url="https://sagemaker")

    told = beside(service.job)
    made = module._Clients.__init__

    def without(self: Any, region: str) -> None:
        made(self, region)
        create = self.sagemaker.create_training_job
        self.sagemaker = type("Away", (), {"create_training_job": staticmethod(create)})()
        self.sagemaker.describe_training_job = lambda **given: away(self) if service.jobs else _no_job()

    def _no_job() -> Any:
        from botocore.exceptions import ClientError

        said = {"Error": {"Code": "ValidationException", "Message": "Could not find training job"}}
        raise ClientError({**said, "ResponseMetadata": {"HTTPStatusCode": 400}}, "DescribeTrainingJob")

    with monkeypatch.context() as patch:
        patch.setattr(module._Clients, "__init__", without)
        with pytest.raises(SystemExit) as ended:
            run(tmp_path)
    told.join()
    assert ended.value.code == 75
    assert "SageMaker does not answer describe_training_job" in capsys.readouterr().err
    again = beside(lambda: service.end(service.job()))
    assert run(tmp_path).job == service.job()
    again.join()


def test_a_job_stopped_by_others_is_reported(service: Service, tmp_path: Path) -> None:
    told = beside(lambda: service.end(service.job(), "Stopped"))
    with pytest.raises(RuntimeError, match="was stopped, and not by this step"):
        run(tmp_path)
    told.join()


REFUSED: dict[str, tuple[Json, str]] = {
    "no JSON": ({"request": "{"}, r"request .*\.json is not JSON"),
    "no object": ({"request": "[]"}, "holds no JSON object"),
    "a reference": (
        {"request": asked(OutputDataConfig={"S3OutputPath": {"Std:Join": {"On": "/", "Values": []}}})},
        "request.OutputDataConfig.S3OutputPath is .*, which only a pipeline fills in",
    ),
    "another channel": ({"validation": "s3://data/v"}, "the request has no such channel. It has train."),
    "a wrong field": ({"request": asked(RoleArn=3)}, "create_training_job: Parameter validation failed"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_unsupported_requests_are_refused(service: Service, tmp_path: Path, what: str) -> None:
    given, message = REFUSED[what]
    with pytest.raises(InputError, match=message):
        run(tmp_path, **given)
    assert service.jobs == {}


def test_an_output_path_replaces_a_reference(service: Service, tmp_path: Path) -> None:
    told = beside(lambda: service.end(service.job()))
    referring = asked(OutputDataConfig={"S3OutputPath": {"Get": "Parameters.where"}})
    found = run(tmp_path, request=referring, output_path="s3://models/mine")
    told.join()
    assert found.model_uri.startswith("s3://models/mine/")


def test_a_missing_region_is_reported(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="no region: give --region, or set AWS_REGION"):
        run(tmp_path)
