import hashlib
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import EndpointConnectionError

from drivetrain.base.errors import InputError
from drivetrain.registry.backends.sagemaker import SageMakerRegistry
from drivetrain.registry.package_mapping import record_of, request_of
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import RegistryError, open_registry
from tests.fixtures.failing_proxy import failing_proxy
from tests.fixtures.s3_server import environment
from tests.fixtures.sagemaker_server import new_region, sagemaker_server, sagemaker_variables

CONTENT = hashlib.sha256(b"model").hexdigest()


@pytest.fixture(autouse=True)
def server() -> Iterator[str]:
    endpoint = sagemaker_server()
    with environment(sagemaker_variables(endpoint)):
        yield endpoint


@pytest.fixture
def region() -> str:
    return new_region()


def made_by_a_pipeline(client: Any, group: str, content: str, **more: Any) -> None:
    """As a RegisterModel step makes it: no description, no token."""
    properties = {"drivetrain-content-hash": content}
    client.create_model_package(ModelPackageGroupName=group, CustomerMetadataProperties=properties, **more)


def test_the_caller_is_read_from_sts(region: str, server: str, capsys: pytest.CaptureFixture[str]) -> None:
    with environment({"AWS_ENDPOINT_URL_STS": server}):
        assert str(SageMakerRegistry(region).caller).endswith("user/moto")
    registry = SageMakerRegistry(region)

    class Session:
        """Of a network without a way to STS."""

        def create_client(self, service: str, **given: Any) -> Any:
            if service == "sts":
                raise EndpointConnectionError(endpoint_url="https://sts.amazonaws.com")
            return boto3.client("sagemaker", region_name=region)

    vars(registry)["_session"] = Session()
    assert registry.caller is None
    assert "warning: who approves is not verified" in capsys.readouterr().err


def test_credentials_are_asked_for_once(
    region: str, server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A profile with a second factor would ask for it again."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    asked, program = tmp_path / "asked", tmp_path / "credentials.sh"
    keys = '{"Version": 1, "AccessKeyId": "testing", "SecretAccessKey": "testing"}'
    program.write_text(f"echo once >> {asked}\necho '{keys}'\n")
    (tmp_path / "config").write_text(f"[default]\ncredential_process = sh {program}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server)
    registry = SageMakerRegistry(region)
    assert registry.groups() == [] and registry.caller
    assert asked.read_text() == "once\n"


def test_a_version_made_by_a_pipeline_step_is_found_by_its_property(region: str) -> None:
    client: Any = boto3.client("sagemaker", region_name=region)
    client.create_model_package_group(ModelPackageGroupName="digits")
    made_by_a_pipeline(client, "digits", CONTENT, ModelPackageDescription="by a step")
    registry = SageMakerRegistry(region)
    assert registry.register("digits", CONTENT, ModelRecord()) == (1, False)
    found = registry.find("digits", CONTENT)
    assert (
        found is not None and request_of(found.record)["ModelPackageDescription"] == "by a step" and found.metrics == {}
    )


def test_a_group_costs_a_request_for_a_hundred_versions_of_ours(region: str, server: str) -> None:
    registry = SageMakerRegistry(region)
    for n in range(12):  # more than the 10 of a page where nothing else is asked for
        registry.register("digits", hashlib.sha256(bytes([n])).hexdigest(), ModelRecord())
    requests: list[str] = []
    with (
        failing_proxy(server, lambda method, path: requests.append(method) or "") as endpoint,
        environment({"AWS_ENDPOINT_URL_SAGEMAKER": endpoint}),
    ):
        assert SageMakerRegistry(region).find("digits", CONTENT) is None
    assert len(requests) == 1


def test_failed_versions_are_ignored(region: str) -> None:
    from moto.backends import get_backend

    registry = SageMakerRegistry(region)
    registry.register("digits", CONTENT, ModelRecord(), approval="Approved")
    backend: Any = get_backend("sagemaker")["123456789012"][region]
    next(iter(backend.model_packages.values())).model_package_status = "Failed"
    assert registry.champion("digits") is None and registry.find("digits", CONTENT) is None


@pytest.mark.slow
def test_eight_writers_without_delete_rights_all_get_the_lowest_version() -> None:
    region, together = new_region(forgets_tokens=True), Barrier(8)

    def deny(**request: Any) -> AWSResponse:
        said = (
            b'{"__type": "AccessDeniedException", "Message": "not authorized to perform: sagemaker:DeleteModelPackage"}'
        )
        answer = AWSResponse("", 400, {}, None)
        answer._content = said
        return answer

    def wait(**request: Any) -> None:
        together.wait(30)

    def register(_: int) -> tuple[int, bool]:
        registry = SageMakerRegistry(region)
        registry._client.meta.events.register("before-send.sagemaker.DeleteModelPackage", deny)
        # All have looked before one makes a version.
        registry._client.meta.events.register("before-call.sagemaker.CreateModelPackage", wait)
        return registry.register("digits", CONTENT, ModelRecord())

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(register, range(8)))
    assert sorted(answers) == [*[(1, False)] * 7, (1, True)]
    assert register(0) == (1, False)
    found = SageMakerRegistry(region).find("digits", CONTENT)
    assert found is not None and found.version == 1


def test_without_client_tokens_two_writers_agree_on_one_version() -> None:
    region = new_region(forgets_tokens=True)
    for n in range(2):
        content = hashlib.sha256(bytes([n])).hexdigest()
        registries = [SageMakerRegistry(region) for _ in range(3)]
        with ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(lambda each, c=content: each.register("digits", c, ModelRecord())[0], registries))
        assert len(set(answers)) == 1
    assert len(SageMakerRegistry(region).versions("digits")) == 2


