"""Evaluations to decide on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from drivetrain.decision.evaluation import Evaluation, Group, Measured, Resampling
from drivetrain.decision.rows import Rows

HIGHER = {"accuracy": True, "f1_macro": True, "loss": False, "auroc": True, "confusion_matrix": None}
Numbers = Mapping[str, float | tuple[float, float]]
"""A value, or a value and its bound."""


def measured(numbers: Numbers) -> dict[str, Measured]:
    found: dict[str, Measured] = {}
    for name, given in numbers.items():
        value, bound = given if isinstance(given, tuple) else (given, 0.0)
        found[name] = Measured(value=value, bound=bound, higher_is_better=HIGHER[name])
    return found


def varied(values: Sequence[float | None]) -> Iterator[float | None]:
    """Replicates that do not vary say nothing: these do, hardly."""
    for place, value in enumerate(values):
        yield None if value is None else value * (1 + 1e-9 * (place % 2))


def evaluation(
    numbers: Numbers,
    *,
    replicates: Mapping[str, Sequence[float | None]] | None = None,
    bounds: Mapping[str, float] | None = None,
    slices: Mapping[str, Numbers] | None = None,
    undefined: Mapping[str, str] | None = None,
    **fields: Any,
) -> Evaluation:
    """`replicates` of metrics of the whole test set, of which rows say nothing, and their `bounds`; without them there
    was no bootstrap."""
    drawn = {name: tuple(varied(values)) for name, values in (replicates or {}).items()}
    whole = Group(
        num_samples=360, metrics=measured(numbers), undefined=undefined or {}, replicates=drawn, bounds=bounds or {}
    )
    groups = {"": whole}
    groups |= {name: Group(num_samples=40, metrics=measured(given)) for name, given in (slices or {}).items()}
    count = len(next(iter(drawn.values()))) if drawn else 0
    return Evaluation(
        **{
            "source": "report/evaluation.json",
            "groups": groups,
            "data_hash": "d" * 64,
            "rows": 360,
            "key": "id",
            "model_hash": "c" * 64,
            "settings": {},
            "resampling": Resampling(replicates=count, seed=0, by="id") if drawn else None,
            "evidence": Rows(keys=np.arange(360, dtype=np.uint64), keyed=False, columns=[]) if drawn else None,
            **fields,
        }
    )


@pytest.fixture(name="evaluation")
def evaluation_() -> Callable[..., Evaluation]:
    return evaluation
