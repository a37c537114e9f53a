"""Two nights of a pipeline with an uploaded file: `python -m tests.faults.harness.home_workload HOME NIGHT...`.

Each night reads a file of its own. Its first step and its training are cached; the same command again goes on, or
takes them from there.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

from drivetrain.assets.assets import Asset
from drivetrain.base.errors import UserError
from drivetrain.run_store.home import Home
from drivetrain.run_store.objects import ObjectStore, sha256_of
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.fixtures.local_runs import BUCKET, LocalRuns, model_of, output_of

PREPARE = """
import os
from pathlib import Path
rows = Path("/opt/ml/processing/input/rows/rows.csv").read_text().splitlines()
for number in range(3):
    Path(f"/opt/ml/processing/output/out/part-{number}-{os.urandom(4).hex()}.txt").write_text("\\n".join(rows[number::3]))
"""
TRAIN = """
import hashlib, time
from pathlib import Path
known = hashlib.sha256()
for path in sorted(Path("/opt/ml/input/data/data").rglob("*.txt")):
    known.update(path.read_bytes())
for epoch in range(2):
    Path(f"/opt/ml/checkpoints/epoch-{epoch}").write_text(known.hexdigest() * 20)
    time.sleep(0.02)
Path("/opt/ml/model/weights.txt").write_text(known.hexdigest() * 100)
"""
COUNT = """
from pathlib import Path
count = sum(len(path.read_text().splitlines()) for path in Path("/opt/ml/processing/input/data").iterdir())
Path("/opt/ml/processing/output/out/count.txt").write_text(str(count))
"""


def rows_of(night: str) -> bytes:
    return b"".join(b"%s,%d,%d\n" % (night.encode(), number, number * number) for number in range(1500))


def steps(runs: LocalRuns, uri: str) -> list[dict[str, Any]]:
    container = {"Image": "i", "ModelDataUrl": model_of("train")}
    prepared = {"data": output_of("prepare", "out")}
    return [
        runs.processing("prepare", PREPARE, inputs={"rows": uri}, outputs=["out"], cache=True),
        runs.training("train", TRAIN, inputs=prepared, checkpoints=f"{BUCKET}/checkpoints/", cache=True),
        runs.processing("count", COUNT, inputs=prepared, outputs=["out"]),
        {
            "Name": "register",
            "Type": "RegisterModel",
            "Arguments": {
                "ModelPackageGroupName": "models",
                "InferenceSpecification": {"Containers": [container]},
            },
        },
    ]


def main(home: str, *nights: str) -> int:
    """As `drivetrain run` does: go on with what was interrupted, else start."""
    elsewhere = LocalRuns(Path(home).parent / "programs")
    for night in nights:
        file = Path(home).parent / f"{night}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(rows_of(night))
        digest = hashlib.sha256(rows_of(night)).hexdigest()
        uri = f"{BUCKET}/data/{digest}/rows.csv"
        text = elsewhere.text(steps(elsewhere, uri))
        scripts = sorted(elsewhere.home.objects.rglob("*.py"))
        assets = [Asset(uri, digest, file)]
        assets += [Asset(f"{BUCKET}/code/{path.stem}/{path.name}", sha256_of(path), path) for path in scripts]
        options = Options(pipeline="nights", max_parallel=2)
        runner = Runner(Home(home))
        try:
            interrupted = runner.find_interrupted(text, {}, options)
            if interrupted is None:
                summary = runner.start(text, {}, options, assets=assets)
            else:
                summary = runner.resume(interrupted, options, assets=assets)
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        if summary.status != "Succeeded":
            print(f"{summary.status}: {summary.reason}", file=sys.stderr)
            return 1
        print(json.dumps(outputs(Home(home), summary.execution)))
    return 0


def outputs(home: Home, execution: str) -> dict[str, str]:
    """Every file of a run's steps, by its step and name, with its sha256 now; a cached step's where it lies."""
    store, found = ObjectStore(home.objects), dict[str, str]()
    with Ledger(home) as ledger:
        for step in ledger.steps(execution):
            for written in ledger.written(step.cache_of or execution, step.name):
                path = store.path(written.uri)
                content = path.read_bytes() if path.is_file() else b"gone"
                if path.name == "model.tar.gz":
                    with tarfile.open(path) as archive:  # whose times differ
                        files = [archive.extractfile(each) for each in archive if each.isfile()]
                        content = b"".join(file.read() for file in files if file is not None)
                name = re.sub("-[0-9a-f]{8}", "", path.name)  # each process gives its own
                found[f"{step.name}/{name}"] = hashlib.sha256(content).hexdigest()
    return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
