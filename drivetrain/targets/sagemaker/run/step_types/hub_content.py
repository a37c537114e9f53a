"""HubContent: an entry of a hub in the account; a stub stands for it."""

from __future__ import annotations

from drivetrain.targets.sagemaker.run.step_types import _absent

check, run = _absent.refused("a hub of the account"), _absent.run
