"""SIGKILL transform_data at a random instant, mostly while it puts the new table in the place of the earlier one."""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.faults.harness.families import Found, Trial
from tests.faults.harness.program_killed import killed

FAULT = "transform_data killed at any instant, mostly as it publishes: the old or the new table, whole"
TRIALS, QUICK, AT_ONCE = 100, 3, 2
PRELOAD = ("pyarrow.parquet", "pyarrow.csv", "pyarrow.json", "drivetrain.components.transform_data")
PATIENCE_S = 120.0

# The changes of names that a run makes are about so many.
_CHANGES = 21
OLD, NEW = '[{"filter": {"less": ["id", 1500]}}]', '[{"sort": ["x"]}]'


@dataclass(frozen=True)
class Shared:
    """The rows, the table of an earlier run, and the content hashes of it and of the one that is to replace it."""

    raw: Path
    old: Path
    hashes: tuple[str, str]
    seconds: float


def prepare(folder: Path) -> Shared:
    from drivetrain.data.manifest import Manifest

    raw = folder / "raw" / "rows.csv"
    raw.parent.mkdir(parents=True)
    raw.write_text("id,x\n" + "".join(f"{key},{key * 7919 % 2003}\n" for key in range(2000)), encoding="utf-8")
    began = time.monotonic()
    for name, plan in (("old", OLD), ("new", NEW)):
        apart(partial(transform, raw, folder / "tables" / name, plan))
    seconds = (time.monotonic() - began) / 2
    old, new = (Manifest.read(folder / "tables" / name).content_hash for name in ("old", "new"))
    return Shared(raw, folder / "tables" / "old", (old, new), seconds)


def trial(given: Trial, shared: Shared) -> Found:
    return one_kill(given.folder / "out", given.draw, shared, transform)


def one_kill(out: Path, draw: random.Random, shared: Shared, run: Callable[[Path, Path, str], None]) -> Found:
    """Kill one run, look at the table, and run once more."""
    from drivetrain.base.errors import InputError
    from drivetrain.data.manifest import Manifest

    shutil.copytree(shared.old, out)
    instant, was_killed = killed(partial(run, shared.raw, out, NEW), draw, seconds=shared.seconds, changes=_CHANGES)
    did = Counter([f"killed {instant}" if was_killed else "ended before"])
    violations: list[str] = []
    try:
        found = Manifest.read(out).content_hash
    except InputError as error:
        violations.append(f"killed {instant}: the table is refused: {error}")
    else:
        if found not in shared.hashes:
            violations.append(f"killed {instant}: the table is {found[:12]}, neither the old nor the new one")
        did.update(["the table is new" if found == shared.hashes[1] else "the table is old"])
    apart(partial(run, shared.raw, out, NEW))
    if Manifest.read(out).content_hash != shared.hashes[1] or any(out.rglob(".*")):
        violations.append(f"killed {instant}: the next run left {sorted(out.rglob('.*'))}")
    return Found(violations, did)


def transform(raw: Path, out: Path, plan: str, engine: str = "polars") -> None:
    from drivetrain.components.transform_data import transform_data

    with contextlib.redirect_stdout(io.StringIO()):
        transform_data(raw, out, plan=plan, engine=engine, rows_per_file=300)


def apart(program: Callable[[], None]) -> None:
    """In a process of its own, for one that has run Polars must not be forked."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            program()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError("transform_data failed without a kill")
