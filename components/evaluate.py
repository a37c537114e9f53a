"""Evaluate a trained model on prepared data.

    python -m drivetrain.components.evaluate --model build/model --data build/test --metrics build/metrics

The numbers that come back: num_samples, loss, the recipe's metrics (accuracy), and each metric over the samples of each
class that occurs (accuracy_class_3).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from drivetrain.components.declaration import Input, component
from drivetrain.components.errors import InputError
from drivetrain.components.model_folder import open_model


@component(needs=("torch", "pyarrow", "numpy", "safetensors"))
def evaluate(model: Input, data: Input, *, batch_size: int = 256) -> dict[str, float]:
    """Evaluate a trained model on prepared data.

    Args:
        model: the output `model` of a training step, as a folder or as model.tar.gz.
        data: the prepared data to measure on.
        batch_size: samples a forward pass.

    Raises:
        InputError: more than one host, or no model that can be opened.
    """
    # Each host would measure the same model on its own copy of the data and write the same file.
    hosts = os.environ.get("DRIVETRAIN_HOSTS", "one").split(",")
    if len(hosts) > 1:
        raise InputError(
            f"evaluate runs on one host, but this step has {len(hosts)} ({', '.join(hosts)}). Give it one."
        )
    with open_model(model) as folder, tempfile.TemporaryDirectory(prefix="drivetrain-evaluate-") as results:
        numbers = Path(results) / "metrics.json"
        command = [
            *(sys.executable, "-m", "drivetrain.training_scripts.launch", "--processes=1"),
            *("drivetrain.training_scripts.evaluate", f"--model={folder}", f"--data={data}"),
            *(f"--metrics={numbers}", f"--batch-size={batch_size}"),
        ]
        # The launcher ends when this process does: it is told who started it.
        environment = {**os.environ, "DRIVETRAIN_PARENT_PID": str(os.getpid())}
        code = subprocess.run(command, env=environment, check=False).returncode
        if code:
            sys.exit(code)  # the launcher has said why
        return json.loads(numbers.read_text(encoding="utf-8"))


if __name__ == "__main__":
    evaluate.main()
