"""Checks what the loop keeps in a checkpoint's state.json before anything relies on it.

A checksum protects against damage, not against an attacker who can write both file and checksum. A state of another
form is treated as a damaged checkpoint: an older one is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.checkpointing.tensors.index import STATE_FILE

Is = Callable[[Any], bool]


def check_state(values: Mapping[str, Any]) -> None:
    """
    Raises:
        DamagedError: a field is not there, or is not what the loop writes.
    """
    for name, holds in _FIELDS.items():
        if not holds(values.get(name, _NOTHING)):
            given = f"is {values[name]!r:.80}" if name in values else "is not there"
            raise DamagedError(f"{STATE_FILE} is not what a training writes: {name} {given}", file=STATE_FILE)


def is_config(given: Any) -> bool:
    """Return True if these are a training's fields, as its identity is saved."""
    return isinstance(given, Mapping) and _texts(cast("Mapping[str, Any]", given).get("code", {}))


_NOTHING = object()
# Of steps, samples and epochs: what 64 bits hold.
_MOST = 2**63


def _count(given: Any) -> bool:
    return type(given) is int and 0 <= given < _MOST


def _number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _numbers(given: Any) -> bool:
    return isinstance(given, list) and all(map(_number, cast("list[Any]", given)))


def _texts(given: Any) -> bool:
    return isinstance(given, Mapping) and all(isinstance(one, str) for one in cast("Mapping[str, Any]", given).values())


def _object(**fields: Is) -> Is:
    """A JSON object with these fields, and perhaps more."""

    def holds(given: Any) -> bool:
        return isinstance(given, Mapping) and all(
            each(cast("Mapping[str, Any]", given).get(name, _NOTHING)) for name, each in fields.items()
        )

    return holds


def _or_none(holds: Is) -> Is:
    return lambda given: given is None or holds(given)


_ENTRY = _object(epoch=_count, step=_count)

_FIELDS: Mapping[str, Is] = {
    "step": _count,
    "epoch": _count,
    "consumed": _count,
    "history": lambda given: (
        isinstance(given, list)
        and all(_ENTRY(one) and all(map(_number, one.values())) for one in cast("list[Any]", given))
    ),
    "owed": _or_none(_object(learning_rate=_number, gradient_norm=_or_none(_number))),
    "losses": lambda given: (
        _object(sums=_numbers, reported=_numbers, num_samples=_count, num_reported=_count)(given)
        and all(_number(given.get(name, 0)) for name in ("weight", "weight_reported"))
    ),
    "watch": _object(best=_or_none(_number), best_step=_count, worse_since_best=_count),
    "config": is_config,
    # Older checkpoints have none.
    "health_rules": lambda given: (
        given is _NOTHING
        or (
            isinstance(given, Mapping)
            and all(isinstance(one, Mapping) for one in cast("Mapping[str, Any]", given).values())
        )
    ),
}
