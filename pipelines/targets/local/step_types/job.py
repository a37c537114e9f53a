"""Job: a job that only SageMaker runs; a stub stands for it."""

from __future__ import annotations

from drivetrain.pipelines.targets.local import absent

check, run = absent.refused("SageMaker"), absent.run
