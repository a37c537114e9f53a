"""How samples are drawn, and what goes together: asked of a training's fields before any data is read."""

from __future__ import annotations

from drivetrain.base.errors import InputError
from drivetrain.training.errors import unknown_name

SAMPLINGS = ("uniform", "balanced", "weighted")


def check_sampling(sampling: str, weight_column: str, shuffle_window: int) -> None:
    """
    Raises:
        InputError: no such sampling (with the closest match), or fields that do not go together.
    """
    if sampling not in SAMPLINGS:
        raise unknown_name("sampling", sampling, SAMPLINGS)
    if (sampling == "weighted") != bool(weight_column):
        raise InputError(
            f"sampling={sampling!r} with weight_column={weight_column!r}; sampling 'weighted' needs a weight_column, "
            "and no other sampling takes one."
        )
    if shuffle_window and sampling != "uniform":
        raise InputError(
            f"shuffle_window={shuffle_window} is for sampling 'uniform', not {sampling!r}: rows that come through a "
            "window cannot be drawn from all of them. Leave one of the two out."
        )
