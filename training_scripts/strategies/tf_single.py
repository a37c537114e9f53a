"""One process with one replica, of TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass

from drivetrain.training.tensorflow import strategy

FRAMEWORK = "tensorflow"
DIMENSIONS = ()
SUMMARY = "one process of TensorFlow, one device"


@dataclass(frozen=True, kw_only=True)
class Options:
    """None."""


class Strategy(strategy.Strategy):
    """See drivetrain.training.tensorflow.strategy.Strategy."""
