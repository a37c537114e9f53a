"""The network of mnist_cnn in Keras, for MNIST's handwritten digits: the same layers, dropout, losses and data.

    python -m drivetrain.training_scripts.train --train mnist --model build/model --recipe mnist_keras \\
        --strategy tf_single

Keras is imported where it is used: TensorFlow Serving's image, where requests become batches, has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError
from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Batch
from drivetrain.training.tensorflow.decay import decay_matrices
from drivetrain.training.tensorflow.pictures import normalized

FRAMEWORK = "tensorflow"
SIDE = 28
MEAN, STD = (0.1307,), (0.3081,)  # of the 60,000 training images


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Two convolutions, a pooling, a hidden layer."""

    columns: ClassVar[tuple[str, ...]] = ("image",)
    reader: ClassVar[str] = "mnist"

    num_classes: Annotated[int, Bounds(1)] = 10
    """Classes; labels are 0 to num_classes - 1."""
    channels: Annotated[int, Bounds(1)] = 32
    """Feature maps of the first convolution; the second has twice as many."""
    hidden: Annotated[int, Bounds(1)] = 128
    """Units of the hidden layer."""
    dropout: Annotated[float, Bounds(0, below=0.5)] = 0.25
    """Share of the features before the hidden layer that are dropped while training; after it, twice as many."""

    def model(self) -> Any:
        import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        layers = keras.layers
        return keras.Sequential(
            [
                keras.Input((SIDE, SIDE, 1)),
                layers.Conv2D(self.channels, 3, activation="relu"),
                layers.Conv2D(2 * self.channels, 3, activation="relu"),
                layers.MaxPooling2D(2),
                layers.Dropout(self.dropout),
                layers.Permute((3, 1, 2)),  # as torch flattens: channels first
                layers.Flatten(),
                layers.Dense(self.hidden, activation="relu"),
                layers.Dropout(2 * self.dropout),
                layers.Dense(self.num_classes),
            ]
        )

    def batch(self, columns: Columns, label: str) -> Batch:
        images = columns["image"]
        if images.shape[1:] != (SIDE, SIDE, 1):
            raise InputError(f"recipe 'mnist_keras' takes grey images of {SIDE}x{SIDE}; these are {images.shape[1:]}.")
        pixels: Any = normalized(images, MEAN, STD)
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

        return decay_matrices(keras.optimizers.AdamW(learning_rate, weight_decay=weight_decay, epsilon=1e-8), model)
