"""The means over the validation data, while a training goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drivetrain.training.evaluation.run import evaluate
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.loop.watch import PREFIX
from drivetrain.training.metric import Amount
from drivetrain.training.strategy import Strategy

VALIDATION_BATCH = 512


class BrokenOffError(Exception):
    """A validation ends before its end, on all ranks after the same batch."""


def validate(
    strategy: Strategy,
    validation: Dataset,
    *,
    values: dict[str, Amount],
    num_rows: int | None = None,
    breaks_off: Callable[[], bool] = lambda: False,
) -> dict[str, float]:
    """The means over the validation data (its first `num_rows`), on all ranks together, as `validation_<metric>`; none
    where `breaks_off`, which is asked before each batch, says so on all ranks.

    Args:
        values: what the recipe's own metrics are, which the first validation finds out for those that follow.
    """

    def forward(inputs: Any) -> Any:
        if breaks_off():
            raise BrokenOffError
        return strategy.forward(inputs)

    strategy.set_training(False)
    try:
        with strategy.in_evaluation():
            result = evaluate(
                forward,
                validation,
                strategy.layout,
                framework=strategy.framework,
                batch_size=VALIDATION_BATCH,
                precision=strategy.precision.parameters,
                num_rows=num_rows,
                values=values or None,
            )
    except BrokenOffError:
        return {}
    finally:
        strategy.set_training(True)
    values.update(result.values)
    return {f"{PREFIX}{name}": value for name, value in result.means.items()}
