"""Trainings of `adding_recipe` beside plain Keras, from one start: how far apart the weights are, as JSON.

adding.py DATA FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
import numpy as np
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
from safetensors.numpy import load_file, save_file

from drivetrain.base.errors import InputError
from drivetrain.training.config import Config, Folders
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.process import Process
from drivetrain.training.tensorflow import devices
from drivetrain.training.tensorflow.strategy import variables_of
from drivetrain.training_scripts.train import train
from tests.tensorflow.adding_recipe import Recipe

ALONE = Process(0, 1, 0, 1, "cpu")
STEPS, RATE = 15, 0.125
CPUS = '{"cpus": 2}'
WAYS: dict[str, dict[str, Any]] = {
    "single": {"strategy": "tf_single"},
    "pieces": {"strategy": "tf_single", "accumulation": 5},
    "compiled": {"strategy": "tf_single", "compile": True},
    "mirrored": {"strategy": "tf_mirrored", "strategy_options": CPUS},
    "central_storage": {"strategy": "tf_central_storage", "strategy_options": CPUS},
}
REFUSED: dict[str, dict[str, Any]] = {
    "adds": {"recipe_options": '{"hidden": 4, "layers": ["adds"]}'},
    "activations": {"recipe_options": '{"hidden": 4, "layers": ["activations"]}'},
    "weights": {"recipe_options": '{"hidden": 4, "layers": ["weights"]}'},
}


def main(data: Path, folder: Path) -> None:
    devices.replica_devices(2)  # before anything is computed
    keras.config.set_floatx("float64")
    recipe = Recipe(hidden=8)
    model = recipe.model()
    model.set_weights([each.astype(np.float32) for each in model.get_weights()])  # as a training takes them
    start = {name: variable.numpy() for name, variable in variables_of(model).items()}
    save_file(start, folder / "start.safetensors")
    learn(recipe, model, data)
    plain = {name: variable.numpy() for name, variable in variables_of(model).items()}
    assert max(np.abs(plain[name] - start[name]).max() for name in plain) > 0.01
    keras.config.set_floatx("float32")
    common = {"global_batch": 50, "recipe_options": '{"hidden": 8}', "epochs": STEPS}
    apart, refused = {}, {}
    for name, change in WAYS.items():
        found = fit(data, folder / name, common | change, folder / "start.safetensors")
        apart[name] = max(float(np.abs(found[key] - plain[key]).max()) for key in plain)
    for name, change in REFUSED.items():
        try:
            fit(data, folder / name, {"global_batch": 49, "max_steps": 1} | WAYS["mirrored"] | change)
            refused[name] = ""
        except InputError as error:
            refused[name] = str(error)
    print(json.dumps({"apart": apart, "refused": refused}))


def learn(recipe: Recipe, model: Any, data: Path) -> None:
    """The loop of Keras's guide: the mean of the losses, and what the model's `losses` say."""
    dataset = Dataset(data, recipe, ALONE)
    batch = dataset.batch(np.arange(len(dataset)))
    optimizer = keras.optimizers.SGD(RATE)
    for _ in range(STEPS):
        with tf.GradientTape() as tape:
            outputs = model(tf.constant(batch.inputs, tf.float64), training=True)
            loss = tf.reduce_mean(recipe.losses(outputs, batch.targets)) + tf.add_n(model.losses)
        optimizer.apply(
            tape.gradient(loss, [each.value for each in model.trainable_variables]), model.trainable_variables
        )


def fit(data: Path, folder: Path, change: dict[str, Any], weights: Path | None = None) -> dict[str, Any]:
    given: dict[str, Any] = {
        "recipe": "tests.tensorflow.adding_recipe",
        "precision": "fp64",
        "schedule": "constant",
        "warmup_epochs": 0.0,
        "clip_norm": 0.0,
    }
    fields: dict[str, Any] = given | {"learning_rate": RATE} | change
    config = Config(**fields)
    train(config, Folders(train=data, model=folder / "model", output=folder, weights=weights), ALONE)
    return load_file(folder / "model/model.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
