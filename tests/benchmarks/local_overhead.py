"""What a step that does nothing costs on this machine, one after the other and in parallel."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from tests.benchmarks.harness.bench import QUIET, Bench
from tests.benchmarks.harness.environments import Environment
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import OURS, Ran, in_turn, run

PROBES = Path(__file__).parent / "probes"
STEPS = 20


def records(bench: Bench) -> Iterator[Record]:
    steps = 2 if bench.quick else STEPS
    long = steps + 1
    cpu: dict[str, list[float]] = defaultdict(list)

    def a_step(name: str, command: Callable[[int], Ran]) -> Callable[[], float]:
        return one_more(command, long, cpu[name])

    rivals = {
        OURS: a_step(OURS, lambda steps: _ours(bench, steps)),
        "interpreter": lambda: _bare(bench).wall,
    }
    if kfp := bench.peers("kfp").get("kfp"):
        for name, how in (("kfp.local", "default"), ("kfp.local without pip", "bare")):
            rivals[name] = a_step(name, lambda steps, how=how: _kfp(bench, kfp, steps, how))
    bench.progress(f"local overhead: {long} steps one after the other")
    medians = in_turn(rivals, rounds=bench.rounds, failed=bench.failed)
    busy = ", ".join(f"{name} {statistics.median(seconds):.3f} s" for name, seconds in cpu.items())
    yield Record(
        name="local_overhead: a no-op step",
        unit="s",
        ours=medians.pop(OURS),
        limit=medians.pop("interpreter"),
        peers=medians,
        target=0.05,
        note=bench.note("kfp", more=f"the limit is the start of an interpreter; CPU a step: {busy}"),
    )
    if find_spec("kfp") is not None:
        yield task_by_kfp(bench, steps)
    bench.progress(f"local overhead: {steps} independent steps")
    turns = {
        "parallel": lambda: _ours(bench, steps, independent=True).wall,
        "one after the other": lambda: _ours(bench, steps).wall,
    }
    medians = in_turn(turns, rounds=bench.rounds)
    yield Record(
        name=f"local_overhead: {steps} independent no-op steps",
        unit="s",
        ours=medians["parallel"],
        target=medians["one after the other"],
        note="the target is the same number of steps, each after the one before",
    )
    bench.progress("local overhead: the flagship")
    taken = [_flagship(bench) for _ in range(bench.rounds)]
    yield Record(
        name="local_overhead: the flagship, from an empty folder",
        unit="s",
        ours=statistics.median(ran.wall for ran in taken),
        target=8.0,
        note=f"two ranks train for 20 epochs; CPU {statistics.median(ran.cpu for ran in taken):.1f} s",
    )


def one_more(command: Callable[[int], Ran], long: int, cpu: list[float]) -> Callable[[], float]:
    """Seconds that one more step adds: the start of the tool itself is not a step's. Its CPU time goes into `cpu`."""

    def measure() -> float:
        more, less = command(long), command(1)
        cpu.append((more.cpu - less.cpu) / (long - 1))
        return (more.wall - less.wall) / (long - 1)

    return measure


def task_by_kfp(bench: Bench, steps: int) -> Record:
    """Our task, and kfp's own lightweight component, by the same local runner of kfp."""
    bench.progress(f"local overhead: {steps + 1} tasks by kfp's local runner")
    theirs = "kfp's own component"
    cpu: dict[str, list[float]] = {OURS: [], theirs: []}
    rivals = {
        OURS: one_more(lambda steps: _ours_by_kfp(bench, steps), steps + 1, cpu[OURS]),
        theirs: one_more(lambda steps: _component_by_kfp(bench, steps), steps + 1, cpu[theirs]),
    }
    wall = in_turn(rivals, rounds=bench.rounds, failed=bench.failed)
    medians = {name: statistics.median(seconds) for name, seconds in cpu.items()}
    return Record(
        name="local_overhead: a no-op task by kfp.local, CPU",
        unit="s",
        ours=medians[OURS],
        peers={theirs: medians[theirs]},
        target=medians[theirs],
        note=f"without pip; wall a task: {wall[OURS]:.3f} s, theirs {wall[theirs]:.3f} s",
    )


def _ours(bench: Bench, steps: int, *, independent: bool = False) -> Ran:
    """A run from an empty folder, so that nothing is cached."""
    work = bench.folder("chain")
    shutil.copy2(PROBES / "chain.py", work)
    command = ["drivetrain", "run", "chain.py", "--set", f"steps={steps}"]
    if independent:
        command += ["--set", "independent=true"]
    return run(command, cwd=work, environment=bench.variables(bench.ours, work)).checked()


def _ours_by_kfp(bench: Bench, steps: int) -> Ran:
    """In the environment of this benchmark, which has kfp as the next one must."""
    work = bench.folder("chain-by-kfp")
    shutil.copy2(PROBES / "chain.py", work)
    command = [sys.executable, "-m", "drivetrain.cli.main", "run", "chain.py", "--target", "kubeflow"]
    return run([*command, "--set", f"steps={steps}"], cwd=work, environment=_here(work)).checked()


def _component_by_kfp(bench: Bench, steps: int) -> Ran:
    work = bench.folder("component-by-kfp")
    command = [sys.executable, PROBES / "kfp_chain.py", str(steps), "bare"]
    return run(command, cwd=work, environment=_here(work)).checked()


def _here(work: Path) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
    return {**QUIET, "PATH": path, "HOME": str(work)}


def _flagship(bench: Bench) -> Ran:
    """In the environment of this benchmark: that of the others has no torch."""
    work = bench.folder("flagship")
    command = [sys.executable, "-m", "drivetrain.cli.main", "run", "retraining"]
    command += ["--set", "epochs=1", "--set", "min_accuracy=0"] if bench.quick else []
    return run(command, cwd=work, environment=bench.variables(bench.ours, work)).checked()


def _kfp(bench: Bench, environment: Environment, steps: int, how: str) -> Ran:
    work = bench.folder("kfp-chain")
    command = ["python", PROBES / "kfp_chain.py", str(steps), how]
    return run(command, cwd=work, environment=bench.variables(environment, work)).checked()


def _bare(bench: Bench) -> Ran:
    work = bench.folder("bare")
    return run(["python", "-c", "pass"], cwd=work, environment=bench.variables(bench.ours, work)).checked()
