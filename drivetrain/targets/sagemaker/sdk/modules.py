"""The SDK's modules, imported when they are asked for: a session of its own, and URIs of images that images.json does
not know, from the SDK's own data. Nothing is asked over the network."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast

from drivetrain.base.errors import UserError, did_you_mean

_REGION = "AWS_DEFAULT_REGION"
# The line that follows a framework's own one: newer versions, other tags, the same accounts.
_NEWER = "-amzn2023"
_TABLES = ("versions", "version_aliases")


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


def sdk_image_uri(
    framework: str,
    version: str,
    region: str,
    instance_type: str,
    *,
    scope: Literal["training", "inference"] = "training",
) -> str:
    """The URI that the SDK knows of a framework's version for an instance type.

    Args:
        framework: a name of the SDK's: pytorch, tensorflow, xgboost, sklearn, huggingface-llm, ...
        scope: what the image is for.

    Raises:
        UserError: the SDK is not installed, or knows no such image; the message says what it knows.
    """
    load(region)
    images: Any = importlib.import_module("sagemaker.core.image_uris")
    known = _frameworks(images)
    if framework not in known:
        raise UserError(f"The SageMaker SDK knows no image of {framework!r}. {did_you_mean(framework, known)}")
    newer = f"{framework}{_NEWER}"
    line = newer if newer in known and version in _versions(images.config_for_framework(newer)) else framework
    try:
        return images.retrieve(line, region, version=version, instance_type=instance_type, image_scope=scope)
    except (ValueError, KeyError) as error:
        raise UserError(f"The SageMaker SDK knows no image of {framework} {version} in {region}: {error}") from None


def registry(region: str) -> str:
    """The host of the registry that holds a region's deep-learning images.

    Raises:
        UserError: the SDK is not installed, or does not know the region.
    """
    return sdk_image_uri("pytorch", "2.10", region, "ml.m5.large").partition("/")[0]


def _frameworks(images: Any) -> set[str]:
    folder = Path(images.__file__).parent / "image_uri_config"
    return {path.stem for path in folder.glob("*.json")}


def _versions(config: dict[str, Any]) -> set[str]:
    """All versions and their short names, of whatever the images are for."""
    scopes = cast("list[dict[str, Any]]", [config] if "versions" in config else list(config.values()))
    return {name for scope in scopes for table in _TABLES for name in scope.get(table, ())}
