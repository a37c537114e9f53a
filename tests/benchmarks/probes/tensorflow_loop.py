"""Ten steps of our loop under MirroredStrategy, ten of one by hand, and so on: CPU seconds of each segment, as JSON.

python tensorflow_loop.py FOLDER SEGMENTS
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from drivetrain.training.config import Config, Folders
from drivetrain.training.process import join_group
from drivetrain.training.recipe import load_recipe
from drivetrain.training_scripts import train as program
from tests.distributed.prepared_data import digit_columns, write_prepared

BATCH, STEPS, WARM, ROWS = 64, 10, 4, 640
OPTIONS = {"channels": 16, "hidden": 64, "optimizer_name": "sgd"}
RATE = 0.01


class ByHand:
    """The loop of https://www.tensorflow.org/tutorials/distribute/custom_training.

    It trains on the batches that ours had, in memory before it begins.
    """

    def __init__(self, strategy: Any, weights: list[Any], batches: list[tuple[Any, Any]]) -> None:
        import tensorflow as tf

        recipe = load_recipe("digits_keras", OPTIONS)
        with strategy.scope():
            model: Any = recipe.model()
            model.set_weights(weights)
            optimizer: Any = recipe.optimizer(model, learning_rate=RATE, weight_decay=0.0)
            optimizer.build(model.trainable_variables)
        images, labels = (np.concatenate(each) for each in zip(*batches, strict=True))
        data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(BATCH).prefetch(2)
        self._batches = iter(strategy.experimental_distribute_dataset(data))
        self.losses: list[float] = []

        def step(inputs: Any, targets: Any) -> Any:
            with tf.GradientTape() as tape:
                losses: Any = recipe.losses(model(inputs, training=True), targets)
                loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)  # which sums them over the replicas
            return loss

        @tf.function
        def distributed(inputs: Any, targets: Any) -> Any:
            return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step, args=(inputs, targets)), axis=None)

        self._step = distributed

    def steps(self, count: int) -> None:
        taken = [self._step(*next(self._batches)) for _ in range(count)]
        self.losses += [float(loss) for loss in taken]


def main() -> None:
    folder, segments = Path(sys.argv[1]), int(sys.argv[2])
    total = STEPS * segments
    data = write_prepared(folder / "data", digit_columns(ROWS))
    config = Config(
        recipe="digits_keras",
        recipe_options=json.dumps(OPTIONS),
        strategy="tf_mirrored",
        strategy_options='{"cpus": 2}',
        global_batch=BATCH,
        epochs=total,
        max_steps=total,
        learning_rate=RATE,
        weight_decay=0.0,
        schedule="constant",
        warmup_epochs=0.0,
        checkpoint_every="10h",
    )
    given: list[tuple[Any, Any]] = []
    state: dict[str, Any] = {"losses": [], "ours": [], "by hand": []}
    take, first = program.Training.take_step, {}

    def collect(training: Any, batch: Any) -> Any:
        """The first training only shows which batches there are, and what it starts from."""
        if not first:
            first.update(weights=[np.array(each) for each in training.strategy.model.get_weights()])
            first.update(strategy=training.strategy.distribution)
        given.append((np.array(batch.batch.inputs), np.array(batch.batch.targets)))
        return take(training, batch)

    def timed(training: Any, batch: Any) -> Any:
        if "began" not in state:
            state["began"] = time.process_time()
        at = take(training, batch)
        state["losses"].append(training.state.losses.total)
        if training.state.step % STEPS == 0:
            state["ours"].append(time.process_time() - state["began"])
            began = time.process_time()
            state["hand"].steps(STEPS)
            state["by hand"].append(time.process_time() - began)
            state["began"] = time.process_time()
        return at

    with join_group(60.0, "tensorflow") as process:
        folders = Folders(train=data, model=folder / "model", output=folder / "output", checkpoints=folder / "kept")
        program.Training.take_step = collect  # type: ignore[method-assign]
        program.train(config, Folders(train=data, model=folder / "first"), process)
        state["hand"] = ByHand(first["strategy"], first["weights"], given)
        program.Training.take_step = timed  # type: ignore[method-assign]
        program.train(config, folders, process)
    sums = [float(loss) for loss in state["losses"]]
    per_epoch = ROWS // BATCH
    ours = [(now - (0.0 if number % per_epoch == 0 else sums[number - 1])) / BATCH for number, now in enumerate(sums)]
    difference = max(abs(one - other) for one, other in zip(ours, state["hand"].losses, strict=True))
    segments_of = {"drivetrain": state["ours"][WARM:], "by hand": state["by hand"][WARM:]}
    print(json.dumps({"segments": segments_of, "difference": difference}), flush=True)


if __name__ == "__main__":
    main()
