"""Each hyperparameter drawn by itself, evenly over its scale."""

from __future__ import annotations

import random

from drivetrain.targets.sagemaker.run.tuning.strategies import Search


def suggest(search: Search) -> dict[str, str]:
    drawn = random.Random(search.own_seed)
    return {one.name: one.at(drawn.random()) for one in search.definition.ranges}
