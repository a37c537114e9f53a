"""Bringing a model's files to this machine: from folders, and from S3 (moto stands for it)."""

import socket
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drivetrain.aws import s3
from drivetrain.base.errors import InputError
from drivetrain.base.stopping import AwayError
from drivetrain.registry import artifacts
from drivetrain.registry.artifacts import fetch
from drivetrain.registry.evidence import change_evidence
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


def _register(monkeypatch: pytest.MonkeyPatch, event: str, handler: Callable[..., object]) -> None:
    """Handle an event of each client that is made from now on."""
    from botocore.session import Session

    create = Session.create_client

    def made(self: Session, *given: Any, **more: Any) -> Any:
        client = create(self, *given, **more)
        client.meta.events.register(event, handler)
        return client

    monkeypatch.setattr(Session, "create_client", made)


def put(bucket: str, key: str, content: bytes) -> None:
    import boto3

    boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=content)


def test_local_files_are_not_copied(tmp_path: Path) -> None:
    model = tmp_path / "a model"
    model.mkdir()
    new = tmp_path / "new"
    assert fetch(str(model), new) == fetch(model.as_uri(), new) == model
    assert not new.exists()


def test_the_local_object_store_replaces_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_keys_with_two_slashes_belong_to_the_folder(tmp_path: Path, bucket: str) -> None:
    """Prefixes that end with a slash, joined by another one, write such keys."""
    put(bucket, "digits/model/a.txt", b"a")
    put(bucket, "digits/model//b.txt", b"b")
    put(bucket, "digits/model//", b"")  # a console's mark of such a folder
    folder = fetch(f"s3://{bucket}/digits/model", tmp_path / "new")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"a.txt": b"a", "b.txt": b"b"}


@pytest.mark.parametrize("name", ["../b.txt", "/../b.txt", "x/../../b.txt"])
def test_a_key_that_leaves_the_folder_is_refused(name: str, tmp_path: Path, bucket: str) -> None:
    put(bucket, f"digits/model/{name}", b"b")
    assert "leads out of its folder" in refused(f"s3://{bucket}/digits/model", tmp_path / "new")


def test_the_region_of_a_sagemaker_job(tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There AWS_REGION alone is set, and S3 refuses requests signed for another region."""
    from botocore.awsrequest import AWSPreparedRequest

    put(bucket, "digits/model.tar.gz", b"packed")
    for name in ("AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    signed: list[str] = []

    def told(request: AWSPreparedRequest, **_: object) -> None:
        signed.append(str(request.headers["Authorization"]))

    _register(monkeypatch, "before-send.s3", told)
    fetch(f"s3://{bucket}/digits/model.tar.gz", tmp_path / "new")
    assert signed and all("/eu-central-1/s3/" in each for each in signed)


def test_missing_objects_are_reported(tmp_path: Path, bucket: str) -> None:
    assert refused(f"s3://{bucket}/digits/model.tar.gz", tmp_path / "new").startswith(
        f"there is nothing at s3://{bucket}/digits/model.tar.gz."
    )
    assert "its bucket does not exist" in refused("s3://no-such-bucket-here/x/", tmp_path / "new")


@pytest.fixture
def deny(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], None]:
    """Lets an operation of S3 on what ends so answer 403; HeadObject's answer has no body, and so no other code."""
    codes: dict[tuple[str, str], str] = {}

    def denied(params: dict[str, Any], model: Any, **_: object) -> tuple[object, dict[str, Any]] | None:
        place = params["query_string"].get("prefix") or params["url_path"]
        for (operation, ending), code in codes.items():
            if model.name == operation and place.endswith(ending):
                body = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 403}}
                return SimpleNamespace(status_code=403), body
        return None

    _register(monkeypatch, "before-call.s3", denied)
    return lambda operation, ending, code: codes.update({(operation, ending): code})


def test_a_denied_read_names_the_missing_permission(
    tmp_path: Path, bucket: str, deny: Callable[[str, str, str], None]
) -> None:
    uri = f"s3://{bucket}/digits/model.tar.gz"
    put(bucket, "digits/model.tar.gz", b"packed")
    deny("HeadObject", "/model.tar.gz", "403")
    message = refused(uri, tmp_path / "new")
    assert "s3:GetObject" in message and "403" in message
    for code in ("AccessDenied", "ExpiredToken"):  # listing tells more: its answer has a body
        deny("ListObjectsV2", "/model.tar.gz/", code)
        message = refused(uri, tmp_path / "new")
        assert "s3:ListBucket" in message and f"403 {code}" in message


def test_a_folder_under_a_role_that_may_list_some_prefixes_only(
    tmp_path: Path, bucket: str, deny: Callable[[str, str, str], None]
) -> None:
    """HeadObject of a key that is not there answers such a role 403, not 404."""
    put(bucket, "digits/folder/model.json", b"{}")
    put(bucket, "digits/folder/secret.json", b"{}")
    deny("HeadObject", "/folder", "403")
    folder = fetch(f"s3://{bucket}/digits/folder", tmp_path / "new")
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "secret.json"]
    deny("GetObject", "/secret.json", "AccessDenied")
    with pytest.raises(
        InputError, match=r"S3 refuses to give s3://\S+/digits/folder: S3 does not read \S+secret\.json: 403"
    ):
        fetch(f"s3://{bucket}/digits/folder", tmp_path / "other")


def test_no_credentials(tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    assert "Give it a role" in refused(f"s3://{bucket}/digits/model.tar.gz", tmp_path / "new")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3.Patience, "__init__", partialmethod(s3.Patience.__init__, seconds=0.2))


@pytest.mark.usefixtures("short")
def test_an_unreachable_endpoint_is_one_error(tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's input is wrong: a component ends with code 75."""
    with socket.socket() as taken:  # bound and not listening: every connection is refused
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(AwayError, match=r"S3 did not read s3://\S+/model\.tar\.gz: given up after"):
            fetch(f"s3://{bucket}/digits/model.tar.gz", tmp_path / "new")
        with pytest.raises(AwayError, match="S3 did not read"):
            change_evidence(f"s3://{bucket}/evidence/digits.npz", lambda kept: kept + b"more")


def test_an_outage_during_the_download_is_waited_for(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from botocore.exceptions import EndpointConnectionError

    put(bucket, "digits/folder/model.json", b"{}")
    put(bucket, "digits/folder/weights", b"w" * 100)
    failures = 0

    def lost(model: Any, **_: object) -> None:
        nonlocal failures
        failures += 1
        if failures % 3:  # each request succeeds at its third attempt
            raise EndpointConnectionError(endpoint_url="http://away")

    _register(monkeypatch, "before-call.s3", lost)
    folder = fetch(f"s3://{bucket}/digits/folder/", tmp_path / "new")
    assert (folder / "model.json").read_bytes() == b"{}" and (folder / "weights").read_bytes() == b"w" * 100
    assert failures >= 9


def test_without_boto3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "botocore.session", None)
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
def test_invalid_uris_are_refused(tmp_path: Path, uri: str, part: str) -> None:
    assert part in refused(uri, tmp_path / "new")