@pytest.mark.parametrize("before", [2, 3, 4])
def test_a_version_removed_meanwhile_is_absent(before: int, server: str) -> None:
    """Listed, but gone when it is looked at: for its hash (the second request), or to tell who made it."""
    region = new_region(forgets_tokens=True)
    client: Any = boto3.client("sagemaker", region_name=region)
    registry = SageMakerRegistry(region)
    registry.register("digits", CONTENT, ModelRecord())
    made_by_a_pipeline(client, "digits", CONTENT)
    listed = client.list_model_packages(ModelPackageGroupName="digits")["ModelPackageSummaryList"]
    (second,) = (each["ModelPackageArn"] for each in listed if each["ModelPackageVersion"] == 2)
    requests: list[str] = []

    def take_back(method: str, path: str) -> str:
        requests.append(path)
        if len(requests) == before:
            client.delete_model_package(ModelPackageName=second)
        return ""

    with failing_proxy(server, take_back) as endpoint, environment({"AWS_ENDPOINT_URL_SAGEMAKER": endpoint}):
        assert SageMakerRegistry(region).register("digits", CONTENT, ModelRecord()) == (1, False)
    assert len(requests) >= before


def test_listing_leaves_out_versions_removed_meanwhile(server: str) -> None:
    region = new_region(forgets_tokens=True)
    client: Any = boto3.client("sagemaker", region_name=region)
    registry = SageMakerRegistry(region)
    hashes = (hashlib.sha256(bytes([n])).hexdigest() for n in range(2))
    made = [registry.register("digits", each, ModelRecord())[0] for each in hashes]
    arns = [registry.version("digits", version).arn for version in made]
    requests: list[str] = []

    def delete(method: str, path: str) -> str:
        requests.append(path)
        if len(requests) == 2:
            client.delete_model_package(ModelPackageName=arns[1])
        return ""

    with failing_proxy(server, delete) as endpoint, environment({"AWS_ENDPOINT_URL_SAGEMAKER": endpoint}):
        assert [version.version for version in SageMakerRegistry(region).versions("digits")] == [1]
    assert len(requests) == 3


def test_a_duplicate_left_by_a_kill_is_removed_but_no_foreign_one() -> None:
    region = new_region(forgets_tokens=True)
    client: Any = boto3.client("sagemaker", region_name=region)
    registry = SageMakerRegistry(region)
    registry.register("digits", CONTENT, ModelRecord())
    made_by_a_pipeline(client, "digits", CONTENT)
    made_by_a_pipeline(client, "digits", CONTENT)
    properties = {"drivetrain-content-hash": CONTENT, "drivetrain-registered-by": "register_model"}
    client.create_model_package(ModelPackageGroupName="digits", CustomerMetadataProperties=properties)
    assert registry.register("digits", CONTENT, ModelRecord()) == (1, False)
    assert [version.version for version in registry.versions("digits")] == [3, 2, 1]


def refused(call: Any) -> str:
    with pytest.raises(RegistryError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_no_region(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    assert "no region. Write sagemaker:REGION" in refused(lambda: open_registry("sagemaker").champion("digits"))


def test_the_region_of_a_sagemaker_job(region: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """There AWS_REGION alone is set."""
    SageMakerRegistry(region).register("digits", CONTENT, ModelRecord(), approval="Approved")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_REGION", region)
    champion = open_registry("sagemaker").champion("digits")
    assert champion is not None and f":{region}:" in champion.arn


def test_no_credentials(region: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_") and name not in ("AWS_ENDPOINT_URL_SAGEMAKER", "AWS_EC2_METADATA_DISABLED"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    said = refused(lambda: SageMakerRegistry(region).register("digits", CONTENT, ModelRecord()))
    assert "redentials" in said and "Set AWS_PROFILE" in said


def test_no_token_is_shown_in_errors(region: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "s3cret\nmore")
    with pytest.raises(RegistryError, match="header value, that of a token or key") as caught:
        SageMakerRegistry(region).champion("digits")
    assert "s3cret" not in str(caught.value)


def test_without_boto3(region: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    assert "pip install 'drivetrain[s3]'" in refused(lambda: SageMakerRegistry(region).groups())


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ({"NoSuchWord": 1}, 'Unknown parameter in input: "NoSuchWord"'),
        (
            {"InferenceSpecification": {"Containers": "x"}},
            "Invalid type for parameter InferenceSpecification.Containers",
        ),
        ({"CustomerMetadataProperties": {"why": "100 %"}}, "is not valid"),
    ],
)
def test_a_package_refused_by_the_service_is_an_error(region: str, package: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        SageMakerRegistry(region).register("digits", CONTENT, record_of(package))
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert SageMakerRegistry(region).groups() == []


def test_a_long_description_leaves_room_for_the_hash(region: str) -> None:
    registry = SageMakerRegistry(region)
    registry.register("digits", CONTENT, record_of({"ModelPackageDescription": "x" * 1024}))
    found = registry.find("digits", CONTENT)
    assert found is not None and set(request_of(found.record)["ModelPackageDescription"]) == {"x"}
