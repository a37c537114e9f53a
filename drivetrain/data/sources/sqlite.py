"""A query of a SQLite database: `sqlite:PATH`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from drivetrain.base.errors import InputError
from drivetrain.data.sources import Options, required
from drivetrain.data.sources._sql import Query, opened

SUMMARY = "a query of a SQLite database"
EXAMPLE = "sqlite:shop.db"


def open_source(place: str, options: Options) -> Query:
    driver, manager = required("adbc_driver_sqlite.dbapi", "sql"), required("adbc_driver_manager", "sql")
    path = Path(place)
    if not path.is_file():
        hint = "" if path.is_absolute() else " A step runs in a folder of its own: give the whole path."
        raise InputError(f"sqlite:{place}: there is no such file {path.resolve()}.{hint}")
    uri = f"file:{quote(str(path.resolve()))}?mode=ro"
    return opened(f"sqlite:{place}", lambda: driver.connect(uri), (manager.Error,), options)
