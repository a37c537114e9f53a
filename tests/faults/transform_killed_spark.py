"""SIGKILL transform_data on Spark at a random instant: as transform_killed does with Polars.

Starting Java takes longer than the work, so a trial starts it once, and kills several drivers that use it one after the
other. The table is written by the driver, in Python, as on every engine.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults import transform_killed
from tests.faults.harness.families import Found, Trial

FAULT = "transform_data on Spark killed at any instant, mostly as it publishes: the old or the new table, whole"
KILLS = 10
TRIALS, QUICK, AT_ONCE = 100 // KILLS, 1, 1
PATIENCE_S = 1500.0

_SPARK = Path(__file__).parents[2] / ".venvs" / "spark"


def prepare(folder: Path) -> transform_killed.Shared:
    if not (_SPARK / "pyspark").is_dir():
        raise FileNotFoundError(f"{_SPARK}: make it with `make .venvs/spark/.installed`")
    return transform_killed.prepare(folder)  # content hashes do not depend on the engine


def trial(given: Trial, shared: transform_killed.Shared) -> Found:
    sys.path.insert(0, str(_SPARK))
    spark = importlib.import_module("drivetrain.data.engines.spark.session").session({})
    began = time.monotonic()
    transform_killed.apart(partial(_transform, shared.raw, given.folder / "first", transform_killed.NEW))
    shared = replace(shared, seconds=time.monotonic() - began)
    violations: list[str] = []
    did: Counter[Any] = Counter()
    try:
        for number in range(KILLS):
            found = transform_killed.one_kill(given.folder / f"out-{number}", given.draw, shared, _transform)
            violations += found.violations
            did += found.did
    finally:
        spark.stop()
    return Found(violations, did)


def _transform(raw: Path, out: Path, plan: str) -> None:
    """In a process that was forked from the one which started Java: with connections of its own."""
    client = importlib.import_module("pyspark").SparkContext._gateway._gateway_client
    client.deque.clear()
    client.thread_connection = threading.local()
    transform_killed.transform(raw, out, plan, "spark")
