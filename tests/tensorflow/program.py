"""What a test has done in the environment with TensorFlow: Config's fields and a few folders, as JSON.

    program.py '{"data": ..., "runs": [{"target": ..., "config": {...}}, ...], "evaluate": [...], "predict": [...]}'

The last line is a JSON object: what is noted of each run (or why it was refused), and what the evaluations found.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.steps.trainings import EXECUTION
from drivetrain.training.config import Config, Folders
from drivetrain.training.process import Process, join_group
from drivetrain.training_scripts import evaluate, predict
from drivetrain.training_scripts.train import train


def main() -> None:
    given: dict[str, Any] = json.loads(sys.argv[1])
    data = Path(given["data"])
    os.environ[EXECUTION] = "one"  # in which a training may be made longer
    found: dict[str, Any] = {"runs": [], "evaluations": [], "shards": [], "exports": []}
    with join_group(given.get("timeout", 60.0), "tensorflow") as process:
        for run in given.get("runs", []):
            found["runs"].append(done(run, data, process))
        for one in given.get("twins", []):
            make_twin(one)
        for model in given.get("evaluate", []):
            of = Path(given.get("data_of", {}).get(model, data))
            found["evaluations"].append(evaluate.run(Path(model), of, process, report=Path(f"{model}-report")))
        for model in given.get("predict", []):
            output = Path(f"{model}-predictions")
            found["shards"].append(predict.run(Path(model), data, output, process)["shards_predicted"])
        found["exports"] = [exported(Path(model), data) for model in given.get("exports", [])]
    if process.is_main:
        print(json.dumps(found), flush=True)


def done(run: dict[str, Any], data: Path, process: Process) -> dict[str, Any]:
    """What is noted of a training; of one that is `refused`, only what was said."""
    target, data = Path(run["target"]), Path(run.get("data", data))
    folders = Folders(
        train=data,
        validation=data if run.get("validates", True) else None,
        model=target / "model",
        output=target / "output",
        weights=Path(run["weights"]) if "weights" in run else None,
        checkpoints=target / "checkpoints",
    )
    with noted() as notes:
        try:
            train(
                Config(**run["config"]), folders, replace(process, world_size=run.get("world_size", process.world_size))
            )
        except InputError as error:
            if not run.get("refused"):
                raise
            return {"refused": str(error)}
    return notes()


def make_twin(given: dict[str, Any]) -> None:
    """A model folder of `recipe` in `target` with the weights of the folder `torch`, taken in the order `names`."""
    from safetensors.numpy import load_file

    from drivetrain.training.model_folder import read_description
    from drivetrain.training.plugins import load_framework
    from drivetrain.training.recipe import load_recipe
    from drivetrain.training.tensorflow.strategy import variables_of

    framework, tensors = load_framework("tensorflow"), load_file(Path(given["torch"]) / "model.safetensors")
    description = read_description(Path(given["torch"])) | {"framework": "tensorflow", "recipe": given["recipe"]}
    description = {name: value for name, value in description.items() if name not in ("weights", "format")}
    description["recipe_options"] = given["options"]
    model = framework.build_model(load_recipe(given["recipe"], given["options"]))
    # [out, in, rows, columns] is Keras's [rows, columns, in, out], [out, in] its [in, out], but for embeddings.
    turned = {4: (2, 3, 1, 0), 2: (1, 0), 1: (0,)}
    values = [tensors[name] for name in given["names"]]
    kept = given.get("embeddings", [])
    model.set_weights(
        [v if n in kept else v.transpose(turned[v.ndim]) for n, v in zip(given["names"], values, strict=True)]
    )
    weights = {name: variable.numpy() for name, variable in variables_of(model).items()}
    framework.save_model(Path(given["target"]), weights, description)


def exported(folder: Path, data: Path) -> dict[str, bool]:
    """Whether what was exported, loaded again, gives the outputs of the model to the bit. The inputs and outputs of all
    rows are left in `folder`."""
    import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
    import numpy as np

    from drivetrain.training import trees
    from drivetrain.training.input_pipeline.dataset import Dataset
    from drivetrain.training.plugins import load_framework
    from drivetrain.training.serving.saved_model import ServedModel

    framework = load_framework("tensorflow")
    recipe, model, _ = framework.load_model(folder)
    dataset = Dataset(data, recipe, Process(0, 1, 0, 1, "cpu"))
    batch = dataset.batch(np.arange(len(dataset)))
    inputs = framework.on_device(batch, "cpu", framework.precision_of(model)).inputs
    outputs = trees.mapped(np.asarray, model(inputs, training=False))
    found = outputs if isinstance(outputs, dict) else {"outputs": outputs}
    given = inputs if isinstance(inputs, dict) else {"inputs": inputs}
    np.savez(folder.parent / "computed.npz", **given, **found)
    again = keras.models.load_model(folder / "model.keras")

    def is_equal(other: Any) -> bool:
        named = other if isinstance(other, dict) else {"outputs": other}
        return named.keys() == found.keys() and all(np.array_equal(named[name], found[name]) for name in found)

    return {
        "saved_model": is_equal(ServedModel.load(folder).compute(inputs)),
        "keras": is_equal(again(inputs, training=False)),
    }


@contextmanager
def noted() -> Generator[Any]:
    """What the strategies that are made inside come to."""
    import tensorflow as tf

    from drivetrain.training.tensorflow.strategy import Strategy

    made: list[Any] = []
    init = Strategy.__init__
    recipes = sys.modules.get("tests.tensorflow.noting")
    if recipes:
        recipes.Recipe.rows.clear()
        recipes.Recipe.labels.clear()

    def noting(strategy: Any, *given: Any) -> None:
        init(strategy, *given)
        made.append((strategy, tf.config.experimental.tensor_float_32_execution_enabled()))

    def notes() -> dict[str, Any]:
        ((strategy, tf32),) = made
        recipes = sys.modules.get("tests.tensorflow.noting")
        return {
            "traces": strategy._step.experimental_get_tracing_count(),
            "computes_in": strategy.model.compute_dtype,
            "tf32": tf32,
            "xla": bool(getattr(strategy._of_piece, "_jit_compile", False)),
            "loss_scale": float(strategy.loss_scale.numpy()) if strategy.scales else None,
            "rows": list(recipes.Recipe.rows) if recipes else [],
            "labels": [label for labels in recipes.Recipe.labels for label in labels] if recipes else [],
        }

    Strategy.__init__ = noting  # type: ignore[method-assign]
    try:
        yield notes
    finally:
        Strategy.__init__ = init  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
