"""The SDK's modules, imported when they are asked for, and a session of its own."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from drivetrain.base.errors import UserError

_REGION = "AWS_DEFAULT_REGION"


def installed() -> bool:
    """Return True if version 3 of the SDK can be imported."""
    return importlib.util.find_spec("sagemaker") is not None and importlib.util.find_spec("sagemaker.mlops") is not None


def load(region: str) -> None:
    """Import what pipelines need of the SDK.

    Raises:
        UserError: it is not installed, or an older version is.
    """
    if not installed():
        raise UserError(
            "Version 3 of the SageMaker Python SDK is not installed here. Install it (1 GB): "
            "pip install 'drivetrain[sagemaker]'"
        )
    # The SDK makes clients while it is imported, which fails where no region is configured.
    with _region(region):
        importlib.import_module("sagemaker.mlops.workflow.pipeline")


def new_session(region: str, bucket: str | None = None, prefix: str | None = None) -> Any:
    """A PipelineSession in a region: it reads the user's own configuration of the SDK, and sends no telemetry unless
    that asks for it.

    Args:
        bucket: the default bucket, which takes definitions that are too long for a request.
        prefix: of keys in it.
    """
    boto3: Any = importlib.import_module("boto3")
    context: Any = importlib.import_module("sagemaker.core.workflow.pipeline_context")
    session = context.PipelineSession(
        boto_session=boto3.Session(region_name=region), default_bucket=bucket, default_bucket_prefix=prefix
    )
    place = session.sagemaker_config
    place.setdefault("SchemaVersion", "1.0")
    for name in ("SageMaker", "PythonSDK", "Modules"):
        place = place.setdefault(name, {})
    place.setdefault("TelemetryOptOut", True)
    return session


@contextmanager
def _region(region: str) -> Generator[None]:
    boto3: Any = importlib.import_module("boto3")
    if boto3.Session().region_name is not None:
        yield
        return
    before = os.environ.get(_REGION)
    os.environ[_REGION] = region
    try:
        yield
    finally:
        if before is None:
            del os.environ[_REGION]
        else:
            os.environ[_REGION] = before
