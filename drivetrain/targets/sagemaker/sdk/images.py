"""URIs of images that images.json does not know, from the SDK's own data; nothing is asked over the network."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Literal, cast

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.targets.sagemaker.sdk.modules import load

# The line that follows a framework's own one: newer versions, other tags, the same accounts.
_NEWER = "-amzn2023"
_TABLES = ("versions", "version_aliases")


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
