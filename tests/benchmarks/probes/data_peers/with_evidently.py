"""Evidently: DataDriftPreset and DataSummaryPreset with their own tests, against the night before.

    python with_evidently.py BEFORE.parquet TONIGHT.parquet      prints {"cpu": seconds} of one report, without imports

(https://docs.evidentlyai.com/docs/library/tests) Its tests hold a night against a reference of about the same rows.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from evidently import DataDefinition, Dataset, Report
from evidently.presets import DataDriftPreset, DataSummaryPreset


def prepared(_: list[Any], time_column: str | None = "ordered_at") -> Callable[[Any, Any], Iterator[str]]:
    report = Report([DataDriftPreset(), DataSummaryPreset()], include_tests=True)
    definition = DataDefinition(id_column="id", timestamp=time_column)

    def judge(before: Any, tonight: Any) -> Iterator[str]:
        for test in report.run(*(Dataset.from_pandas(rows, definition) for rows in (tonight, before))).dict()["tests"]:
            if test["status"].name not in ("SUCCESS", "SKIPPED"):
                yield test["name"].partition(":")[0]

    return judge


if __name__ == "__main__":
    judge = prepared([], None)
    began = time.process_time()
    list(judge(*map(pd.read_parquet, sys.argv[1:])))
    print(json.dumps({"cpu": time.process_time() - began}))
