"""ClarifyCheck: a job in Clarify's own image, which this machine does not have; a stub stands for it."""

from __future__ import annotations

from typing import Any

from drivetrain.targets.sagemaker.run.execution.context import StepContext
from drivetrain.targets.sagemaker.run.step_types import _absent

check, run = _absent.refused("Clarify's image"), _absent.run


def described(context: StepContext) -> dict[str, Any]:
    return _absent.check_job(context, ("Constraints", "analysis.json"))
