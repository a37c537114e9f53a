"""SIGKILL transform_data on Spark at a random instant: as transform_killed does with Polars.

Starting Java takes longer than the work, so it is started once, and drivers that use it are killed one after the other.
The table is written by the driver, in Python, as on every engine.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.faults import transform_killed
from tests.faults.harness.families import Found, Trial

FAULT = "transform_data on Spark killed at any instant, mostly as it publishes: the old or the new table, whole"
TRIALS, QUICK, AT_ONCE = 100, 2, 1
PATIENCE_S = 900.0

_SPARK = Path(__file__).parents[2] / ".venvs" / "spark"


def prepare(folder: Path) -> transform_killed.Shared:
    if not (_SPARK / "pyspark").is_dir():
        raise FileNotFoundError(f"{_SPARK}: make it with `make .venvs/spark/.installed`")
    shared = transform_killed.prepare(folder)  # content hashes do not depend on the engine
    sys.path.insert(0, str(_SPARK))
    importlib.import_module("drivetrain.data.engines.spark.session").session({})  # which ends with this process
    began = time.monotonic()
    transform_killed.apart(partial(_transform, shared.raw, folder / "first", transform_killed.NEW))
    return replace(shared, seconds=time.monotonic() - began)


def trial(given: Trial, shared: transform_killed.Shared) -> Found:
    return transform_killed.one_kill(given.folder / "out", given.draw, shared, _transform)


def _transform(raw: Path, out: Path, plan: str) -> None:
    """In a process that was forked from the one which started Java: with connections of its own."""
    client = importlib.import_module("pyspark").SparkContext._gateway._gateway_client
    client.deque.clear()
    client.thread_connection = threading.local()
    transform_killed.transform(raw, out, plan, "spark")
