"""Predict every row of a data set, on as many processes and hosts as the step is given.

    python -m drivetrain.components.batch_predict --model build/model --data build/new --output build/predictions \\
        --metrics build/metrics --keep id,site --processes 2

The output is a Parquet file for each so many rows, in the order of the data, and a manifest. Repeated on the same
folder, or beside it with --previous, it does what is missing.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from drivetrain.registry.model_folder import open_model
from drivetrain.steps import Input, Output, programs
from drivetrain.steps.declaration import component
from drivetrain.steps.user_code import without_credentials
from drivetrain.training.prediction.settings import Settings


@component(needs=("torch", "pyarrow", "numpy", "safetensors"), settings=Settings)
def batch_predict(
    model: Input,
    data: Input,
    previous: Input | None,
    output: Output,
    *,
    processes: int = 0,
    **settings: Any,
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
        processes: processes a host; 0 for what the cluster says, else one a GPU, else one.

    Raises:
        InputError: no model that can be opened.
    """
    from drivetrain.training.launch.cluster import numbers_of
    from drivetrain.training.model_folder import tensors_of

    process = programs.ahead("drivetrain.components.batch_predict")
    with open_model(model) as folder, tempfile.TemporaryDirectory(prefix="drivetrain-predict-") as results:
        numbers = Path(results) / "metrics.json"
        folders = {"model": folder, "data": data, "previous": previous, "output": output, "metrics": numbers}
        # A model of functions runs its own code.
        environment = without_credentials() if not tensors_of(folder) else None
        command = programs.launcher("drivetrain.training_scripts.predict", processes, folders, settings)
        programs.run(command, process=process, environment=environment)
        return numbers_of(numbers)


if __name__ == "__main__":
    batch_predict.main()
