"""QualityCheck: a job in Model Monitor's own image, which this machine does not have; a stub stands for it."""

from __future__ import annotations

from typing import Any

from drivetrain.targets.sagemaker.run.execution.context import StepContext
from drivetrain.targets.sagemaker.run.step_types import _absent

check, run = _absent.refused("Model Monitor's image"), _absent.run


def described(context: StepContext) -> dict[str, Any]:
    return _absent.check_job(context, ("Statistics", "statistics.json"), ("Constraints", "constraints.json"))
