"""The base of every model of the spec: immutable all the way down, and without unknown fields."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict

T = TypeVar("T")


class Frozen(BaseModel):
    """A value object: compared by content, never changed after it was built."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class FrozenDict(dict[str, T]):
    """A dict that refuses changes, so that a frozen model is frozen in its mappings too."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a pipeline spec is immutable; build a new one with model_copy(update=...)")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]
    __ior__ = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


def _freeze(value: dict[str, T]) -> dict[str, T]:
    return FrozenDict(value)


FrozenMap = Annotated[dict[str, T], AfterValidator(_freeze)]
