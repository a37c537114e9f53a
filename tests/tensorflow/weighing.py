"""tests.tensorflow.noting, of which each sample weighs something of its own."""

from tests.tensorflow import noting

FRAMEWORK = "tensorflow"
Recipe = noting.Weighing
