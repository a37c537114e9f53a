"""A bucket of an S3 server on this machine."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.fixtures.s3_server import environment, make_bucket, s3_server, variables


@contextmanager
def location(folder: Path) -> Generator[str]:
    endpoint = s3_server()
    with environment(variables(endpoint)):
        yield f"s3://{make_bucket(endpoint)}/some/prefix"
