"""Athena: a query in the account; a stub stands for it."""

from __future__ import annotations

from drivetrain.targets.sagemaker.run.step_types import _absent

check, run = _absent.refused("Amazon Athena"), _absent.run
