"""What the settings give a step's pod by name alone: entries of Secrets as variables, claims as folders."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from drivetrain.targets.kubeflow.settings import Settings

Json = dict[str, Any]
CHECKPOINTS = "/drivetrain/checkpoints"


def mounts_of(settings: Settings, step: str) -> Json:
    """A pod's part of the Kubernetes platform spec: that of all steps, and that of its own, which goes before."""
    found: Json = {}
    if secrets := secrets_of(settings, step):
        found["secretAsEnv"] = secret_variables(secrets)
    if volumes := volumes_of(settings, step):
        found["pvcMount"] = [claim_mount(volumes[folder], folder) for folder in sorted(volumes)]
    return found


def secrets_of(settings: Settings, step: str) -> dict[str, str]:
    """Variable -> `SECRET/KEY` of a step's pods."""
    own = settings.steps.get(step)
    return {**settings.pods.secrets, **(own.secrets if own else {})}


def volumes_of(settings: Settings, step: str) -> dict[str, str]:
    """Folder -> claim of a step's pods."""
    own = settings.steps.get(step)
    return {**settings.pods.volumes, **(own.volumes if own else {})}


def secret_variables(secrets: Mapping[str, str]) -> list[Json]:
    """One entry a Secret.

    Args:
        secrets: variable -> `SECRET/KEY`.
    """
    parts = sorted((*each.split("/", 1), variable) for variable, each in secrets.items())
    return [
        {
            "keyToEnv": [{"envVar": variable, "secretKey": key} for _, key, variable in entries],
            "optional": False,
            **secret_named(secret),
        }
        for secret, entries in groupby(parts, key=lambda part: part[0])
    ]


def secret_named(secret: str) -> Json:
    """A Secret as older and newer platforms read its name."""
    return {"secretName": secret, "secretNameParameter": constant(secret)}


def claim_mount(claim: str, folder: str) -> Json:
    """A claim, mounted at a folder."""
    return {"constant": claim, "mountPath": folder, "pvcNameParameter": constant(claim)}


def constant(value: str) -> Json:
    return {"runtimeValue": {"constant": value}}
