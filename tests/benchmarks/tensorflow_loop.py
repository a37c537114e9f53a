"""What a step of the training loop costs under TensorFlow's MirroredStrategy over the same step by hand (strategy.run).

Both loops train digits_keras on two logical CPUs of one process, each ten steps in its turn. The one by hand is that of
TensorFlow's guide: a tf.data pipeline in memory, experimental_distribute_dataset, one tf.function. CPU time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.harness.bench import QUIET, Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import run
from tests.benchmarks.training_loop import BY_HAND, OURS, _measured

PROBE = Path(__file__).parent / "probes" / "tensorflow_loop.py"
PYTHON = ROOT / ".venvs" / "tensorflow" / "bin" / "python"
# Segments of ten steps; those of the warm-up are not counted.
ALL, QUICK = 110, 15


def records(bench: Bench) -> Iterator[Record]:
    name, unit = "tensorflow_loop: digits_keras on 2 replicas, CPU of a step", "x by hand"
    if not PYTHON.exists():
        yield Record(name=name, unit=unit, ours=None, target=1.05, note="make .venvs/tensorflow/.installed first")
        return
    bench.progress("training loop: TensorFlow")
    work = bench.folder("tensorflow")
    variables = {**QUIET, "PATH": "/usr/bin:/bin", "HOME": str(work), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [str(PYTHON), PROBE, work, str(QUICK if bench.quick else ALL)]
    found = json.loads(run(command, cwd=work, environment=variables, limit=900).checked().output.splitlines()[-1])
    ratios, milliseconds = _measured([found["segments"]], 1)
    yield Record(
        name=name,
        unit=unit,
        ours=ratios[OURS],
        limit=1.0,
        target=1.05,
        note=f"a step by hand {milliseconds[BY_HAND]:.2f} ms, ours {milliseconds[OURS]:.2f} ms",
    )
    yield Record(
        name="tensorflow_loop: the largest difference of a loss from the one by hand",
        unit="nats",
        ours=found["difference"],
        target=1e-5,
    )
