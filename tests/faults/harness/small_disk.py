"""One trial of disk_full, in a mount namespace: `python -m tests.faults.harness.small_disk FOLDER KIB ENOUGH_KIB`.

Prints the violations as a JSON list.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from drivetrain.run_store.home import Home
from tests.faults.harness import killing


def main(folder: str, size: str, enough: str) -> int:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", folder], check=True)
    home = Path(folder) / "home"
    violations: list[str] = []
    code, said = killing.run(home)
    lines = said.strip().splitlines()
    if lines[:1] == ["Traceback (most recent call last):"]:
        violations.append(f"a traceback instead of an error: {said[-800:]}")
    if code == 2 and (len(lines) != 1 or not lines[0].startswith("error: ")):
        violations.append(f"{len(lines)} lines instead of one error: {said[-800:]}")
    if code not in (0, 1, 2):
        violations.append(f"exit code {code}: {said[-800:]}")
    if code == 1 and "No space left" not in said:
        violations.append(f"a step failed of something else than the disk: {said[-800:]}")
    if (home / "ledger.db").exists() and (home / "ledger.db").stat().st_size:
        _check_integrity(home / "ledger.db")
    subprocess.run(["mount", "-o", f"remount,size={enough}k", folder], check=True)
    code, said = killing.run(home)
    if code != 0:
        violations.append(f"with room again the run ended with {code}: {said[-800:]}")
    else:
        found = killing.outcome(Home(home))
        more = {name: count for name, count in found.succeeded_attempts.items() if count > 1}
        if more:
            violations.append(f"steps ran to success more than once: {more}")
        if found.models != 1:
            violations.append(f"{found.models} models instead of one")
    print(json.dumps(violations))
    return 0


def _check_integrity(path: Path) -> None:
    """Of a copy where there is room: SQLite itself writes beside a database that it reads."""
    import sqlite3

    with tempfile.TemporaryDirectory() as elsewhere:
        for file in path.parent.glob(f"{path.name}*"):
            shutil.copy(file, elsewhere)
        connection = sqlite3.connect(Path(elsewhere) / path.name)
        try:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",), "the ledger is damaged"
        finally:
            connection.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
