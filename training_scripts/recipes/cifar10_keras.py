"""The residual network of cifar10_resnet in Keras, for CIFAR-10: the same layers, losses, data and changes of images.

    python -m drivetrain.training_scripts.train --train cifar-10-batches-bin --model build/model \\
        --recipe cifar10_keras --strategy tf_single

Two things differ while it learns: Keras's weight decay does not go through the momentum (it is decoupled, as AdamW's),
and the running variance of a batch normalization is the biased one. Keras is imported where it is used: TensorFlow
Serving's image has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError
from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Batch
from drivetrain.training.tensorflow.decay import decay_matrices
from drivetrain.training.tensorflow.pictures import crop_and_flip, normalized

FRAMEWORK = "tensorflow"
SIDE = 32
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of the 50,000 training images
MOMENTUM = 0.9
# Of torch's batch normalization, where momentum is the share of the new value.
EPSILON, KEPT = 1e-5, 0.9


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """ResNet-20, or a deeper one. While training, images are shifted by up to four pixels and mirrored."""

    columns: ClassVar[tuple[str, ...]] = ("image",)
    reader: ClassVar[str] = "cifar10"

    num_classes: Annotated[int, Bounds(1)] = 10
    """Classes; labels are 0 to num_classes - 1."""
    depth: Annotated[int, Bounds(8)] = 20
    """Layers with weights: 6n + 2, as 20, 32, 44, 56 or 110."""
    width: Annotated[int, Bounds(1)] = 16
    """Feature maps of the first layers; the last have four times as many."""
    padding: Annotated[int, Bounds(0)] = 4
    """Pixels by which training images are shifted at most; 0 for none."""

    def __post_init__(self) -> None:
        if (self.depth - 2) % 6:
            raise ValueError(f"depth={self.depth}; allowed are numbers 6n + 2, such as 20, 32, 44 and 56")

    def model(self) -> Any:
        import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        inputs: Any = keras.Input((SIDE, SIDE, 3))
        x = keras.layers.ReLU()(_normalized(_convolved(inputs, self.width, 1)))
        for group in range(3):
            for number in range((self.depth - 2) // 6):
                x = _block(x, self.width * 2**group, 2 if group and not number else 1)
        x = keras.layers.GlobalAveragePooling2D()(x)
        return keras.Model(inputs, keras.layers.Dense(self.num_classes)(x))

    def batch(self, columns: Columns, label: str) -> Batch:
        images = columns["image"]
        if images.shape[1:] != (SIDE, SIDE, 3):
            raise InputError(
                f"recipe 'cifar10_keras' takes colour images of {SIDE}x{SIDE}; these are {images.shape[1:]}."
            )
        pixels: Any = normalized(images, MEAN, STD)
        targets: Any = columns[label].astype(np.int64)
        return Batch(pixels, targets)

    def augment(self, batch: Batch, seeds: NDArray[np.uint64]) -> Batch:
        changed: Any = crop_and_flip(np.asarray(batch.inputs), seeds, padding=self.padding)
        return Batch(changed, batch.targets)

    def losses(self, outputs: Any, targets: Any) -> Any:
        import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        return tf.nn.sparse_softmax_cross_entropy_with_logits(targets, outputs)

    def metrics(self, outputs: Any, targets: Any) -> dict[str, Any]:
        import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        return {"accuracy": tf.argmax(outputs, axis=1) == targets}

    def optimizer(self, model: Any, *, learning_rate: float, weight_decay: float) -> Any:
        import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        return decay_matrices(keras.optimizers.SGD(learning_rate, MOMENTUM, weight_decay=weight_decay), model)


def _block(x: Any, width: int, stride: int) -> Any:
    """Two convolutions beside a shortcut without weights: every `stride`-th pixel, and further channels of zeros."""
    import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

    inner = keras.layers.ReLU()(_normalized(_convolved(x, width, stride)))
    inner = _normalized(_convolved(inner, width, 1))
    added = width - x.shape[-1]
    if stride > 1:
        x = x[:, ::stride, ::stride, :]
    if added:
        x = keras.ops.pad(x, ((0, 0), (0, 0), (0, 0), (0, added)))
    return keras.layers.ReLU()(inner + x)


def _convolved(x: Any, width: int, stride: int) -> Any:
    import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

    start = keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal")
    # One pixel on each side, as torch pads; with strides Keras's "same" would pad one side alone.
    x = keras.layers.ZeroPadding2D(1)(x)
    return keras.layers.Conv2D(width, 3, strides=stride, use_bias=False, kernel_initializer=start)(x)


def _normalized(x: Any) -> Any:
    import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

    return keras.layers.BatchNormalization(momentum=KEPT, epsilon=EPSILON)(x)
