"""For places in S3: a bucket, and what stands between."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[5]))

from drivetrain.aws.s3 import Patience
from drivetrain.training.checkpointing.places._s3_objects import Objects
from tests.faults.harness.s3_proxy import Passing, S3Proxy
from tests.fixtures.s3_server import make_bucket, s3_server, variables

PATIENCE = Patience(seconds=30.0, stall_seconds=1.0)


class Faults:
    """Breaks the requests that come next, each in its way; lets pass what comes after them."""

    def __init__(self) -> None:
        self.ahead: list[str] = []
        self.always = ""
        self.methods = ("GET", "HEAD", "PUT", "POST", "DELETE")
        self.holding = ""
        """Only requests whose target holds this."""

    def __call__(self, passing: Passing) -> str:
        if passing.method not in self.methods or self.holding not in passing.target:
            return ""
        return self.ahead.pop(0) if self.ahead else self.always


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def proxy(faults: Faults) -> Iterator[S3Proxy]:
    with S3Proxy(s3_server(), faults) as proxy:
        yield proxy


@pytest.fixture
def objects(proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch) -> Objects:
    for name, value in variables(proxy.endpoint).items():
        monkeypatch.setenv(name, value)
    return Objects(make_bucket(s3_server()), patience=PATIENCE, part=1 << 16)
