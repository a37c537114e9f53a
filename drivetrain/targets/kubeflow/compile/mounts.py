"""Additions of the settings to a step's pod: variables, entries of Secrets as such, claims as folders, labels."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from drivetrain.targets.kubeflow.settings import Pod, Settings

Json = dict[str, Any]
CHECKPOINTS = "/drivetrain/checkpoints"


def variables_of(settings: Settings) -> dict[str, str]:
    """Variables of every container. Pipelines' launcher, which brings and takes objects, reads them there, too."""
    endpoint = {} if settings.s3_endpoint is None else {"AWS_ENDPOINT_URL_S3": settings.s3_endpoint}
    return {**endpoint, **region_variables(settings)}


def region_variables(settings: Settings) -> dict[str, str]:
    """The variables with the region of the object store: some clients read the one, some the other."""
    region = settings.storage_region
    return {} if region is None else {"AWS_DEFAULT_REGION": region, "AWS_REGION": region}


def store_keys(settings: Settings) -> dict[str, str]:
    """Variable -> `SECRET/KEY` with the object store's keys; empty without a Secret that holds them."""
    names = () if settings.s3_secret is None else ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    return {name: f"{settings.s3_secret}/{name}" for name in names}


def mounts_of(settings: Settings, step: str) -> Json:
    """A pod's part of the Kubernetes platform spec: that of all steps, and that of its own, which goes before."""
    metadata = metadata_of(settings, step)
    found: Json = {"podMetadata": metadata} if metadata else {}
    if secrets := secrets_of(settings, step):
        found["secretAsEnv"] = secret_variables(secrets)
    if volumes := volumes_of(settings, step):
        found["pvcMount"] = [claim_mount(volumes[folder], folder) for folder in sorted(volumes)]
    return found


def metadata_of(settings: Settings, step: str) -> Json:
    """Labels and annotations of a step's pods; empty where none is given."""
    own = settings.steps.get(step, Pod())
    found = {name: {**getattr(settings.pods, name), **getattr(own, name)} for name in ("annotations", "labels")}
    return {name: dict(sorted(given.items())) for name, given in found.items() if given}


def secrets_of(settings: Settings, step: str) -> dict[str, str]:
    """Variable -> `SECRET/KEY` of a step's pods."""
    return {**settings.pods.secrets, **settings.steps.get(step, Pod()).secrets}


def volumes_of(settings: Settings, step: str) -> dict[str, str]:
    """Folder -> claim of a step's pods."""
    return {**settings.pods.volumes, **settings.steps.get(step, Pod()).volumes}


def secret_variables(secrets: Mapping[str, str]) -> list[Json]:
    """One entry a Secret. `optional` is left out: Pipelines before 2.15 do not know it, and false is its default.

    Args:
        secrets: variable -> `SECRET/KEY`.
    """
    parts = sorted((*each.split("/", 1), variable) for variable, each in secrets.items())
    return [
        {
            "keyToEnv": [{"envVar": variable, "secretKey": key} for _, key, variable in entries],
            **secret_named(secret),
        }
        for secret, entries in groupby(parts, key=lambda part: part[0])
    ]


def secret_environment(secrets: Mapping[str, str]) -> list[Json]:
    """Variables of a container in Kubernetes' own form, with entries of Secrets as values.

    Args:
        secrets: variable -> `SECRET/KEY`.
    """
    entries = [(name, *each.split("/", 1)) for name, each in sorted(secrets.items())]
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}} for name, secret, key in entries
    ]


def secret_named(secret: str) -> Json:
    """A Secret as older and newer platforms read its name."""
    return {"secretName": secret, "secretNameParameter": constant(secret)}


def claim_mount(claim: str, folder: str) -> Json:
    """A claim, mounted at a folder."""
    return {"constant": claim, "mountPath": folder, "pvcNameParameter": constant(claim)}


def constant(value: str) -> Json:
    return {"runtimeValue": {"constant": value}}
