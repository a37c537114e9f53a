"""Find the variables of a Keras model to which an optimizer's weight decay applies."""

from __future__ import annotations

from typing import Any


def decay_matrices(optimizer: Any, model: Any) -> Any:
    """Let matrices and kernels decay, and not biases and the scales of normalizations (the reasons are in
    torch/models/parameter_groups.py); returns the optimizer."""
    optimizer.exclude_from_weight_decay(var_list=[each for each in model.trainable_variables if len(each.shape) <= 1])
    return optimizer
