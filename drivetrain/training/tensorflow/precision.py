"""The number formats of a Keras model: that of its parameters, and Keras's policy for its layers."""

from __future__ import annotations

from dataclasses import dataclass

import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

from drivetrain.training.errors import unknown_name

# Below it, gradients of the size of one overflow: it is not their scale that is wrong.
SMALLEST_LOSS_SCALE = 2.0**-14


@dataclass(frozen=True)
class Precision:
    """`parameters`: what is stored, updated and summed in. `policy`: https://keras.io/api/mixed_precision/policy."""

    parameters: str
    policy: str
    tf32: bool = False

    def set_up(self) -> None:
        """Let models that are made from now on compute so. TensorFlow by itself rounds to TF32 on GPUs."""
        tf.config.experimental.enable_tensor_float_32_execution(self.tf32)
        keras.config.set_floatx(self.parameters)
        keras.config.set_dtype_policy(self.policy)


PRECISIONS = {
    "fp32": Precision("float32", "float32"),
    "fp64": Precision("float64", "float64"),
    "tf32": Precision("float32", "float32", tf32=True),
    "bf16": Precision("float32", "mixed_bfloat16"),
    "fp16": Precision("float32", "mixed_float16"),
}


def precision_of(name: str) -> Precision:
    """Raises InputError: no such precision, with the closest match."""
    if name not in PRECISIONS:
        raise unknown_name("precision", name, PRECISIONS)
    return PRECISIONS[name]
