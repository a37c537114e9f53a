"""A query of a PostgreSQL database: `postgresql://user@host:5432/database`.

The password comes from the environment (PGPASSWORD, PGPASSFILE), as for every program that uses libpq.
"""

from __future__ import annotations

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import required
from drivetrain.data.sources import Options
from drivetrain.data.sources._sql import ROWS, Query, opened

SUMMARY = "a query of a PostgreSQL database"
EXAMPLE = "postgresql://reader@db.example/shop"


def open_source(place: str, options: Options) -> Query:
    driver, manager = required("adbc_driver_postgresql.dbapi", "sql"), required("adbc_driver_manager", "sql")
    if not place.startswith("//"):
        raise InputError(f"source is 'postgresql:{place}'. Example: {EXAMPLE}.")
    address = f"postgresql:{place}"
    row_hash = f"hashtextextended(cast({ROWS} as text), 0)"
    return opened(address, lambda: driver.connect(address), (manager.Error,), options, row_hash=row_hash)
