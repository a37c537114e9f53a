"""In a container, `drivetrain` itself: names that do nothing.

A user's file holds both the steps and the pipeline that composes them. In the container only the steps are run, and
what describes the pipeline (with what that needs installed) stays at home; this module stands in for it, so that the
file's imports, base classes, annotations and module-level calls go through. The archive of the code puts it there,
with the authors' names in `__all__`. Rooms of the library that do not travel are missed as any module is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class _Inert(type):
    """A class that can be subclassed, called and asked for any attribute, and is nothing: it has no items either, so
    that a loop over what a run would have given ends at once."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __call__(cls, *_: Any, **__: Any) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __contains__(cls, _: object) -> bool:
        return False

    def __format__(cls, _: str) -> str:
        return ""

    __getitem__ = __lt__ = __le__ = __gt__ = __ge__ = __and__ = __invert__ = __call__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __round__ = __call__


class Inert(metaclass=_Inert):
    """The value of every name of the module."""


__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r} in a container")
    return Inert
