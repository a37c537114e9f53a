"""Evaluate a trained model on prepared data, on as many processes and hosts as the step is given.

    python -m drivetrain.components.evaluate --model build/model --data build/test --metrics build/metrics \\
        --report build/report
    python -m drivetrain.components.evaluate --model build/checkpoints --data build/test --report build/report \\
        --scoring "accuracy, f1, auroc" --slices site --processes 2

The numbers that come back: num_samples, loss, and the metrics under their names (accuracy, accuracy_class_3, auroc,
auroc_bound). The report says more: how far each may be off, intervals, slices, curves.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from drivetrain.base.errors import InputError
from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.model_folder import ARCHIVE, DESCRIPTION, open_model
from drivetrain.steps.contract import Input, Output
from drivetrain.steps.declaration import component

_CHECKPOINT = re.compile(r"step-\d{8,18}(\.[1-9]\d{0,5})?", re.ASCII)
# What is no parameter of the program of the same name.
_NOT_SETTINGS = ("model", "data", "report", "checkpoint", "processes")


@component(needs=("torch", "pyarrow", "numpy", "safetensors"))
def evaluate(
    model: Input,
    data: Input,
    report: Output | None = None,
    *,
    batch_size: int = 256,
    threads: int = 1,
    scoring: str = "",
    mode: Literal["histogram", "exact"] = "histogram",
    slices: str = "",
    bootstrap: int = 200,
    confidence: float = 0.95,
    seed: int = 0,
    strategy: str = "ddp",
    strategy_options: str = "{}",
    predictions: bool = False,
    checkpoint: str = "newest",
    processes: int = 0,
) -> dict[str, float]:
    """Evaluate a trained model on prepared data.

    Every host runs this command. The first one has the numbers and the report; the others return nothing.

    Args:
        model: the output `model` of a training step, as a folder or as model.tar.gz; or the checkpoints of a training.
        data: the prepared data to measure on.
        report: gets evaluation.json, bootstrap.json, curves.json, model_quality.json, plots/ and predictions/.
        batch_size: samples a forward pass.
        threads: threads that each process computes with on the CPU. Another number rounds otherwise in the last bits;
            more processes do not.
        scoring: the metrics, such as "accuracy, top_k(k=5), f1"; empty for those of the task. `loss` and the
            recipe's own are always among them.
        mode: how curves are counted: histogram (fixed memory, with a bound) or exact (the ranks exchange scores).
        slices: columns, such as "site, device": every metric by their values, too.
        bootstrap: replicates for the intervals; 0 for none.
        confidence: of the intervals.
        seed: of the bootstrap.
        strategy: ddp for a model that fits into each process, or fsdp, tp, pp, ... for one that does not.
        strategy_options: the strategy's options, a JSON object: '{"tensor": 2}'.
        predictions: write every row's prediction, as Parquet.
        checkpoint: of a folder of checkpoints: newest, best or a step.
        processes: processes a host; 0 for what the cluster says, else one a GPU, else one.

    Raises:
        InputError: no model that can be opened.
    """
    settings = {name: value for name, value in locals().items() if name not in _NOT_SETTINGS}
    with (
        _opened(model, checkpoint) as folder,
        tempfile.TemporaryDirectory(prefix="drivetrain-evaluate-") as results,
    ):
        numbers = Path(results) / "metrics.json"
        folders = {"model": folder, "data": data, "metrics": numbers, "report": report}
        command = [
            *(sys.executable, "-m", "drivetrain.training_scripts.launch", f"--processes={processes}"),
            "drivetrain.training_scripts.evaluate",
            *(f"--{name}={path}" for name, path in folders.items() if path is not None),
            f"--model-hash={content_hash(folder)}",
            # One argument each, joined by "=": a value may begin with a dash.
            *(f"--{name.replace('_', '-')}={value}" for name, value in settings.items()),
        ]
        _run(command)
        # The first process of all writes them; it is on another host, perhaps.
        return json.loads(numbers.read_text(encoding="utf-8")) if numbers.exists() else {}


@contextmanager
def _opened(model: Path, checkpoint: str) -> Generator[Path]:
    """The model's folder: given, unpacked, or made of a checkpoint."""
    is_folder = model.is_dir() and not (model / DESCRIPTION).is_file() and not (model / ARCHIVE).is_file()
    if not (is_folder and _has_checkpoints(model)):
        if checkpoint != "newest":
            raise InputError(
                f"checkpoint={checkpoint!r}, but {model} is no folder of checkpoints. Give the checkpoints of a "
                "training, or leave checkpoint out."
            )
        with open_model(model) as folder:
            yield folder
        return
    with tempfile.TemporaryDirectory(prefix="drivetrain-model-") as exported:
        folder = Path(exported) / "model"
        program = (sys.executable, "-m", "drivetrain.training_scripts.checkpoints")
        command = [*program, "export", f"--out={folder}", "--", str(model), checkpoint]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise InputError(done.stderr.strip().removeprefix("error: "))
        print(done.stderr, end="", file=sys.stderr, flush=True)  # which damaged ones it passed by
        yield folder


def _has_checkpoints(folder: Path) -> bool:
    """Whether it is a checkpoint of our trainings, the folder of a training, or one of several trainings."""
    own = _CHECKPOINT.fullmatch(folder.name) and (folder / "manifest.json").is_file()
    return bool(own) or any(
        _CHECKPOINT.fullmatch(path.parent.name)
        for pattern in ("step-*/manifest.json", "*/step-*/manifest.json")
        for path in folder.glob(pattern)
    )


def _run(command: list[str]) -> None:
    # It ends when this process does: it is told who started it.
    environment = {**os.environ, "DRIVETRAIN_PARENT_PID": str(os.getpid())}
    code = subprocess.run(command, env=environment, check=False).returncode
    if code:
        sys.exit(code)  # the program has said why


if __name__ == "__main__":
    evaluate.main()
