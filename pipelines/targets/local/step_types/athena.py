"""Athena: a query in the account; a stub stands for it."""

from __future__ import annotations

from drivetrain.pipelines.targets.local import absent

check, run = absent.refused("Amazon Athena"), absent.run
