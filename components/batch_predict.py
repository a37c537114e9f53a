"""Predict every row of a data set, on as many processes and hosts as the step is given.

    python -m drivetrain.components.batch_predict --model build/model --data build/new --output build/predictions \\
        --metrics build/metrics --keep id,site --processes 2

The output is a Parquet file for each so many rows, in the order of the data, and a manifest. Repeated on the same
folder, or beside it with --previous, it does what is missing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

from drivetrain.registry.model_folder import open_model
from drivetrain.steps.contract import Input, Output
from drivetrain.steps.declaration import component

# What is no parameter of the program of the same name.
_NOT_SETTINGS = ("model", "data", "previous", "output", "processes")


@component(needs=("torch", "pyarrow", "numpy", "safetensors"))
def batch_predict(
    model: Input,
    data: Input,
    previous: Input | None,
    output: Output,
    *,
    batch_size: int = 256,
    rows_per_shard: int = 65536,
    threads: int = 1,
    keep: str = "",
    reader: str = "auto",
    reader_options: str = "{}",
    strategy: str = "ddp",
    strategy_options: str = "{}",
    on_change: Literal["refuse", "fresh"] = "refuse",
    processes: int = 0,
) -> dict[str, float]:
    """Predict every row of a data set.

    Every host runs this command, with all of the data, and writes its share of the shards. The first one has the
    numbers and the manifest; the others return nothing.

    Args:
        model: the output `model` of a training step, as a folder or as model.tar.gz.
        data: the rows to predict, with a label or without.
        previous: the output of an earlier run: its shards are taken over where model, data and settings are the same.
        output: gets part-00000.parquet, ... with the columns row, key, predicted, score (or score_0, score_1, ...)
            and those of `keep`; and manifest.json, last.
        batch_size: samples a forward pass.
        rows_per_shard: rows of a file; made a multiple of batch_size.
        threads: threads that each process computes with on the CPU; another number rounds otherwise.
        keep: columns of the data to hand on, with commas: "id, site".
        reader: the format of the data; auto for that of the training data.
        reader_options: the reader's options, a JSON object.
        strategy: ddp for a model that fits into each process, or fsdp, tp, pp, ... for one that does not.
        strategy_options: the strategy's options, a JSON object: '{"tensor": 2}'.
        on_change: what to do with predictions of another model, other data or other settings: refuse or fresh.
        processes: processes a host; 0 for what the cluster says, else one a GPU, else one.

    Raises:
        InputError: no model that can be opened.
    """
    settings = {name: value for name, value in locals().items() if name not in _NOT_SETTINGS}
    with open_model(model) as folder, tempfile.TemporaryDirectory(prefix="drivetrain-predict-") as results:
        numbers = Path(results) / "metrics.json"
        folders = {"model": folder, "data": data, "previous": previous, "output": output, "metrics": numbers}
        command = [
            *(sys.executable, "-m", "drivetrain.training_scripts.launch", f"--processes={processes}"),
            "drivetrain.training_scripts.predict",
            *(f"--{name}={path}" for name, path in folders.items() if path is not None),
            # One argument each, joined by "=": a value may begin with a dash.
            *(f"--{name.replace('_', '-')}={value}" for name, value in settings.items()),
        ]
        # The launcher ends when this process does: it is told who started it.
        environment = {**os.environ, "DRIVETRAIN_PARENT_PID": str(os.getpid())}
        code = subprocess.run(command, env=environment, check=False).returncode
        if code:
            sys.exit(code)  # the launcher has said why
        # The first process of all writes them; it is on another host, perhaps.
        return json.loads(numbers.read_text(encoding="utf-8")) if numbers.exists() else {}


if __name__ == "__main__":
    batch_predict.main()
