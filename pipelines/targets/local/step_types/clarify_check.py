"""ClarifyCheck: a job in Clarify's own image, which this machine does not have; a stub stands for it."""

from __future__ import annotations

from typing import Any

from drivetrain.pipelines.targets.local import absent
from drivetrain.pipelines.targets.local.context import StepContext

check, run = absent.refused("Clarify's image"), absent.run


def described(context: StepContext) -> dict[str, Any]:
    return absent.check_job(context, ("Constraints", "analysis.json"))
