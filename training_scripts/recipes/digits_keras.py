"""The network of digits_cnn in Keras: the same layers, losses and data.

Weights come from one to the other by their order: a convolution's [out, in, 3, 3] is Keras's [3, 3, in, out], a
linear layer's [out, in] its [in, out]; the first hidden layer's inputs are in the order of torch (channels first).

Keras is imported where it is used: TensorFlow Serving's image, where requests become batches, has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from drivetrain.base.bounds import Bounds
from drivetrain.training.reader import Columns, matrix
from drivetrain.training.recipe import Batch

FRAMEWORK = "tensorflow"
SIDE = 8
BRIGHTEST = 16.0


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Two convolutions, a pooling, a hidden layer; nothing in it looks across samples."""

    channels: Annotated[int, Bounds(1)] = 32
    """Feature maps of the first convolution; the second has twice as many."""
    hidden: Annotated[int, Bounds(1)] = 128
    """Units of the hidden layer."""
    num_classes: Annotated[int, Bounds(1)] = 10
    """Classes; labels are 0 to num_classes - 1."""
    optimizer_name: Literal["adamw", "sgd"] = "adamw"
    """adamw, or sgd: with a momentum of 0.9 and without weight decay."""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"p{i}" for i in range(SIDE * SIDE))

    def model(self) -> Any:
        import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        layers = keras.layers
        return keras.Sequential(
            [
                keras.Input((SIDE, SIDE, 1)),
                layers.Conv2D(self.channels, 3, padding="same", activation="relu"),
                layers.Conv2D(2 * self.channels, 3, padding="same", activation="relu"),
                layers.MaxPooling2D(2),
                layers.Permute((3, 1, 2)),
                layers.Flatten(),
                layers.Dense(self.hidden, activation="relu"),
                layers.Dense(self.num_classes),
            ]
        )

    def batch(self, columns: Columns, label: str) -> Batch:
        pixels: Any = (matrix(columns, self.columns).astype(np.float32) / BRIGHTEST).reshape(-1, SIDE, SIDE, 1)
        targets: Any = columns[label].astype(np.int64)
        return Batch(pixels, targets)

    def losses(self, outputs: Any, targets: Any) -> Any:
        import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        return tf.nn.sparse_softmax_cross_entropy_with_logits(targets, outputs)

    def metrics(self, outputs: Any, targets: Any) -> dict[str, Any]:
        import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        return {"accuracy": tf.argmax(outputs, axis=1) == targets}

    def optimizer(self, model: Any, *, learning_rate: float, weight_decay: float) -> Any:
        import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        if self.optimizer_name == "sgd":
            return keras.optimizers.SGD(learning_rate, momentum=0.9)
        return keras.optimizers.AdamW(learning_rate, weight_decay=weight_decay, epsilon=1e-8)
