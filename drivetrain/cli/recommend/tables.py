"""A machine for train_table, by the memory that rows and columns take."""

from __future__ import annotations

import math
from typing import NamedTuple

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.catalog.instances import GIB, Instance, get_instance, instance_names
from drivetrain.cli.recommend.wanted import Wanted
from drivetrain.telling.terminal import say, say_json, table


class Taken(NamedTuple):
    """Bytes of a training process: `base` with its libraries, and `cell` for each value of the training data.

    The peaks of processes that learnt 10 rounds on 100,000 x 20, 400,000 x 20 and 400,000 x 60 values, and 15 % more.
    `base` has 80 MB (scikit-learn's 140 MB) above that: the system decides how much of the libraries' files stays
    mapped, and each thread has buffers (tests/unit/cli/recommend/test_tables.py measures one again).
    """

    base: int
    cell: float


TAKEN = {
    "xgboost": Taken(220_000_000, 16.0),
    "lightgbm": Taken(230_000_000, 18.0),
    "sklearn": Taken(560_000_000, 26.0),
}
# Of a machine's memory, what the system and a peak may take.
_HEADROOM = 0.2
_FAMILY = "ml.m5."


def needed(estimator: str, rows: int, columns: int) -> int:
    """Bytes that a training takes on one host.

    Raises:
        UserError: the table has no such estimator.
    """
    taken = TAKEN.get(estimator)
    if taken is None:
        raise UserError(f"No facts of the memory of estimator {estimator!r}. {did_you_mean(estimator, TAKEN)}")
    return round(taken.base + taken.cell * rows * columns)


def recommend_table(wanted: Wanted, *, as_json: bool) -> int:
    """Print which machines have the memory, and the smallest of them; the exit code."""
    if wanted.rows is None or wanted.columns is None:
        raise UserError("Give both: --rows and --columns of the training data.")
    estimator = wanted.estimator or "xgboost"
    bytes_ = needed(estimator, wanted.rows, wanted.columns)
    names = wanted.instance or [name for name in instance_names() if name.startswith(_FAMILY)]
    machines = sorted({get_instance(name) for name in names}, key=lambda each: (each.memory, each.vcpus, each.name))
    choice = next((each for each in machines if _fits(each, bytes_)), None)
    if as_json:
        say_json(
            {
                "estimator": estimator,
                "rows": wanted.rows,
                "columns": wanted.columns,
                "needed_bytes": bytes_,
                "instances": {each.name: _fits(each, bytes_) for each in machines},
                "choice": None if choice is None else choice.name,
            }
        )
        return 0 if choice else 1
    say(f"{estimator} on {wanted.rows:,} rows of {wanted.columns:,} columns: about {bytes_ / GIB:,.1f} GiB of memory")
    say()
    shown = [
        (each.name, str(each.vcpus), f"{each.memory / GIB:g} GiB", "yes" if _fits(each, bytes_) else "no")
        for each in machines
    ]
    say(table(("instance", "vCPU", "memory", "fits"), shown))
    say()
    if choice is None:
        largest = machines[-1]
        hosts = math.ceil(bytes_ / ((1 - _HEADROOM) * largest.memory))
        say(f"Nothing fits. XGBoost shares the rows among hosts: Cluster(count={hosts}) of {largest.name} or more.")
        return 1
    say(f"Choice: {choice.name}, the smallest with the memory, and {_HEADROOM:.0%} of it free.")
    return 0


def _fits(machine: Instance, bytes_: int) -> bool:
    return bytes_ <= (1 - _HEADROOM) * machine.memory
