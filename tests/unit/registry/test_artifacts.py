"""Bringing a model's files to this machine: from folders, and from S3 (moto stands for it)."""

import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.registry import artifacts
from drivetrain.registry.artifacts import fetch
from tests.fixtures.s3_server import make_bucket, s3_server, variables


def refused(uri: str, folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        fetch(uri, folder)
    assert not folder.exists()
    return str(caught.value)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> str:
    endpoint = s3_server()
    for name, value in variables(endpoint).items():
        monkeypatch.setenv(name, value)
    return make_bucket(endpoint)


def put(bucket: str, key: str, content: bytes) -> None:
    import boto3

    boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=content)


def test_what_lies_here_stays_where_it_is(tmp_path: Path) -> None:
    model = tmp_path / "a model"
    model.mkdir()
    new = tmp_path / "new"
    assert fetch(str(model), new) == fetch(model.as_uri(), new) == model
    assert not new.exists()


def test_the_object_store_stands_for_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "s3" / "models" / "digits" / "model.tar.gz"
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"x")
    monkeypatch.setenv(artifacts.OBJECT_STORE, str(tmp_path / "s3"))
    assert fetch("s3://models/digits/model.tar.gz", tmp_path / "new") == archive
    assert fetch("s3://models/digits/", tmp_path / "new") == archive.parent
    message = refused("s3://models/digits/gone.tar.gz", tmp_path / "new")
    assert message.startswith("there is nothing at s3://models/digits/gone.tar.gz, which is ")
    assert "'..'" in refused("s3://models/../../secret", tmp_path / "new")


def test_an_object_and_a_folder_of_s3(tmp_path: Path, bucket: str) -> None:
    put(bucket, "digits/model.tar.gz", b"packed")
    put(bucket, "digits/folder/model.json", b"{}")
    put(bucket, "digits/folder/code/inference.py", b"pass")
    put(bucket, "digits/folder/", b"")  # as the console makes them
    put(bucket, "digits/folder-of-another/model.json", b"no")
    assert fetch(f"s3://{bucket}/digits/model.tar.gz", tmp_path / "one").read_bytes() == b"packed"
    for number, uri in enumerate((f"s3://{bucket}/digits/folder", f"s3://{bucket}/digits/folder/")):
        folder = fetch(uri, tmp_path / f"many-{number}")
        found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        assert found == ["code/inference.py", "model.json"]


def test_the_region_of_a_sagemaker_job(tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There AWS_REGION alone is set, and S3 refuses requests signed for another region."""
    from botocore.awsrequest import AWSPreparedRequest

    put(bucket, "digits/model.tar.gz", b"packed")
    for name in ("AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    signed: list[str] = []
    import boto3

    class Session(boto3.session.Session):
        def client(self, *given: object, **more: object) -> object:  # type: ignore[override]
            made = super().client(*given, **more)  # type: ignore[call-overload]
            made.meta.events.register("before-send.s3", told)
            return made

    def told(request: AWSPreparedRequest, **_: object) -> None:
        signed.append(str(request.headers["Authorization"]))

    monkeypatch.setattr(boto3.session, "Session", Session)
    fetch(f"s3://{bucket}/digits/model.tar.gz", tmp_path / "new")
    assert signed and all("/eu-central-1/s3/" in each for each in signed)


def test_what_is_not_in_s3(tmp_path: Path, bucket: str) -> None:
    assert refused(f"s3://{bucket}/digits/model.tar.gz", tmp_path / "new").startswith(
        f"there is nothing at s3://{bucket}/digits/model.tar.gz."
    )
    assert "its bucket does not exist" in refused("s3://no-such-bucket-here/x/", tmp_path / "new")


@pytest.fixture
def deny(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], None]:
    """Lets an operation of S3 on what ends so answer 403; HeadObject's answer has no body, and so no other code."""
    import boto3

    codes: dict[tuple[str, str], str] = {}

    def denied(params: dict[str, Any], model: Any, **_: object) -> tuple[object, dict[str, Any]] | None:
        place = params["query_string"].get("prefix") or params["url_path"]
        for (operation, ending), code in codes.items():
            if model.name == operation and place.endswith(ending):
                body = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 403}}
                return SimpleNamespace(status_code=403), body
        return None

    class Session(boto3.session.Session):
        def client(self, *given: object, **more: object) -> object:  # type: ignore[override]
            made = super().client(*given, **more)  # type: ignore[call-overload]
            made.meta.events.register("before-call.s3", denied)
            return made

    monkeypatch.setattr(boto3.session, "Session", Session)
    return lambda operation, ending, code: codes.update({(operation, ending): code})


def test_who_may_not_read_is_told_what_to_allow(
    tmp_path: Path, bucket: str, deny: Callable[[str, str, str], None]
) -> None:
    uri = f"s3://{bucket}/digits/model.tar.gz"
    put(bucket, "digits/model.tar.gz", b"packed")
    deny("HeadObject", "/model.tar.gz", "403")
    message = refused(uri, tmp_path / "new")
    assert "s3:GetObject" in message and "(403)" in message
    for code in ("AccessDenied", "ExpiredToken"):  # listing tells more: its answer has a body
        deny("ListObjectsV2", "/model.tar.gz/", code)
        message = refused(uri, tmp_path / "new")
        assert "s3:ListBucket" in message and f"({code})" in message


def test_a_folder_under_a_role_that_may_list_some_prefixes_only(
    tmp_path: Path, bucket: str, deny: Callable[[str, str, str], None]
) -> None:
    """HeadObject of a key that is not there answers such a role 403, not 404."""
    put(bucket, "digits/folder/model.json", b"{}")
    put(bucket, "digits/folder/secret.json", b"{}")
    deny("HeadObject", "/folder", "403")
    folder = fetch(f"s3://{bucket}/digits/folder", tmp_path / "new")
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "secret.json"]
    deny("HeadObject", "/secret.json", "403")
    with pytest.raises(InputError, match=r"S3 refuses to give s3://\S+/digits/folder \(403\)"):
        fetch(f"s3://{bucket}/digits/folder", tmp_path / "other")


def test_no_credentials(tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    assert "give the job a role" in refused(f"s3://{bucket}/digits/model.tar.gz", tmp_path / "new")


def test_an_endpoint_where_nobody_listens(tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:  # bound and not listening: every connection is refused
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.setattr(artifacts, "ATTEMPTS", 1)
        message = refused(f"s3://{bucket}/digits/model.tar.gz", tmp_path / "new")
    assert "could not be read in 1 attempts" in message


def test_without_boto3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "boto3", None)
    assert "pip install 'drivetrain[s3]'" in refused("s3://bucket/key", tmp_path / "new")


@pytest.mark.parametrize(
    ("uri", "part"),
    [
        ("", "names no ModelDataUrl"),
        ("gs://bucket/key", "cannot be fetched"),
        ("file://elsewhere/model", "of the machine 'elsewhere'"),
        ("s3://", "names no bucket"),
        ("/no/such/place", "there is nothing at /no/such/place any more"),
    ],
)
def test_uris_that_are_none(tmp_path: Path, uri: str, part: str) -> None:
    assert part in refused(uri, tmp_path / "new")
