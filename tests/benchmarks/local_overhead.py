"""What a step that does nothing costs on this machine, one after the other and in parallel."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.environments import Environment
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import in_turn, run

PROBES = Path(__file__).parent / "probes"
STEPS = 20


def records(bench: Bench) -> Iterator[Record]:
    long, short = (6, 1) if bench.quick else (STEPS + 1, 1)

    def a_step(command: Callable[[int], float]) -> Callable[[], float]:
        """What one more step adds: the start of the tool itself is not a step's."""
        return lambda: (command(long) - command(short)) / (long - short)

    rivals = {
        "drivetrain": a_step(lambda steps: _ours(bench, steps)),
        "interpreter": lambda: _bare(bench),
    }
    if kfp := bench.peers("kfp").get("kfp"):
        rivals["kfp.local"] = a_step(lambda steps: _kfp(bench, kfp, steps, "default"))
        rivals["kfp.local without pip"] = a_step(lambda steps: _kfp(bench, kfp, steps, "bare"))
    bench.progress(f"local overhead: {long} steps one after the other")
    medians = in_turn(rivals, rounds=bench.rounds)
    yield Record(
        name="local_overhead: a no-op step",
        unit="s",
        ours=medians.pop("drivetrain"),
        limit=medians.pop("interpreter"),
        peers=medians,
        target=0.15,
        note="; ".join(filter(None, ["the limit is the start of an interpreter", bench.note("kfp")])),
    )
    bench.progress(f"local overhead: {STEPS} independent steps")
    turns = {
        "parallel": lambda: _ours(bench, STEPS, independent=True),
        "one after the other": lambda: _ours(bench, STEPS),
    }
    medians = in_turn(turns, rounds=bench.rounds)
    yield Record(
        name=f"local_overhead: {STEPS} independent no-op steps",
        unit="s",
        ours=medians["parallel"],
        target=medians["one after the other"],
        note="the target is the same number of steps, each after the one before",
    )


def _ours(bench: Bench, steps: int, *, independent: bool = False) -> float:
    """Seconds of a run from an empty folder, so that nothing is cached."""
    work = bench.folder("chain")
    shutil.copy2(PROBES / "chain.py", work)
    command = ["drivetrain", "run", "chain.py", "--set", f"steps={steps}"]
    if independent:
        command += ["--set", "independent=true"]
    return run(command, cwd=work, environment=bench.variables(bench.ours, work)).checked().wall


def _kfp(bench: Bench, environment: Environment, steps: int, how: str) -> float:
    work = bench.folder("kfp-chain")
    command = ["python", PROBES / "kfp_chain.py", str(steps), how]
    return run(command, cwd=work, environment=bench.variables(environment, work)).checked().wall


def _bare(bench: Bench) -> float:
    work = bench.folder("bare")
    return run(["python", "-c", "pass"], cwd=work, environment=bench.variables(bench.ours, work)).checked().wall
