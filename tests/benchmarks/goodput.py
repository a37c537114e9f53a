"""Goodput on machines that are taken away at random: the interval that training chooses, beside the best fixed one."""

from __future__ import annotations

import json
import math
import shutil
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from drivetrain.steps.trainings import EXECUTION
from tests.benchmarks.harness.bench import QUIET, Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.spot_schedule import Costs, Schedule, with_cadence, with_interval
from tests.benchmarks.harness.timing import run
from tests.fixtures import tiny_data

MINUTE, HOUR = 60.0, 3600.0
TOLD_HOURS = 8.0
# Interruptions a simulated training meets on average: enough for the best interval to be the best by more than luck.
MEAN_INTERRUPTIONS = 20
# Fixed intervals that compete: Young's, and this many to each side, a quarter of an octave apart.
NEIGHBOURS = 12


@dataclass(frozen=True)
class Training:
    """A real training whose saves and restarts are measured."""

    what: str
    recipe: str
    options: dict[str, int]
    reader: str
    rows: int
    global_batch: int
    steps: int
    save_every: int


TRAININGS = (
    Training("digits", "digits_cnn", {}, "prepared", 1437, 64, 120, 20),
    Training("decoder_lm of 13 M parameters", "decoder_lm", {"length": 64, "layers": 4, "width": 512, "heads": 8},
             "text", 4000, 4, 12, 3),
)  # fmt: skip


def records(bench: Bench) -> Iterator[Record]:
    for training in TRAININGS[:1] if bench.quick else TRAININGS:
        bench.progress(f"goodput: saves and restarts of {training.what}")
        costs = measured(bench, training)
        yield from _rows(bench, training.what, costs)
    scaled = Costs(save=100 * costs.save, durable=100 * costs.durable, restart=costs.restart + 100 * costs.durable)
    yield from _rows(bench, "a state 100 times as large at that speed", scaled)


def measured(bench: Bench, training: Training) -> Costs:
    """Means over the saves of a real training, and the time of a restart that goes on from its checkpoint."""
    home = bench.folder("goodput")
    data = tiny_data.write(training.reader, home / "data", rows=training.rows)
    variables = {
        **QUIET, "PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1",
        EXECUTION: "one",  # a later execution would start anew
    }  # fmt: skip

    def train(steps: int) -> dict[str, float]:
        command = [
            sys.executable, "-m", "drivetrain.training_scripts.train",
            "--train", data, "--model", home / "model", "--checkpoints", home / "checkpoints",
            "--recipe", training.recipe, "--recipe-options", json.dumps(training.options), "--strategy", "single",
            "--reader", training.reader, "--global-batch", str(training.global_batch), "--epochs", "100",
            "--max-steps", str(steps), "--checkpoint-every", f"{training.save_every}steps", "--schedule", "constant",
        ]  # fmt: skip
        run(command, cwd=home, environment=variables, limit=600).checked()
        latest = max((home / "checkpoints").glob("*/attempts/*.json"))
        return json.loads(latest.read_text(encoding="utf-8"))

    first = train(training.steps)
    again = train(training.steps + training.save_every)
    shutil.rmtree(home / "checkpoints")
    if again["first_step"] != training.steps or not first["saves"]:
        raise ValueError(f"{training.what} saved {first['saves']} times and went on from step {again['first_step']}")
    return Costs(
        save=first["stall_seconds"] / first["saves"],
        durable=first["save_seconds"] / first["saves"],
        restart=again["restart_seconds"],
    )


def _rows(bench: Bench, what: str, costs: Costs) -> Iterator[Record]:
    told = TOLD_HOURS * HOUR
    for mean, prior, how in (
        (told, told, "every 8 h, as was said"),
        (HOUR, told, "every hour, where 8 h was said"),
        (3 * told, told, "every 24 h, where 8 h was said"),
        (10 * MINUTE, 10 * MINUTE, "every 10 minutes, as was said"),
        (10 * MINUTE, told, "every 10 minutes, where 8 h was said"),
    ):
        bench.progress(f"goodput: {what}, interrupted {how}")
        yield compared(f"{what}, interrupted {how}", costs, mean, prior, seeds=1 if bench.quick else 12)


def compared(what: str, costs: Costs, mean: float, prior: float, *, seeds: int) -> Record:
    """Ours over the best fixed interval, by the mean goodput over the same schedules."""
    work = MEAN_INTERRUPTIONS * mean
    schedules = [Schedule(mean, seed) for seed in range(seeds)]
    ours = statistics.mean(
        with_cadence("auto", work, costs, schedule, mtbf_seconds=prior).goodput for schedule in schedules
    )
    fixed = {
        interval: statistics.mean(with_interval(interval, work, costs, schedule).goodput for schedule in schedules)
        for interval in intervals(costs, mean)
    }
    best = max(fixed, key=lambda interval: fixed[interval])
    young = 1 - math.sqrt(2 * costs.save / mean) - costs.restart / mean
    return Record(
        name=f"goodput: {what}",
        unit="share of best",
        ours=ours / fixed[best],
        limit=1.0,
        target=0.95,
        better="higher",
        note=(
            f"goodput {ours:.4f}, best fixed interval {fixed[best]:.4f} (every {best:.3g} s), Young {young:.4f}; a "
            f"save stops training for {costs.save:.3g} s and is durable after {costs.durable:.3g} s, a restart takes "
            f"{costs.restart:.3g} s"
        ),
    )


def intervals(costs: Costs, mean: float) -> list[float]:
    """Fixed intervals around Young's; those shorter than it takes to write are all the same one."""
    middle = math.sqrt(2 * costs.save * mean)
    around = (middle * 2 ** (step / 4) for step in range(-NEIGHBOURS, NEIGHBOURS + 1))
    return sorted({max(interval, costs.durable) for interval in around})
