"""Frozen dataclasses that cost little to make.

The standard library writes and compiles six methods for each frozen dataclass, three million instructions: a sixth of
a command's CPU time went into that. Here a class has its own `__init__`, and shares the others.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(kind=None, /, *, frozen=False, kw_only=False, **options):
        """The decorator of that name in the standard library: equal, hashed, shown and refused in the same way."""
        if not frozen or options:
            return dataclasses.dataclass(kind, frozen=frozen, kw_only=kw_only, **options)
        return lambda kind: _record(kind, kw_only=kw_only)


def _record(kind: type[Any], *, kw_only: bool) -> type[Any]:
    if any(dataclasses.is_dataclass(base) for base in kind.__mro__[1:]):
        return dataclasses.dataclass(kind, frozen=True, kw_only=kw_only)
    kind = dataclasses.dataclass(kind, repr=False, eq=False, kw_only=kw_only)
    kind.__dataclass_params__.frozen = True  # frozen classes may inherit from it, and no others
    for name, method in _SHARED.items():
        if kind.__dict__.get(name) is None:  # a class with an `__eq__` of its own has None for its hash
            setattr(kind, name, method)
    return kind


def _set_once(self: Any, name: str, value: Any) -> None:
    """Only `__init__` comes first, so a field that has a value keeps it."""
    if name in self.__dict__ or name not in self.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    self.__dict__[name] = value


def _keep(_self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


@cache
def _compared(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind) if field.compare)


def _values(record: Any) -> tuple[Any, ...]:
    return tuple([getattr(record, name) for name in _compared(record.__class__)])


def _equal(self: Any, other: Any) -> bool:
    return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented


def _hashed(self: Any) -> int:
    return hash(_values(self))


@recursive_repr()
def _shown(self: Any) -> str:
    fields = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(fields)})"


_SHARED = {
    "__setattr__": _set_once,
    "__delattr__": _keep,
    "__eq__": _equal,
    "__hash__": _hashed,
    "__repr__": _shown,
}
