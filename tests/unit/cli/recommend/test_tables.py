"""`drivetrain recommend --rows N --columns N`: a machine for a training on a table."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivetrain.base.errors import UserError
from drivetrain.cli.recommend.tables import TAKEN, needed
from drivetrain.training import plugins
from tests.distributed.prepared_data import write_prepared

LEARN = """
import sys
from pathlib import Path
from drivetrain.training.process import join_group
from drivetrain.training.table_config import TableConfig, TableFolders
from drivetrain.training_scripts.train_table import train

estimator, options, data, model = sys.argv[1:]
with join_group(60, "") as process:
    config = TableConfig(estimator=estimator, estimator_options=options, rounds=5)
    train(config, TableFolders(train=Path(data), model=Path(model)), process)
print(Path("/proc/self/status").read_text())
"""


def test_the_smallest_machine_with_the_memory_is_chosen(drivetrain) -> None:
    found = json.loads(drivetrain("recommend", "--rows", "20000000", "--columns", "60", "--json"))
    assert found["needed_bytes"] == needed("xgboost", 20_000_000, 60)
    assert found["choice"] == "ml.m5.2xlarge" and not found["instances"]["ml.m5.xlarge"]
    text = drivetrain("recommend", "--rows", "20000000", "--columns", "60", "--estimator", "lightgbm")
    assert text.startswith("lightgbm on 20,000,000 rows of 60 columns: about 20.3 GiB of memory")
    assert "Choice: ml.m5.2xlarge, the smallest with the memory" in text


def test_a_table_that_fits_nowhere_ends_with_1(drivetrain) -> None:
    given = ["--rows", "1000000000", "--columns", "60", "--instance", "ml.m5.xlarge"]
    said = drivetrain("recommend", *given, code=1)
    assert "Nothing fits. XGBoost shares the rows among hosts: Cluster(count=70) of ml.m5.xlarge or more." in said


def test_half_of_the_size_and_unknown_estimators_are_refused(drivetrain) -> None:
    assert "Give both: --rows and --columns" in drivetrain.error("recommend", "--rows", "10")
    with pytest.raises(UserError, match="No facts of the memory of estimator 'xgbost'"):
        needed("xgbost", 1, 1)
    assert {*TAKEN} == {*plugins.names("estimators")}


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["xgboost", "lightgbm", pytest.param("sklearn", marks=pytest.mark.nightly)])
def test_a_training_takes_at_most_what_is_said_and_half_of_it_at_least(estimator: str, tmp_path: Path) -> None:
    rows, columns = 400_000, 20
    random = np.random.default_rng(0)
    table: dict[str, Any] = {f"x{n}": random.normal(size=rows).astype(np.float32) for n in range(columns)}
    data = write_prepared(tmp_path / "train", {"id": np.arange(rows), **table, "label": (table["x0"] > 0).astype(int)})
    options = '{"model": "hist_gradient_boosting"}' if estimator == "sklearn" else "{}"
    program = [sys.executable, "-c", LEARN, estimator, options, str(data), str(tmp_path / "model")]
    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    peak = re.search(r"VmHWM:\s+(\d+) kB", printed)
    assert peak is not None
    assert 0.5 * needed(estimator, rows, columns) <= 1024 * int(peak[1]) <= needed(estimator, rows, columns)
