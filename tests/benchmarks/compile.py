"""Compiling a pipeline inside a process: milliseconds, growth with the number of steps, identical bytes."""

from __future__ import annotations

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drivetrain.assets.assets import SETTLED_S
from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import OURS, CommandError, run
from tests.benchmarks.harness.tool import Project, project

PROBES = Path(__file__).parent / "probes"
PEERS = ("sagemaker", "kfp")
# Ours once more, for the other target; the name of a row's figure while it is taken.
ON_KUBEFLOW = "drivetrain on kubeflow"


def records(bench: Bench) -> Iterator[Record]:
    yield from _digits(bench)
    yield from _many_steps(bench)


def _digits(bench: Bench) -> Iterator[Record]:
    """The digits pipeline, the first time in a process: what an author waits for beside the imports, which are those of
    the compiler and of the pipeline's file, for us and for kfp. The first round hashes our code; the others find
    its hash, which is kept of files that were not installed at this moment."""
    places = {OURS: project(bench, OURS, bench.ours)}
    time.sleep(SETTLED_S)
    places[ON_KUBEFLOW] = places[OURS]
    places |= {name: project(bench, name, environment) for name, environment in bench.peers(*PEERS).items()}
    commands = {
        OURS: ["{python}", str(PROBES / "compile_many.py"), "sagemaker", "digits.py", "1"],
        ON_KUBEFLOW: ["{python}", str(PROBES / "compile_many.py"), "kubeflow", "digits.py", "1"],
        "sagemaker": ["{python}", "digits.py", "1"],
        "kfp": ["{python}", str(PROBES / "kfp_compile.py")],
    }
    first: dict[str, list[float]] = defaultdict(list)
    imports: dict[str, list[float]] = defaultdict(list)
    digests: dict[str, set[str]] = defaultdict(set)
    for _ in range(bench.rounds):
        for name in [name for name in places if name not in bench.failed]:
            bench.progress(f"compile: {name}")
            try:
                said = _said(places[name], commands[name])
            except CommandError as error:
                if name in (OURS, ON_KUBEFLOW):
                    raise
                bench.failed[name] = str(error).splitlines()[-1]
                continue
            imports[name].append(said["import"])
            if name in (OURS, ON_KUBEFLOW):
                first[name].append(said["wall"][""][0])
                continue
            first[name].append(1000 * said["compile"][0])
            digests[name].add(said["sha256"])
    medians = {name: statistics.median(taken) for name, taken in first.items()}
    imported = ", ".join(
        f"{name} imports for {statistics.median(taken):.2f} s before" for name, taken in imports.items()
    )
    yield Record(
        name="compile: digits for Kubeflow, in the process",
        unit="ms",
        ours=medians.pop(ON_KUBEFLOW),
        peers={name: taken for name, taken in medians.items() if name == "kfp"},
        target=50,
        note=bench.note("kfp", more="the first time in a process"),
    )
    yield Record(
        name="compile: digits, in the process",
        unit="ms",
        ours=medians.pop(OURS),
        peers=medians,
        target=8,
        note=bench.note(*PEERS, more=imported),
    )
    yield Record(
        name="compile: identical bytes in two processes",
        unit="bool",
        ours=_identical(places[OURS]),
        peers={name: len(found) == 1 for name, found in digests.items()},
        target=True,
    )


def _said(place: Project, command: list[str]) -> dict[str, Any]:
    # kfp's probe imports the project's digits.py, which does not lie beside the probe.
    variables = {**place.variables, "PYTHONPATH": str(place.work)}
    words = [place.filled(word) for word in command]
    ran = run(words, cwd=place.work, environment=variables).checked()
    return json.loads(ran.output.strip().splitlines()[-1])


def _identical(place: Project) -> bool:
    """Two processes with other hash seeds, so that an order taken from a set would show."""
    written: list[bytes] = []
    for seed in ("1", "2"):
        file = place.work / f"{seed}.json"
        command = ["drivetrain", "compile", "digits.py", "-o", str(file)]
        run(command, cwd=place.work, environment={**place.variables, "PYTHONHASHSEED": seed}).checked()
        written.append(file.read_bytes())
    return written[0] == written[1]


def _many_steps(bench: Bench) -> Iterator[Record]:
    home = bench.folder("many-steps")
    command = ["python", PROBES / "compile_many.py", "sagemaker", PROBES / "chain.py", "3", "steps=500", "steps=1000"]
    walls: list[float] = []
    growth: list[float] = []
    for _ in range(bench.rounds):
        bench.progress("compile: 500 and 1,000 steps")
        ran = run(command, cwd=home, environment=bench.variables(bench.ours, home)).checked()
        said = json.loads(ran.output)
        walls.append(said["wall"]["steps=1000"][0])
        growth.append(statistics.median(said["cpu"]["steps=1000"]) / statistics.median(said["cpu"]["steps=500"]))
    yield Record(name="compile: 1,000 steps", unit="s", ours=statistics.median(walls) / 1000, target=1.0)
    yield Record(
        name="compile: CPU of 1,000 steps over 500",
        unit="x",
        ours=statistics.median(growth),
        limit=2.0,
        target=2.2,
        note="linear growth is 2",
    )
