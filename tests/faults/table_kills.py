"""SIGKILL train_table at random rounds and instants, mostly several times: the trees of an uninterrupted training."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.faults.harness.families import Found, Trial
from tests.faults.harness.program_killed import killed

FAULT = "train_table killed at any round and instant, with sampling, weights, early stopping: the same trees"
TRIALS, QUICK, AT_ONCE = 400, 4, 2
PRELOAD = ("lightgbm", "xgboost", "pyarrow.parquet", "drivetrain.training_scripts.train_table", "tests.fixtures.tables")
PATIENCE_S = 120.0

# The options of each estimator in turn.
OPTIONS: dict[str, dict[str, object]] = {
    "xgboost": {"subsample": 0.7, "colsample_bytree": 0.7, "colsample_bynode": 0.8, "max_depth": 3},
    "lightgbm": {"bagging_fraction": 0.7, "bagging_freq": 1, "feature_fraction": 0.7, "num_leaves": 7},
}
SETTINGS = {"rounds": 30, "save_every": 4, "early_stopping": 6, "weight_column": "weight", "threads": 1, "seed": 5}
_MOST_KILLS = 6
# A training makes about so many changes of names in its folders.
_CHANGES = 60
_FILES = {"xgboost": "model/model.ubj", "lightgbm": "model/model.txt"}
_RESULTS = ("model/model.json", "output/history.json")


@dataclass(frozen=True)
class Shared:
    """Tables, and by estimator what an uninterrupted training makes of them and how long it takes."""

    tables: dict[str, Path]
    expected: dict[str, dict[str, bytes]]
    seconds: dict[str, float]


def prepare(folder: Path) -> Shared:
    from tests.fixtures.tables import write_tables

    tables = write_tables(folder / "tables", num_rows=300)
    made = Shared(tables, {}, {})
    for estimator in OPTIONS:
        for _ in range(2):  # the first one decodes the data for all
            began = time.monotonic()
            assert _waited(partial(_train, estimator, tables, folder / estimator)) == 0
        made.expected[estimator] = _results(estimator, folder / estimator)
        made.seconds[estimator] = time.monotonic() - began
    return made


def trial(given: Trial, shared: Shared) -> Found:
    estimator = given.in_turn(tuple(OPTIONS))
    program = partial(_train, estimator, shared.tables, given.folder / "run")
    did: Counter[str] = Counter()
    instants: list[str] = []
    for _ in range(_MOST_KILLS):
        if given.draw.random() < 0.5:
            round_ = given.draw.randint(1, SETTINGS["rounds"])
            instant, was_killed = f"after round {round_}", _waited(partial(_dying, round_, program)) == -signal.SIGKILL
        else:
            instant, was_killed = killed(program, given.draw, seconds=shared.seconds[estimator], changes=_CHANGES)
        did[f"{estimator} killed" if was_killed else "ended before"] += 1
        if was_killed:
            instants.append(instant)
        if given.draw.random() < 0.3:
            break
    violations: list[str] = []
    if (code := _waited(program)) != 0:
        violations.append(f"killed {', '.join(instants)}: the next start ended with {code}")
    else:
        found = _results(estimator, given.folder / "run")
        violations += [
            f"killed {', '.join(instants)}: {name} differs from that of an uninterrupted training"
            for name, content in shared.expected[estimator].items()
            if found[name] != content
        ]
    return Found(violations, did)


def _train(estimator: str, tables: dict[str, Path], folder: Path) -> None:
    from drivetrain.training.process import Process
    from drivetrain.training.table_config import TableConfig, TableFolders
    from drivetrain.training_scripts.train_table import train

    places = TableFolders(
        train=tables["train"],
        validation=tables["validation"],
        model=folder / "model",
        output=folder / "output",
        checkpoints=folder / "checkpoints",
    )
    with contextlib.redirect_stdout(io.StringIO()):
        options = json.dumps({"categories": ["plan"], **OPTIONS[estimator]})
        config = TableConfig(estimator=estimator, estimator_options=options, **SETTINGS)
        train(config, places, Process(0, 1, 0, 1, None))


def _dying(round_: int, program: partial[None]) -> None:
    """Run it; it is killed after its `round_`-th round."""
    from drivetrain.training_scripts import train_table

    rounds = iter(range(1, round_ + 1))

    def beat() -> None:
        if next(rounds) == round_:
            os.kill(os.getpid(), signal.SIGKILL)

    train_table.beat = beat
    program()


def _waited(program: partial[None]) -> int:
    """Run it in a process of its own; gives the exit code, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            program()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _results(estimator: str, folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in (_FILES[estimator], *_RESULTS)}
