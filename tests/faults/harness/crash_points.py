"""The workload in a process that kills itself at one instant: `python -m tests.faults.harness.crash_points HOME N`.

Instants are counted: before and after each commit of the ledger, and before and after each move of an output to its
place. Without N nothing is killed, and the number of instants is printed.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

from drivetrain.run_store import writer as ledger_writer
from drivetrain.run_store.objects import ObjectStore
from tests.faults.harness import workload


class Instants:
    """Counts, and kills this process at number `at`."""

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.count = 0
        self._guard = threading.Lock()

    def one(self) -> None:
        with self._guard:
            self.count += 1
            if self.count == self.at:
                os.kill(os.getpid(), signal.SIGKILL)


class Connection(sqlite3.Connection):
    """A connection whose commits are instants."""

    instants: Instants

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if sql != "COMMIT":
            return super().execute(sql, *arguments)
        self.instants.one()
        cursor = super().execute(sql, *arguments)
        self.instants.one()
        return cursor


def main(home: str, at: str | None = None) -> int:
    instants = Instants(None if at is None else int(at))
    Connection.instants = instants
    connect, adopt = ledger_writer.open_to_write, ObjectStore.adopt

    def counted(path: Path) -> sqlite3.Connection:
        connect(path).close()  # makes the tables
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=Connection)
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection

    def moved(store: ObjectStore, staged: Path, uri: str) -> None:
        instants.one()
        adopt(store, staged, uri)
        instants.one()

    ledger_writer.open_to_write = counted
    ObjectStore.adopt = moved
    code = workload.main(home)
    print(instants.count)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
