"""Evaluate a trained model on prepared data.

    python -m drivetrain.training_scripts.evaluate --model build/model --data build/test --metrics build/metrics.json

The file gets one flat JSON object: num_samples, loss, the recipe's metrics, and each metric over the samples of each
class that occurs (accuracy_class_3).
"""

from __future__ import annotations

import argparse
import json
import math
import signal
from pathlib import Path

from drivetrain.training_scripts import plugins
from drivetrain.training_scripts.data.dataset import Dataset
from drivetrain.training_scripts.distribution.layout import Layout
from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.evaluation import evaluate
from drivetrain.training_scripts.launching.failure import run_rank
from drivetrain.training_scripts.launching.parent import die_with_parent
from drivetrain.training_scripts.models.saved_model import load_model
from drivetrain.training_scripts.process import Process, join_group


def run(model_folder: Path, data: Path, process: Process, *, batch_size: int) -> dict[str, float]:
    """The numbers of a model folder on a folder of prepared data.

    Raises:
        InputError: a folder that is not what it should be, or a model whose numbers are not finite.
    """
    if process.world_size != 1:
        raise InputError(f"evaluate runs as one process on one host, but {process.world_size} were started.")
    if batch_size < 1:
        raise InputError(f"batch_size={batch_size}; allowed are whole numbers from 1.")
    recipe, model, description = load_model(model_folder)
    model = model.to(process.device).eval()
    dtype = next(model.parameters()).dtype
    trained_on = description.get("data", {})
    dataset = Dataset(
        data,
        recipe,
        process,
        reader=trained_on.get("reader", "auto"),
        reader_options=trained_on.get("reader_options", {}),
        split="test",
        fitted=trained_on.get("fitted"),
    )
    result = evaluate(model, dataset, Layout(process, {}), batch_size=batch_size, dtype=dtype)
    numbers = {"num_samples": result.num_samples, **result.means, **result.class_means}
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise InputError(f"{name} of the model in {model_folder} on {data} is {value}. Train it again.")
    return numbers


def main() -> None:
    die_with_parent(signal.SIGKILL)
    parser = argparse.ArgumentParser(
        prog="python -m drivetrain.training_scripts.evaluate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--metrics", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--batch-size", type=int, default=256)
    given = parser.parse_args()

    def program() -> None:
        plugins.forget_current_folder()  # the model says which recipe it is of
        with join_group() as process:
            numbers = run(given.model, given.data, process, batch_size=given.batch_size)
        given.metrics.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")

    run_rank(program)


if __name__ == "__main__":
    main()
