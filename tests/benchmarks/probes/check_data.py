"""check_data on a table of many columns: CPU seconds after imports, and megabytes that it reads.

    python -m tests.benchmarks.probes.check_data prepare FOLDER COLUMNS ROWS NIGHTS
    python -m tests.benchmarks.probes.check_data check FOLDER
    python -m tests.benchmarks.probes.check_data prepared FOLDER     with prepare_data before it

The first makes a night's sets, the nights before it and an approved version; the others print {"cpu": seconds, "read":
bytes, "nights": 60, "warned": columns}.
"""

from __future__ import annotations

import datetime
import importlib
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

SIDES = ("train", "validation", "test")
GROUP, TONIGHT = "wide", datetime.date(2026, 11, 30)
IMPORTS = (
    *(
        "sqlite3",
        "encodings.cp437",
        "numpy.ma",
        "drivetrain.components.check_data",
        "drivetrain.registry.backends.local",
    ),
    *(f"drivetrain.data.{name}" for name in ("profile", "history", "manifest")),
    *(f"drivetrain.decision.data_{name}" for name in ("nights", "record", "rules", "texts")),
)


def prepare(folder: Path, columns: int, rows: int, nights: int) -> None:
    """Seven of ten columns hold normal numbers, two few numbers, one texts; a fiftieth of the cells is empty."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as parquet

    from drivetrain.components.prepare_data import prepare_data
    from drivetrain.data.history import History
    from drivetrain.data.manifest import Manifest
    from drivetrain.data.profile import STATISTICS, merged, profile_of
    from drivetrain.registry.evidence import DATA, change_evidence, place_of
    from drivetrain.registry.record import ModelRecord
    from drivetrain.registry.registry import open_registry

    random = np.random.default_rng(44)

    def column(place: int) -> Any:
        drawn = random.normal(10, 2, rows) if place % 10 < 7 else random.integers(0, 12, rows)
        made = pa.array(drawn, mask=random.random(rows) < 0.02)
        return made.cast(pa.string()) if place % 10 == 9 else made

    def varied(name: str, values: Any) -> Any:
        kind = STATISTICS[name].kind
        drawn = values + random.normal(0, 0.3 if kind == "number" else 0.03 * np.nan_to_num(values), values.shape)
        return np.clip(drawn, 0, 1) if kind == "share" else drawn

    for night in ("before", "tonight"):
        raw = folder / night / "raw"
        raw.mkdir(parents=True)
        table = {"id": np.arange(rows), "label": random.integers(0, 2, rows)}
        table |= {f"c{place:04d}": column(place) for place in range(columns - 2)}
        parquet.write_table(pa.table(table), raw / "rows.parquet", use_dictionary=False)
        prepare_data(raw, *(folder / night / side for side in SIDES), key="id", label="label")
    registry = open_registry(f"local:{folder / 'ledger.db'}")
    check(folder, "before")
    hashed = Manifest.read(folder / "before" / "train", checksums=False).content_hash
    model = ModelRecord(artifact="s3://models/wide.tar.gz", lineage={"data": hashed})
    registry.register(GROUP, "0" * 64, model, approval="Approved")
    history = History()
    one = merged(profile_of(folder / "before" / side) for side in SIDES).night(TONIGHT, "")
    for number in range(nights):
        values = {name: varied(name, each) for name, each in one.values.items()}
        day = TONIGHT - datetime.timedelta(nights - number)
        history = history.append(replace(one, day=day, content_hash=f"{number:064d}", values=values))
    place = place_of(registry, GROUP, None, DATA)
    change_evidence(str(place), lambda _: history.to_bytes())


def check(folder: Path, night: str) -> dict[str, Any]:
    from drivetrain.components.check_data import check_data

    sides: dict[str, Any] = {side: folder / night / side for side in SIDES}
    place = f"local:{folder / 'ledger.db'}"
    report = folder / "report"
    rules = json.dumps({"drift": {"share_moved": {"warn": 0.1}}})
    return dict(
        check_data(**sides, report=report, group=GROUP, registry=place, rules=rules, night=str(TONIGHT), dry=True)
    )


def read_bytes() -> int:
    """The bytes that this process has read by calls, from files and elsewhere."""
    return int(Path("/proc/self/io").read_text().partition("rchar: ")[2].split()[0])


def main(what: str, folder: str, *sizes: str) -> None:
    if what == "prepare":
        prepare(Path(folder), *map(int, sizes))
        return
    for module in IMPORTS:
        importlib.import_module(module)
    from drivetrain.components.prepare_data import prepare_data
    from drivetrain.data.arrow import arrow, numpy

    arrow()
    numpy()
    before, began = read_bytes(), time.process_time()
    if what == "prepared":
        night = Path(folder) / "tonight"
        prepare_data(night / "raw", *(night / side for side in SIDES), key="id", label="label")
    found = check(Path(folder), "tonight")
    cpu, read = time.process_time() - began, read_bytes() - before
    print(json.dumps({"cpu": cpu, "read": read, "nights": found["nights"], "warned": found["warned"]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
