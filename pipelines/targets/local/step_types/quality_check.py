"""QualityCheck: a job in Model Monitor's own image, which this machine does not have; a stub stands for it."""

from __future__ import annotations

from typing import Any

from drivetrain.pipelines.targets.local import absent
from drivetrain.pipelines.targets.local.context import StepContext

check, run = absent.refused("Model Monitor's image"), absent.run


def described(context: StepContext) -> dict[str, Any]:
    return absent.check_job(context, ("Statistics", "statistics.json"), ("Constraints", "constraints.json"))
