"""Each combination of the categories once, the last hyperparameter changing fastest."""

from __future__ import annotations

from drivetrain.targets.sagemaker.run.tuning.space import Categorical
from drivetrain.targets.sagemaker.run.tuning.strategies import Search


def suggest(search: Search) -> dict[str, str]:
    found: dict[str, str] = {}
    rest = search.number
    for one in reversed(search.definition.ranges):
        assert isinstance(one, Categorical), "refused when the configuration was read"
        rest, place = divmod(rest, len(one.values))
        found[one.name] = one.values[place]
    return {one.name: found[one.name] for one in search.definition.ranges}
