"""Settings of a calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from drivetrain.base.bounds import Bounds
from drivetrain.steps.programs import check


@dataclass(frozen=True, kw_only=True)
class CalibrationConfig:
    """The parameters of the component and the options of the command line.

    Attributes:
        coverage: of a regression: the share of new rows whose interval is to hold what is right.
        false_positive_cost: of two classes: what it costs to take a row of class 0 for one of class 1. With it or
            false_negative_cost the model's threshold becomes the cheapest one; 0 for 1 where only the other is given.
        false_negative_cost: what it costs to take a row of class 1 for one of class 0.
        confidence: of the interval of that cost.
        batch_size: rows a forward pass.
        threads: threads to compute with on the CPU, whatever OMP_NUM_THREADS.

    Raises:
        InputError: a value that cannot be.
    """

    coverage: Annotated[float, Bounds(above=0, below=1)] = 0.9
    false_positive_cost: Annotated[float, Bounds(0, 1e9)] = 0.0
    false_negative_cost: Annotated[float, Bounds(0, 1e9)] = 0.0
    confidence: Annotated[float, Bounds(above=0, below=1)] = 0.95
    batch_size: Annotated[int, Bounds(1)] = 256
    threads: Annotated[int, Bounds(1)] = 1

    def __post_init__(self) -> None:
        check(self)

    @property
    def costs(self) -> tuple[float, float] | None:
        """The costs of a false positive and of a false negative; None where none is given."""
        given = self.false_positive_cost, self.false_negative_cost
        return (given[0] or 1.0, given[1] or 1.0) if any(given) else None
