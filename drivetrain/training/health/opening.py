"""Health, or nothing, as a training is told."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from drivetrain.training.config import Config
from drivetrain.training.health.monitor import Health
from drivetrain.training.loop.journal import Journal
from drivetrain.training.process import Process
from drivetrain.training.recipe import HasTruth, Recipe
from drivetrain.training.strategy import Strategy

T = TypeVar("T")


class NoHealth(Health):
    """Nothing is watched."""

    def __init__(self) -> None:
        self.stops, self.due = None, math.inf

    def begin(self, step: int) -> None: ...

    def timed(self, batches: Iterable[T]) -> Iterator[T]:
        return iter(batches)

    def before_step(self, step: int) -> None: ...

    def took(self, *given: Any, **more: Any) -> None: ...

    def validated(self, step: int, metrics: Mapping[str, float]) -> None: ...

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        yield

    def finish(self) -> None: ...

    def why_not_finite(self) -> str:
        return ""

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None: ...

    def about_model(self) -> dict[str, Any]:
        return {}

    def __exit__(self, *_: object) -> None: ...


def open_health(
    config: Config, strategy: Strategy, process: Process, output: Path | None, journal: Journal, recipe: Recipe
) -> Health:
    """Open the health of a training; one that watches nothing with health=False."""
    if not config.health:
        return NoHealth()
    truth = recipe.truth if isinstance(recipe, HasTruth) else None
    return Health(config, strategy, process, output, journal, recipe.num_classes or 0, truth)
