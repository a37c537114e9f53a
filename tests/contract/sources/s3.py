"""Parquet files in a bucket of moto's server."""

from __future__ import annotations

import io
from pathlib import Path
from typing import ClassVar

import boto3
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tests.fixtures.s3_server import make_bucket, s3_server, variables


class Place:
    options: ClassVar[dict[str, str]] = {}

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        endpoint = s3_server()
        for name, value in variables(endpoint).items():
            monkeypatch.setenv(name, value)
        self.bucket = make_bucket(endpoint)
        self.address = f"s3://{self.bucket}/orders"
        self.missing = f"s3://{self.bucket}/nothing"
        self._client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )
        self._count = 0

    def append(self, rows: pa.Table) -> None:
        self._put(self._count, rows)
        self._count += 1

    def rewrite(self, rows: pa.Table) -> None:
        for number in range(1, self._count):
            self._client.delete_object(Bucket=self.bucket, Key=f"orders/{number:03d}.parquet")
        self._count = 1
        self._put(0, rows)

    def _put(self, number: int, rows: pa.Table) -> None:
        file = io.BytesIO()
        parquet.write_table(rows, file)
        self._client.put_object(Bucket=self.bucket, Key=f"orders/{number:03d}.parquet", Body=file.getvalue())
