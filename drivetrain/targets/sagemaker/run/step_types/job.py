"""Job: a job that only SageMaker runs; a stub stands for it."""

from __future__ import annotations

from drivetrain.targets.sagemaker.run.step_types import _absent

check, run = _absent.refused("SageMaker"), _absent.run
