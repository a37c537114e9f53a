"""Cleanup: takes away what stands in the account; a stub stands for it."""

from __future__ import annotations

from drivetrain.pipelines.targets.local import absent

check, run = absent.refused("resources of the account"), absent.run
