"""A ledger that cannot be written, as one clear error."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from drivetrain.base.errors import UserError
from drivetrain.targets.local.ledger.schema import advice


class LedgerFullError(UserError):
    """The ledger could not be written. What was in it is untouched."""


@contextmanager
def full_ledger_errors(path: Path) -> Generator[None]:
    """Turn SQLite's error about a ledger that cannot be written into a clear one.

    Raises:
        LedgerFullError: in place of SQLite's error.
    """
    import sqlite3

    try:
        yield
    except sqlite3.OperationalError as error:
        raise LedgerFullError(
            f"The ledger {path} could not be written: {error}. {advice(error)}; what it holds is whole, and the run "
            "can be resumed."
        ) from error
