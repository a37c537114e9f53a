"""Rows as a data frame of whichever library is installed, and as a table of a notebook; lists shown as tables; dicts
that know their keys."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, ClassVar, Self, TypeVar, overload

from drivetrain.base.errors import UserError, did_you_mean

LIBRARIES = ("pandas", "polars")

T = TypeVar("T")


class Named(dict[str, Any]):
    """A dict whose missing keys are an error that names the closest one."""

    def __init__(self, what: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._what = what

    def __missing__(self, name: str) -> Any:
        raise KeyError(f"no {self._what} {name!r}. {did_you_mean(name, self)}")


def frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> Any:
    """A `pandas.DataFrame`, or a `polars.DataFrame` where there is no pandas; a column a key, in order of appearance.

    Args:
        columns: those that come first, and are there without any rows, too.

    Raises:
        UserError: neither is installed.
    """
    names = dict.fromkeys([*columns, *(name for row in rows for name in row)])
    table = {name: [row.get(name) for row in rows] for name in names}
    for library in LIBRARIES:
        try:
            module: Any = importlib.import_module(library)
        except ImportError:
            continue
        # Polars takes the type of a column from its first values, pandas from all.
        return module.DataFrame(table, strict=False) if library == "polars" else module.DataFrame(table)
    raise UserError("A data frame needs pandas or Polars. Install one: pip install pandas")


def value_text(value: Any) -> str:
    """A value as people read it; `-` for none."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """An HTML table with a column a key, in order of appearance."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(value_text(row.get(name)))}</td>" for name in names) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Listed(Sequence[T]):
    """A list that a notebook shows as a table with a row each, and print() with a line each."""

    columns: ClassVar[tuple[str, ...]]
    """The first columns of a data frame."""
    nothing: str
    """The text of an empty list."""

    def __init__(self, found: Sequence[T], nothing: str | None = None) -> None:
        self._found = tuple(found)
        self.nothing = type(self).nothing if nothing is None else nothing

    @abstractmethod
    def row(self, item: T) -> dict[str, Any]:
        """The cells of one."""

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> T | Self:
        return type(self)(self._found[index]) if isinstance(index, slice) else self._found[index]

    def to_frame(self) -> Any:
        """A data frame with a row each.

        Raises:
            UserError: neither pandas nor Polars is installed.
        """
        return frame(list(map(self.row, self._found)), self.columns)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._found)) or self.nothing

    def _repr_html_(self) -> str:
        return table(list(map(self.row, self._found)))
