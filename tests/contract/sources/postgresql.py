"""A table in a PostgreSQL server of this machine; skipped where its programs are not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import adbc_driver_postgresql.dbapi as driver
import pyarrow as pa
import pytest

# The server refuses to run as root.
_AS: dict[str, Any] = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}


class Place:
    options: ClassVar[dict[str, str]] = {"query": "select id, price, city from orders", "watermark": "id"}

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        initdb = shutil.which("initdb") or next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None)
        if initdb is None:
            pytest.skip("no PostgreSQL server is installed")
        self._folder = Path(tempfile.mkdtemp(prefix="postgresql-"))  # which another user can reach
        if _AS:
            shutil.chown(self._folder, _AS["user"], _AS["group"])
        self._programs = Path(initdb).parent
        self._run("initdb", "--auth=trust", "--username=reader", "--no-sync", "--encoding=UTF8", "--locale=C")
        # No port is taken: it listens on a socket in its folder.
        settings = f"-c listen_addresses= -c unix_socket_directories={self._folder} -c fsync=off"
        self._run("pg_ctl", "start", "--wait", f"--options={settings}", f"--log={self._folder}/log")
        self.address = f"postgresql://reader@/postgres?host={self._folder}"
        self.missing = f"postgresql://reader@/nothing?host={self._folder}"
        with driver.connect(self.address) as connection, connection.cursor() as cursor:
            cursor.execute("create table orders (id bigint, price double precision, city text)")
            connection.commit()

    def append(self, rows: pa.Table) -> None:
        with driver.connect(self.address) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("orders", rows, mode="append")
            connection.commit()

    def rewrite(self, rows: pa.Table) -> None:
        with driver.connect(self.address) as connection, connection.cursor() as cursor:
            cursor.execute("delete from orders")
            connection.commit()
        self.append(rows)

    def close(self) -> None:
        self._run("pg_ctl", "stop", "--mode=immediate")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        command = [self._programs / program, *arguments, "-D", self._folder / "data"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self._folder, timeout=60, **_AS)
