"""Calibrate a model's probabilities or intervals, and choose its threshold by what errors cost.

    python -m drivetrain.components.calibrate --trained build/model --data build/calibration --model build/calibrated \\
        --false-negative-cost 5

The calibrated model is the same folder with a block `calibration` in model.json: docs/calibration.md.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from drivetrain.registry.model_folder import open_model
from drivetrain.steps import Input, Output, programs
from drivetrain.steps.declaration import component
from drivetrain.steps.user_code import without_credentials
from drivetrain.training.calibration_config import CalibrationConfig


@component(needs=("torch", "pyarrow", "numpy", "safetensors"), settings=CalibrationConfig)
def calibrate(trained: Input, data: Input, model: Output, **settings: Any) -> dict[str, float]:
    """Calibrate a model's probabilities or intervals.

    Probabilities of two classes become Platt's, of several those at a temperature. A number gets an interval that holds
    what is right for the share `coverage` of new rows; one that the model gives is moved. With costs, the threshold of
    two classes is chosen. It runs in one process.

    Args:
        trained: the output `model` of a training step, as a folder or as model.tar.gz.
        data: prepared rows that nothing else has used: the output `calibration` of prepare_data.
        model: gets the model with its calibration, which evaluate, compare, batch_predict and endpoints apply.

    Raises:
        InputError: no model that can be opened; it or the data is not for a calibration.
    """
    from drivetrain.training.launch.cluster import numbers_of
    from drivetrain.training.model_folder import tensors_of

    process = programs.ahead("drivetrain.components.calibrate")
    with open_model(trained) as folder, tempfile.TemporaryDirectory(prefix="drivetrain-calibrate-") as results:
        numbers = Path(results) / "metrics.json"
        folders = {"model": folder, "data": data, "output": model, "metrics": numbers}
        # A model of functions runs its own code.
        environment = without_credentials() if not tensors_of(folder) else None
        command = programs.launcher("drivetrain.training_scripts.calibrate", 1, folders, settings)
        programs.run(command, process=process, environment=environment)
        return numbers_of(numbers)


if __name__ == "__main__":
    calibrate.main()
