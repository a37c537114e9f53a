"""Fields of Config that strategies of TensorFlow do not have: the value that leaves each out, and what to do instead.

A literal, which the compiler reads without importing anything (drivetrain.catalog.strategies).
"""

from __future__ import annotations

from typing import Any

REFUSED: dict[str, tuple[Any, str]] = {
    "activation_checkpointing": (
        False,
        "Leave it out, and give accumulation, with which fewer activations are held at a time.",
    ),
    "fused": (False, "Leave it out: a step is one graph of TensorFlow already."),
    "sync_batchnorm": (
        False,
        "Leave it out, and give the recipe's layers synchronized=True (keras.layers.BatchNormalization).",
    ),
    "workers": (0, "Leave it out: a thread reads ahead (prefetch)."),
}
