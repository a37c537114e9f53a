"""A bucket, and what stands between."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[5]))

from drivetrain.training_scripts.checkpointing.object_store.objects import Objects
from drivetrain.training_scripts.checkpointing.object_store.requests import Patience
from tests.faults.harness.s3_proxy import Passing, S3Proxy
from tests.fixtures.s3_server import make_bucket, s3_server, variables

PATIENCE = Patience(attempts=3, stall_seconds=1.0, first_pause=0.001, longest_pause=0.002)


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
