"""A pipeline without torch, and a process that runs it: `python -m tests.faults.harness.workload HOME [torch]`.

The same command goes on with an interrupted run. Every file of a Processing output begins with a line that is the same
in all files that one process wrote, and in no others; the rest depends only on the inputs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.fixtures.local_runs import BUCKET, LocalRuns, join, model_of, output_of
from tests.fixtures.tunings import COMMAND, categories, tuning
from tests.fixtures.tunings import training as tuned

PIPELINE = "faults"

WORK = """
import hashlib, json, os, sys, time
from pathlib import Path
run = os.urandom(8).hex()
host = json.loads(Path("/opt/ml/config/resourceconfig.json").read_text())["current_host"]
known = hashlib.sha256(" ".join(sys.argv[1:]).encode())
for path in sorted(Path("/opt/ml/processing/input").rglob("*.txt")):
    known.update(path.read_text().partition("\\n")[2].encode())
for number in range(6):
    path = Path(f"/opt/ml/processing/output/out/{host}/part-{number}.txt")
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{run}\\n" + f"{known.hexdigest()} {number}\\n" * 40)
    time.sleep(0.005)
"""
EVALUATE = """
import json
from pathlib import Path
import tarfile
assert tarfile.open("/opt/ml/processing/input/model/model.tar.gz").getnames() == ["weights.txt"]
Path("/opt/ml/processing/output/report/report.json").write_text(json.dumps({"accuracy": 0.9}))
"""
TRAIN = """
import hashlib, time
from pathlib import Path
folder = Path("/opt/ml/checkpoints")
known = hashlib.sha256()
for path in sorted(Path("/opt/ml/input/data/data").rglob("*.txt")):
    known.update(path.read_text().partition("\\n")[2].encode())
for epoch in range(4):
    print(f"loss={1 / (epoch + 1)}", flush=True)
    (folder / f"epoch-{epoch}").write_text(known.hexdigest())
    time.sleep(0.02)
Path("/opt/ml/model/weights.txt").write_text(known.hexdigest() * 100)
"""
SEARCH = """
import json, time
from pathlib import Path
given = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())
time.sleep(0.02)
print(f"loss={len(given['item']) + int(given['depth'])};", flush=True)
Path("/opt/ml/model/weights.txt").write_text(given["item"] + given["depth"])
"""
TRAIN_WITH_TORCH = """
import os, sys, time
from pathlib import Path
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
run = os.urandom(8).hex()
total = torch.zeros(1)
for step in range(60):
    total += 1
    dist.all_reduce(total)
    print(f"step={step}", flush=True)
    time.sleep(0.05)
Path(f"/opt/ml/model/rank-{dist.get_rank()}.txt").write_text(os.environ["TORCHELASTIC_RUN_ID"])
Path(f"/opt/ml/output/data/rank-{dist.get_rank()}.txt").write_text(run)
dist.destroy_process_group()
"""


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    """Steps side by side and one after the other, a job of two hosts, a decision, a registration, and for each of two
    items a job and a search of two trainings."""
    evaluate = runs.processing("evaluate", EVALUATE, inputs={"model": model_of("train")}, outputs=["report"])
    evaluate["PropertyFiles"] = [{"PropertyFileName": "Report", "OutputName": "report", "FilePath": "report.json"}]
    register = {
        "Name": "register",
        "Type": "RegisterModel",
        "Arguments": {
            "ModelPackageGroupName": "models",
            "InferenceSpecification": {"Containers": [{"Image": "i", "ModelDataUrl": model_of("train")}]},
        },
    }
    item: Any = {"Get": "ForEach.CurrentItem"}
    prepared = {"data": output_of("prepare", "out")}
    part = runs.processing("part", WORK, inputs=prepared, outputs=["out"], arguments=[item])
    [output] = part["Arguments"]["ProcessingOutputConfig"]["Outputs"]
    output["S3Output"]["S3Uri"]["Std:Join"]["Values"].append(item)
    definition = tuned(runs, SEARCH, step="search", static={"item": item})
    search = tuning(definition, name="search", ranges=categories(depth=["1", "2"]), strategy="Grid", most=None)
    each = {"IterableItems": ["a", "b"], "MaxConcurrency": 2, "ForEachBody": [part, search]}
    report = {"Std:JsonGet": {"PropertyFile": {"Get": "Steps.evaluate.PropertyFiles.Report"}, "Path": "accuracy"}}
    return [
        runs.processing("prepare", WORK, outputs=["out"], arguments=["prepare"]),
        runs.processing("left", WORK, inputs=prepared, outputs=["out"]),
        runs.processing("right", WORK, inputs=prepared, outputs=["out"], count=2),
        runs.training(
            "train",
            TRAIN,
            inputs={"data": output_of("left", "out")},
            checkpoints=f"{BUCKET}/checkpoints/",
            metrics={"loss": "loss=([0-9.]+)"},
        ),
        evaluate,
        {"Name": "each", "Type": "ForEach", "Arguments": each},
        {
            "Name": "gate",
            "Type": "Condition",
            "Arguments": {
                "Conditions": [{"Type": "GreaterThan", "LeftValue": report, "RightValue": 0.8}],
                "IfSteps": [register],
                "ElseSteps": [{"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "bad"}}],
            },
        },
        runs.processing(
            "join",
            WORK,
            inputs={"left": output_of("left", "out"), "right": output_of("right", "out")},
            outputs=["out"],
            arguments=[join("n", 1, on="=")],
        ),
    ]


def steps_with_torch(runs: LocalRuns) -> list[dict[str, Any]]:
    """One training of two ranks, which torchrun puts into sessions of their own."""
    step = runs.training("train", TRAIN_WITH_TORCH)
    step["Arguments"]["AlgorithmSpecification"]["ContainerEntrypoint"] = [
        *("torchrun", "--standalone", "--nproc-per-node", "2"),
        "/opt/ml/input/data/code/train.py",
    ]
    return [step]


def main(home: str, kind: str = "plain") -> int:
    runs = LocalRuns(Path(home).parent)
    try:
        text = runs.text(steps_with_torch(runs) if kind == "torch" else steps(runs))
    except OSError as error:  # here, not the runner, the programs are put into the store
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        options = Options(pipeline=PIPELINE, max_parallel=2, image_commands=COMMAND)
        runner = Runner(runs.home)
        interrupted = runner.find_interrupted(text, {}, options)
        if interrupted is None and (Path(home) / "ledger.db").exists():
            interrupted = _failed(runs)
        summary = runner.start(text, {}, options) if interrupted is None else runner.resume(interrupted)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{summary.status}: {summary.reason}", file=sys.stderr)
    return 0 if summary.status == "Succeeded" else 1


def _failed(runs: LocalRuns) -> str | None:
    """The last execution, if it failed: a full disk may also show itself in a step's program."""
    from drivetrain.run_store.reader import Ledger

    with Ledger(runs.home) as ledger:
        last = ledger.executions(limit=1)
    return last[0].id if last and last[0].status == "Failed" else None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
