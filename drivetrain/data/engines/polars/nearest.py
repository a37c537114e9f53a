"""The functions of `_nearest` on columns of Polars: with the digits of a long double, and one by one where these do not
tell which float is the nearest."""

# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drivetrain.data.arrow import numpy
from drivetrain.data.engines import _nearest
from drivetrain.data.engines.polars.frames import polars

# polars.Expr
Expr = Any
# C libraries give long doubles within 3 units of the last place. Where a long double is a double, none is settled.
_UNITS = 8


def nearest(name: str) -> Callable[..., Expr]:
    """exp, log, sin, cos or power of columns of float64, as an expression."""
    exact: Callable[..., float] = getattr(_nearest, name)

    def of_columns(*columns: Any) -> Any:
        np = numpy()
        wide_type = np.longdouble
        wide = [column.astype(wide_type) for column in columns]
        with np.errstate(all="ignore"):
            found = getattr(np, name)(*wide)
            error = _UNITS * np.finfo(wide_type).eps
            made = (found * (1 - error)).astype(np.float64)
            is_settled = (made == (found * (1 + error)).astype(np.float64)) | np.isnan(found)
        for place in np.flatnonzero(~is_settled).tolist():
            made[place] = exact(*(float(column[place]) for column in columns))
        return made

    def apply(*values: Expr) -> Expr:
        pl = polars()
        names = [str(place) for place in range(len(values))]
        rows = pl.struct(value.alias(place) for value, place in zip(values, names, strict=True))

        def of_rows(series: Any) -> Any:
            frame = series.struct.unnest()
            made = pl.Series(of_columns(*(frame[place].to_numpy() for place in names)))
            return frame.select(pl.when(pl.all_horizontal(pl.all().is_not_null())).then(made)).to_series()

        return rows.map_batches(of_rows, return_dtype=pl.Float64, is_elementwise=True)

    return apply


def rounded(value: Expr, digits: int) -> Expr:
    """Halves of the exact value to the even digit, where Polars rounds a product."""
    pl = polars()
    if digits == 0:
        return value.round(0, mode="half_to_even")

    def of_values(series: Any) -> Any:
        return pl.Series(
            [None if each is None else _nearest.rounded(each, digits) for each in series.to_list()], dtype=pl.Float64
        )

    return value.cast(pl.Float64).map_batches(of_values, return_dtype=pl.Float64, is_elementwise=True)
