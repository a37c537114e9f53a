"""digits_keras with trees in place of tensors: the same numbers, and beside them what nothing depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
import numpy as np

from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Batch
from drivetrain.training.tensorflow.values import Values
from drivetrain.training_scripts.recipes import digits_keras

FRAMEWORK = "tensorflow"


@dataclass(frozen=True, kw_only=True)
class Recipe(digits_keras.Recipe):
    """Takes {"picture": ..., "mask": ...}, gives {"logits": ..., "answer": ...}."""

    def model(self) -> Any:
        plain = super().model()
        inputs = {"picture": keras.Input((8, 8, 1), name="picture"), "mask": keras.Input((1,), name="mask")}
        logits = plain(inputs["picture"]) + 0.0 * inputs["mask"]
        return keras.Model(inputs, {"logits": logits, "answer": keras.ops.argmax(logits, axis=1)})

    def batch(self, columns: Columns, label: str) -> Batch:
        batch = super().batch(columns, label)
        mask = np.ones((len(batch.inputs), 1), np.float32)
        return Batch({"picture": batch.inputs, "mask": mask}, (batch.targets, mask))

    def losses(self, outputs: Any, targets: Any) -> Any:
        return super().losses(outputs["logits"], targets[0])

    def metrics(self, outputs: Any, targets: Any) -> dict[str, Any]:
        return super().metrics(outputs["logits"], targets[0])

    def truth(self, targets: Any) -> Any:
        return targets[0]

    def scores(self, outputs: Any) -> Any:
        return Values.softmax(outputs["logits"])

    def predicted(self, outputs: Any) -> Any:
        return outputs["answer"]
