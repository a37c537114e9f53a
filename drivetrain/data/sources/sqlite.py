"""A query of a SQLite database: `sqlite:PATH`.

A column of SQLite may hold values of any storage class (https://sqlite.org/datatype3.html). The driver takes the type
of a column from its first rows, and makes numbers text where a text is among them. So the classes are counted first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Schema, arrow, required
from drivetrain.data.sources import Options
from drivetrain.data.sources._sql import Query, opened, quoted_name

# Two results a column; SQLite gives 2,000 at most.
_COLUMNS = 500
# Whole numbers up to here are floats of 64 bits, too.
_EXACT = 1 << 53

SUMMARY = "a query of a SQLite database"
EXAMPLE = "sqlite:shop.db"


def open_source(place: str, options: Options) -> Query:
    driver, manager = required("adbc_driver_sqlite.dbapi", "sql"), required("adbc_driver_manager", "sql")
    path = Path(place)
    if not path.is_file():
        hint = "" if path.is_absolute() else " A step runs in a folder of its own: give the whole path."
        raise InputError(f"sqlite:{place}: there is no such file {path.resolve()}.{hint}")
    uri = f"file:{quote(str(path.resolve()))}?mode=ro"
    return opened(f"sqlite:{place}", lambda: driver.connect(uri), (manager.Error,), options, _check_classes)


def _check_classes(query: Query, schema: Schema) -> None:
    """
    Raises:
        InputError: a column holds values of several storage classes, or of another one than its first rows.
    """
    for start in range(0, len(schema), _COLUMNS):
        fields = list(schema)[start : start + _COLUMNS]
        names = [quoted_name(field.name) for field in fields]
        counted = [
            f"group_concat(distinct nullif(typeof({name}), 'null')), "
            f"max(typeof({name}) = 'integer' and {name} not between {-_EXACT} and {_EXACT})"
            for name in names
        ]
        found = query.first(f"select {', '.join(counted)} from {query.chosen}")
        for field, classes, has_wide in zip(fields, found[::2], found[1::2], strict=True):
            if classes:
                _check_column(query.address, field, sorted(classes.split(",")), bool(has_wide))


def _check_column(address: str, field: Any, classes: list[str], has_wide: bool) -> None:
    pa = arrow()
    name, numbers = field.name, classes == ["integer", "real"]
    if len(classes) > 1 and (has_wide or not numbers):
        what = f"{', '.join(classes[:-1])} and {classes[-1]}"
        lost = ", and a float does not hold all digits of its whole numbers" if numbers else ""
        raise InputError(
            f"{address}: column {name!r} holds values of several types: {what}{lost}. Cast it in the query: "
            f"cast({name} as text) as {name}, or cast({name} as real) as {name} where all are numbers and 15 digits "
            "are enough."
        )
    types = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string(), "blob": pa.binary()}
    if field.type != types[classes[-1]]:  # of integer and real: real
        value = {"integer": "0", "real": "0.0", "text": "''", "blob": "x''"}[classes[-1]]
        raise InputError(
            f"{address}: the driver takes the type of column {name!r} from its first 1,024 rows, which have no "
            f"{classes[-1]}, as later ones have. Cast it in the query (cast({name} as {classes[-1]}) as {name}), or, "
            f"where the first rows are null, give them a value: coalesce({name}, {value}) as {name}."
        )
