"""The storage: what is there, and one line for what cannot be reached."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from drivetrain.assets.assets import Asset
from drivetrain.aws.s3 import Patience
from drivetrain.base.errors import UserError
from drivetrain.targets.kubeflow.deploy import objects as module
from drivetrain.targets.kubeflow.deploy.objects import Objects
from tests.fixtures.failing_proxy import closed_port
from tests.fixtures.s3_server import environment, make_bucket, s3_server, variables


@pytest.fixture(autouse=True)
def account() -> Generator[None]:
    with environment(variables(s3_server())):
        yield


def test_missing_objects_are_found_by_name_and_size() -> None:
    objects, root = Objects(s3_server()), f"s3://{make_bucket(s3_server())}/p"
    assets = [Asset(f"{root}/a/{name}", "", content) for name, content in (("x", b"1"), ("deep/y", b"22"))]
    assert objects.missing(assets) == tuple(assets)
    objects.put(assets[0])
    objects.write(assets[1].uri, b"half")
    assert objects.missing(assets) == (assets[1],)
    assert objects.read(assets[0].uri) == b"1" and objects.read(f"{root}/none") is None


def test_storage_refusals_and_outages_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"refuses to list s3://no-such-bucket/p/: 404 NoSuchBucket") as refused:
        Objects(s3_server()).listed("s3://no-such-bucket/p/")
    assert "deployment.targets.kubeflow.root" in str(refused.value)
    monkeypatch.setattr(module, "PATIENCE", Patience(seconds=0.0))
    elsewhere = environment({module.ENDPOINT_VARIABLE: f"http://127.0.0.1:{closed_port()}"})
    with elsewhere, pytest.raises(UserError, match=r"cannot be used .*Connection refused") as refused:
        Objects("http://of-the-settings:9000").listed("s3://bucket/p/")
    assert "s3_endpoint" in str(refused.value) and len(str(refused.value).splitlines()) == 1
