"""Choose the checkpoints to keep: the last ones, the best ones, one every so many hours, and always one that is
good."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from drivetrain.base.bounds import is_number
from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.store.manifest import Manifest


@dataclass(frozen=True)
class Retention:
    """How many checkpoints stay; one that any rule keeps is kept.

    Attributes:
        last: the newest ones, by step. More than one, because a disk that lies, or a copy that stopped half-way, is
            only noticed when it is read.
        best: those with the best value of `metric`.
        every_hours: and one for every so many hours of training; 0: none for that.
        metric: a name in the manifests' values["metrics"]; those without it are not among the best.
        greater_is_better: the metric's direction.
    """

    last: int = 3
    best: int = 0
    every_hours: float = 0.0
    metric: str = "loss"
    greater_is_better: bool = False

    def __post_init__(self) -> None:
        if self.last < 1:
            raise InputError(f"last is {self.last}: at least 1 checkpoint must stay; 3 guard against a damaged one.")
        if self.best < 0:
            raise InputError(f"best is {self.best}: 0 or more checkpoints stay for their metric.")
        if not (math.isfinite(self.every_hours) and self.every_hours >= 0):
            raise InputError(f"every_hours is {self.every_hours}: give a number of hours, or 0 for none.")


def watched(values: Mapping[str, Any]) -> tuple[str, bool] | None:
    """The metric by which the best is chosen, and whether more of it is better; None where a checkpoint's values do not
    say. (Those of versions that did not note it went by the metric's name.)"""
    config, watch = values.get("config"), values.get("watch")
    name = config.get("monitor") if isinstance(config, dict) else None
    if not isinstance(name, str):
        return None
    by_name = not name.endswith("loss")
    higher = watch.get("higher_is_better", by_name) if isinstance(watch, dict) else by_name
    return (name, higher) if isinstance(higher, bool) else None


def to_remove(manifests: Mapping[int, Manifest], policy: Retention, *, good: Collection[int]) -> list[int]:
    """The steps whose checkpoints may go, oldest first; one that is being read then stays (Place.retire).

    Args:
        manifests: of the checkpoints that look whole, by step.
        good: steps that this process has written or verified. What merely looks whole may be damaged, so nothing goes
            while none is good, the newest good one never goes, and nor does anything newer than it.
    """
    whole = sorted(manifests)
    newest_good = max((step for step in whole if step in good), default=None)
    if newest_good is None:
        return []
    kept = {*whole[-policy.last :], *(step for step in whole if step >= newest_good)}
    kept |= _best(manifests, policy) | _hourly(manifests, policy)
    return [step for step in whole if step not in kept]


def _best(manifests: Mapping[int, Manifest], policy: Retention) -> set[int]:
    values = {step: _metric(manifest.values, policy.metric) for step, manifest in manifests.items()}
    known = {step: value for step, value in values.items() if value is not None}
    # Of equal ones the later one: it has seen more.
    sign = 1 if policy.greater_is_better else -1
    ranked = sorted(known, key=lambda step: (sign * known[step], step), reverse=True)
    return set(ranked[: policy.best])


def _metric(values: Mapping[str, Any], name: str) -> float | None:
    metrics = values.get("metrics")
    value = metrics.get(name) if isinstance(metrics, dict) else None
    return float(value) if is_number(value) else None


def _hourly(manifests: Mapping[int, Manifest], policy: Retention) -> set[int]:
    """From the oldest on, the next one that was saved so many hours from the last one kept.

    By step, and by the distance of two clocks, never by their order: a clock that is set back or is a day off makes one
    more stay, not less.
    """
    if not policy.every_hours:
        return set()
    kept: set[int] = set()
    last: float | None = None
    for step in sorted(manifests):
        at = seconds_of(manifests[step].values.get("saved_at"))
        if at is not None and (last is None or abs(at - last) >= policy.every_hours * 3600):
            kept.add(step)
            last = at
    return kept


def seconds_of(moment: Any) -> float | None:
    """A time in seconds since the epoch, such as `saved_at`: a number of them, or ISO 8601."""
    if isinstance(moment, str):
        try:
            return datetime.fromisoformat(moment).timestamp()
        except (ValueError, OverflowError):
            return None
    return moment if is_number(moment) else None
