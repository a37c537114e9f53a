"""Nights of a shop's orders as files: clean ones, and one night with each fault.

python -m tests.benchmarks.probes.data_peers.orders FOLDER      makes good/, clean/ and faults/, a folder a night
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as parquet

from drivetrain.data.split import below, key_hashes

Columns = dict[str, Any]
Plant = Callable[[Path], None]

FIRST, ROWS = datetime(2026, 8, 3), 2000
REFERENCE, CLEAN = 30, 60
"""The nights that are known to be good, and clean ones after them. Faults are in the next one."""
NIGHT = REFERENCE + CLEAN
_PART = 200
NOTES = ("größer", "grün", "gift", "ring the bell", "leave it at the door", "")


def day(night: int) -> datetime:
    return FIRST + timedelta(night)


def columns(night: int) -> Columns:
    """The rows of a night. Its means vary by a hundredth from night to night."""
    random = np.random.default_rng([night, 44])
    rows = int(random.poisson(ROWS))
    price = random.lognormal(3 + random.normal(0, 0.01), 0.5, rows).round(2)
    hours = random.normal(14 + random.normal(0, 0.05), 4, rows).clip(0, 23.99)
    return {
        "id": np.arange(rows) + night * 100_000,
        "ordered_at": np.datetime64(day(night), "s") + (hours * 3600).astype("timedelta64[s]"),
        "price": price,
        "quantity": 1 + random.poisson(1.5, rows).clip(0, 8),
        "country": random.choice(["CH", "DE", "AT", "FR", "IT"], rows, p=[0.4, 0.3, 0.15, 0.1, 0.05]),
        "customer": random.integers(1, 5000, rows),
        "note": random.choice(NOTES, rows),
        "returned": (random.random(rows) < 1 / (1 + np.exp((30 - price) / 12))).astype(int),
    }


def write(folder: Path, found: Mapping[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rows.csv"
    pa_csv.write_csv(pa.table(dict(found)), path)
    return path


def _values(change: Callable[[Columns], Columns]) -> Plant:
    """Other values in some columns."""

    def plant(folder: Path) -> None:
        found = columns(NIGHT)
        write(folder, {**found, **change(found)})

    return plant


def _rows(choose: Callable[[Any], Any]) -> Plant:
    """Other rows, by their places."""

    def plant(folder: Path) -> None:
        found = columns(NIGHT)
        places = choose(np.arange(len(found["id"])))
        write(folder, {name: values[places] for name, values in found.items()})

    return plant


def _content(change: Callable[[bytes], bytes]) -> Plant:
    """Another content of the file."""

    def plant(folder: Path) -> None:
        path = write(folder, columns(NIGHT))
        path.write_bytes(change(path.read_bytes()))

    return plant


def _without_country(folder: Path) -> None:
    write(folder, {name: values for name, values in columns(NIGHT).items() if name != "country"})


def _with_the_night_before(folder: Path) -> None:
    before, found = columns(NIGHT - 1), columns(NIGHT)
    write(folder, {name: np.concatenate([before[name], values]) for name, values in found.items()})


def _leaked(found: Columns) -> Columns:
    """Rows of the test sets of earlier nights, under new keys."""
    parts = list[Columns]()
    for night in range(NIGHT - 2, NIGHT):
        earlier = columns(night)
        of_test = below(key_hashes(pa.array(earlier["id"]), ""), 10).to_numpy(zero_copy_only=False)
        parts.append({name: values[of_test] for name, values in earlier.items()})
    leaked = {name: np.concatenate([part[name] for part in parts])[:_PART] for name in found}
    return {
        name: np.concatenate([values[: -len(leaked[name])], leaked[name]])
        for name, values in found.items()
        if name != "id"
    }


def _truncated(folder: Path) -> None:
    folder.mkdir(parents=True)
    path = folder / "rows.parquet"
    parquet.write_table(pa.table(columns(NIGHT)), path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _part(values: Any, others: Any, rows: int = _PART) -> Any:
    return np.concatenate([others[:rows], values[rows:]])


def _mixed(values: Any) -> Any:
    return np.random.default_rng(5).permutation(values)


LEAKED = "rows of earlier test sets, with new keys"
FAULTS: Mapping[str, Plant] = {
    "missing column": _without_country,
    "changed type: decimal commas": _values(
        lambda found: {"price": np.array([str(each).replace(".", ",") for each in found["price"]])}
    ),
    "unit x1000": _values(lambda found: {"price": found["price"] * 1000}),
    "shuffled labels": _values(lambda found: {"returned": _mixed(found["returned"])}),
    "doubled night: the one before again, too": _with_the_night_before,
    "empty night": _rows(lambda places: places[:0]),
    "a third of the rows": _rows(lambda places: places[: len(places) // 3]),
    "a tenth of time stamps 30 days ahead": _values(
        lambda found: {"ordered_at": _part(found["ordered_at"], found["ordered_at"] + np.timedelta64(30, "D"))}
    ),
    "poisoned file: a pickle as rows.csv": _content(lambda _: pickle.dumps(columns(NIGHT))),
    "truncated Parquet": _truncated,
    "open quote": _content(lambda content: content.replace(b'ring the bell"', b"ring the bell", 1)),
    LEAKED: _values(_leaked),
    "constant column": _values(lambda found: {"quantity": np.ones_like(found["quantity"])}),
    "new category, a tenth of the rows": _values(
        lambda found: {"country": _part(found["country"], np.full(_PART, "XX"))}
    ),
    "zone shifted: two hours earlier": _values(
        lambda found: {"ordered_at": found["ordered_at"] - np.timedelta64(2, "h")}
    ),
    "doubled keys: 20 rows again": _rows(lambda places: np.concatenate([places, places[:20]])),
    "other encoding: Latin-1": _content(lambda content: content.decode().encode("latin-1")),
}


def main(folder: Path) -> None:
    for night in range(NIGHT):
        write(folder / ("good" if night < REFERENCE else "clean") / f"{night:03d}", columns(night))
    for name, plant in FAULTS.items():
        plant(folder / "faults" / name)
    write(folder / "faults" / "clean", columns(NIGHT))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
