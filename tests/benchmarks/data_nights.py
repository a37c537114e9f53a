"""Nights of data: false warnings and failing nights in 20 years of nights that are in order, and shifts that are found.

Each night is judged by the 60 before it. Real series are replayed one by one as if each were one of 30 such columns:
the level is shared out over 30, and rates are for 30.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.decision import data_drift
from drivetrain.decision.data_bounds import Nights, Settings, judge, power
from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.environments import cache_folder
from tests.benchmarks.harness.records import Record

Floats = NDArray[np.float64]
Random = np.random.Generator

YEARS, YEAR, BEFORE = 20, 365, 60
MOST_WARNED: dict[str, float] = {"normal": 110 / 20, "weekdays": 110 / 20, "AR(0.7)": 7, "slow drift": 7}
MOST_FAILED: dict[str, float] = dict.fromkeys((*MOST_WARNED, "GARCH"), 20 / 20)
MOST_FAILED_ROUGH = 15
LEAST_FOUND = {(30, 30): 0.85, (30, 60): 0.92, (1000, 30): 0.5, (1000, 60): 0.72}
WHEELS = {"vega_datasets": "0.9.0", "islp": "0.6.0", "river": "0.26.1"}


def records(bench: Bench) -> Iterator[Record]:
    years = 1 if bench.quick else YEARS
    tasks = [(name, 30, 5) for name in _worlds()] + [(name, 1000, 1) for name in MOST_FAILED]
    tasks += [(name, 30, 1) for name in _worlds() if name not in MOST_FAILED]
    tasks = tasks[:2] if bench.quick else tasks
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for the workers, whose arrays are small
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for (name, columns, statistics), (warned, failed) in zip(
            tasks, pool.map(partial(rates, years), tasks), strict=True
        ):
            where = f"{name}, {columns} columns x {statistics}"
            rough = MOST_FAILED_ROUGH if (columns, statistics) == (30, 1) else None
            yield _record(f"false warnings a year, {where}", warned, None if bench.quick else MOST_WARNED.get(name))
            yield _record(f"failing nights a year, {where}", failed, MOST_FAILED.get(name, rough))
    histories, shifts = ((60,), (6,)) if bench.quick else ((15, 30, 60, 120), (4, 6, 8, 10))
    for columns, history, shift in product((30, 1000), histories, shifts):
        warned, failed = found(columns, history, shift)
        least = LEAST_FOUND.get((columns, history)) if shift == 6 else None
        where = f"the first night by a shift of {shift} sd, {columns} columns x 5, {history} nights"
        yield _record(f"warns {where}", warned, least, unit="share", better="higher")
        yield _record(f"fails {where}", failed, None, unit="share", better="higher")
    yield from _real(bench)
    yield from _drift()
    values = np.random.default_rng(0).normal(5, 1, (BEFORE + 1, 12, 1000))
    nights = _nights(values, ("number", "positive", "count", "number") * 3)
    judge(nights)
    started = time.process_time()
    power(judge(nights), 6.0)
    yield _record(
        "1,000 columns x 12 against 60 nights, with their power", time.process_time() - started, 1.0, unit="s"
    )


def rates(years: int, task: tuple[str, int, int]) -> tuple[float, float]:
    """Warned columns and failing nights a year."""
    name, columns, statistics = task
    kind, draw = _worlds()[name]
    random = np.random.default_rng([len(name), columns, statistics])
    values = draw(random, BEFORE + years * YEAR, columns * statistics)
    warned, failed = replay(_nights(values.reshape(len(values), statistics, columns), (kind,) * statistics))
    return warned.sum() / years, failed.any(axis=1).sum() / years


def replay(nights: Nights, settings: Settings | None = None) -> tuple[Any, Any]:
    """Columns warned and failed on each night after the first 60, each judged by the 60 before it: they are in order,
    so that a person accepts them all."""
    warned, failed = list[Any](), list[Any]()
    for night in range(BEFORE, len(nights.values)):
        kept = slice(night - BEFORE, night + 1)
        verdict = judge(
            replace(nights, values=nights.values[kept], rows=nights.rows[kept], weekdays=nights.weekdays[kept]),
            settings,
        )
        warned.append(verdict.columns_warned)
        failed.append(verdict.columns_failed)
    return np.array(warned), np.array(failed)


def found(columns: int, history: int, shift: float, draws: int = 20_000) -> tuple[float, float]:
    """The shares of shifts, in one statistic of one column of so many with 5 statistics, that warn and that fail."""
    random = np.random.default_rng([columns, history])
    values = random.standard_normal((history + 1, 1, draws))
    values[-1] += shift
    share = columns * 5 / draws  # all are judged at once, at the level of so many
    verdict = judge(_nights(values, ("number",)), Settings(warnings_a_year=4 / share))
    return float(verdict.warned.mean()), float(verdict.failed.mean())


def _nights(values: Floats, kinds: tuple[str, ...]) -> Nights:
    count = len(values)
    return Nights(values=values, kinds=kinds, rows=np.full(count, 1e5), weekdays=np.arange(count) % 7)


def _worlds() -> Mapping[str, tuple[str, Callable[[Random, int, int], Floats]]]:
    def normal(random: Random, nights: int, columns: int) -> Floats:
        return random.standard_normal((nights, columns))

    def weekdays(random: Random, nights: int, columns: int) -> Floats:
        return normal(random, nights, columns) + random.normal(0, 1.5, (7, columns))[np.arange(nights) % 7]

    def correlated(random: Random, nights: int, columns: int) -> Floats:
        y = normal(random, nights, columns)
        for night in range(1, nights):
            y[night] = 0.7 * y[night - 1] + np.sqrt(1 - 0.49) * y[night]
        return y

    def drifting(random: Random, nights: int, columns: int) -> Floats:
        return normal(random, nights, columns) + np.arange(nights)[:, None] / 60

    def garch(random: Random, nights: int, columns: int) -> Floats:
        y, variance = normal(random, nights, columns), np.ones(columns)
        for night in range(nights):
            y[night] *= np.sqrt(variance)
            variance = 0.05 + 0.1 * y[night] ** 2 + 0.85 * variance
        return y

    def heavy(random: Random, nights: int, columns: int) -> Floats:
        return random.standard_t(3, (nights, columns))

    def skewed(random: Random, nights: int, columns: int) -> Floats:
        return np.exp(normal(random, nights, columns))

    def rare(random: Random, nights: int, columns: int) -> Floats:
        return random.poisson(10 ** random.uniform(-2, 1, columns), (nights, columns)).astype(float)

    return {
        "normal": ("number", normal),
        "weekdays": ("number", weekdays),
        "AR(0.7)": ("number", correlated),
        "slow drift": ("number", drifting),
        "GARCH": ("number", garch),
        "t3": ("number", heavy),
        "lognormal": ("positive", skewed),
        "rare counts": ("count", rare),
    }


def _real(bench: Bench) -> Iterator[Record]:
    try:
        series = _series()
    except (OSError, subprocess.SubprocessError, KeyError, zipfile.BadZipFile) as error:
        bench.progress(f"data_nights: no real series ({error})")
        yield Record(name="data_nights: real series", unit="nights", ours=None, note=f"not available: {error}")
        return
    for name, (kind, values) in list(series.items())[: 1 if bench.quick else None]:
        nights = len(values) - BEFORE
        warned, failed = replay(_nights(values[:, None, None], (kind,)), Settings(warnings_a_year=4 / 30))
        scale = 30 * YEAR / nights
        yield _record(f"false warnings a year, 30 columns like {name}", warned.sum() * scale, None)
        yield _record(f"failing nights a year, 30 columns like {name}", failed.sum() * scale, MOST_FAILED_ROUGH)


def _series() -> dict[str, tuple[str, Floats]]:
    """Real series by day, from the files of three packages' wheels: name -> kind, values."""
    weather = _table("vega_datasets", "vega_datasets/_data/seattle-weather.csv")
    nyse = _table("islp", "ISLP/data/NYSE.csv")
    bikes = _table("islp", "ISLP/data/Bikeshare.csv")
    approval = _table("river", "river/datasets/trump_approval.csv.gz")
    by_day: dict[int, float] = {}
    for row in bikes:
        by_day[int(row["day"])] = by_day.get(int(row["day"]), 0.0) + float(row["bikers"])
    found: dict[str, tuple[str, Floats]] = {"bikes a day": ("count", np.array(list(by_day.values())))}
    columns = (
        (weather, "precipitation", "number"),
        (weather, "temp_max", "number"),
        (weather, "temp_min", "number"),
        (weather, "wind", "positive"),
        (nyse, "DJ_return", "number"),
        (nyse, "log_volume", "number"),
        (nyse, "log_volatility", "number"),
        (approval, "five_thirty_eight", "number"),
        (approval, "gallup", "number"),
    )
    for table, column, kind in columns:
        found[column] = (kind, np.array([float(row[column]) for row in table]))
    return found


def _table(package: str, inside: str) -> list[dict[str, str]]:
    wheel = f"{package}=={WHEELS[package]}"
    folder = cache_folder() / "wheels" / wheel
    if not any(folder.glob("*.whl")):
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(folder)]
        subprocess.run([*pip, wheel], check=True, timeout=300, capture_output=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        content = archive.read(inside)
    text = (gzip.decompress(content) if inside.endswith(".gz") else content).decode()
    return [*csv.DictReader(io.StringIO(text))]


def _drift() -> Iterator[Record]:
    """Batches of 20 bins against a baseline of 100,000 rows; one of 1,000 columns, at a confidence of 0.95."""
    random = np.random.default_rng(3)
    edges = np.linspace(-2, 2, 19)
    for rows, harmless in ((100, 0.0), (1000, 0.0), (1_000_000, 0.02)):
        batch, baseline = (_side(random, edges, size, moved) for size, moved in ((rows, harmless), (100_000, 0.0)))
        moved = data_drift.drift(batch, baseline)[data_drift.SHARE_MOVED]
        where = f"{rows:,} rows a column" + (f", moved by {harmless} sd" if harmless else "")
        plain = np.abs(batch.counts / rows - baseline.counts / 1e5).sum(axis=1).mean() / 2
        yield _record(f"share moved, estimate, {where}", float(moved.estimate.mean()), None, unit="share")
        yield _record(f"share moved, without correction, {where}", float(plain), None, unit="share")
        yield _record(
            f"share moved, largest lower end of 1,000 columns, {where}", float(moved.low.max()), 0.1, unit="share"
        )


def _side(random: Random, edges: Floats, rows: int, moved: float) -> data_drift.Side:
    from math import erf, sqrt

    ends = [-np.inf, *(edges - moved).tolist(), np.inf]
    below = np.array([(1 + erf(end / sqrt(2))) / 2 for end in ends])
    counts = random.multinomial(rows, np.diff(below), 1000).astype(float)
    one = np.ones(1000)
    return data_drift.Side(counts=counts, means=one * moved, stds=one, nulls=one * 0, rows=rows)


def _record(name: str, value: float, target: float | None, *, unit: str = "a year", better: Any = "lower") -> Record:
    return Record(name=f"data_nights: {name}", unit=unit, ours=float(value), target=target, better=better)
