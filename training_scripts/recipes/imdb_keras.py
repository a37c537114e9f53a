"""The transformer of imdb_sentiment in Keras: whether a film review is for or against.

    python -m drivetrain.training_scripts.train --train aclImdb/train --model build/model --recipe imdb_keras \\
        --strategy tf_single

It is made of Keras's own layers and operations, so that model.keras loads without this file. Keras is imported where it
is used: TensorFlow Serving's image has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from drivetrain.base.bounds import Bounds
from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Batch, check_tokens
from drivetrain.training.tensorflow.decay import decay_matrices

FRAMEWORK = "tensorflow"
PADDING = 0  # of the reader
START = 0.02  # the standard deviation of a new vector
EPSILON = 1e-5  # of torch's layer normalization
NOTHING = -1e9  # what a word that is not there counts before the softmax


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Words and their places as vectors, blocks of attention over the words that are there, their mean, a decision."""

    columns: ClassVar[tuple[str, ...]] = ("tokens",)
    reader: ClassVar[str] = "imdb"

    num_classes: Annotated[int, Bounds(1)] = 2
    """Classes; labels are 0 to num_classes - 1."""
    vocabulary: Annotated[int, Bounds(1)] = 20_000
    """Different words at most, padding and the unknown word included."""
    length: Annotated[int, Bounds(1)] = 256
    """Words of a review; longer ones lose their end."""
    layers: Annotated[int, Bounds(0)] = 1
    """Blocks; 0 for a plain mean of word vectors."""
    width: Annotated[int, Bounds(1)] = 64
    """Features of a word."""
    heads: Annotated[int, Bounds(1)] = 4
    """Heads of an attention; they share the width out among them."""
    hidden: Annotated[int, Bounds(1)] = 128
    """Features inside the two-layer network of a block."""
    dropout: Annotated[float, Bounds(0, below=1)] = 0.2
    """Share of the features that are dropped while training."""

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"width={self.width} with heads={self.heads}; allowed is a width that heads divides")

    @property
    def reader_options(self) -> Mapping[str, Any]:
        return {"length": self.length, "vocabulary_size": self.vocabulary}

    def model(self) -> Any:
        import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        layers, ops = keras.layers, keras.ops
        tokens: Any = keras.Input((self.length,), dtype="int64")
        start = keras.initializers.RandomNormal(stddev=START)
        places = ops.cumsum(ops.ones_like(tokens), axis=1) - 1
        features = layers.Embedding(self.vocabulary, self.width, embeddings_initializer=start)(tokens)
        features = features + layers.Embedding(self.length, self.width, embeddings_initializer=start)(places)
        there = ops.cast(ops.not_equal(tokens, PADDING), features.dtype)
        for number in range(self.layers):
            features = self._block(features, there, f"block{number}")
        weighed = ops.expand_dims(there, -1)
        mean = ops.sum(features * weighed, axis=1) / ops.sum(weighed, axis=1)
        mean = layers.Dropout(self.dropout)(layers.LayerNormalization(epsilon=EPSILON)(mean))
        return keras.Model(tokens, layers.Dense(self.num_classes)(mean))

    def _block(self, features: Any, there: Any, name: str) -> Any:
        """Attention and a two-layer network, each added to what comes in; shape [samples, length, width]."""
        import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        layers = keras.layers
        attended = self._attention(layers.LayerNormalization(epsilon=EPSILON)(features), there, name)
        features = features + layers.Dropout(self.dropout)(attended)
        inner = layers.Dense(self.hidden, name=f"{name}_up")(layers.LayerNormalization(epsilon=EPSILON)(features))
        inner = layers.Dense(self.width, name=f"{name}_down")(keras.ops.gelu(inner, approximate=False))
        return features + layers.Dropout(self.dropout)(inner)

    def _attention(self, x: Any, there: Any, name: str) -> Any:
        """Attention to the words that are there."""
        import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        ops, size = keras.ops, self.width // self.heads

        def by_head(y: Any) -> Any:
            return ops.transpose(ops.reshape(y, (-1, self.length, self.heads, size)), (0, 2, 1, 3))

        names = (f"{name}_{part}" for part in ("query", "key", "value"))
        query, key, value = (by_head(keras.layers.Dense(self.width, name=each)(x)) for each in names)
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))) / size**0.5
        scores = scores + (1.0 - ops.reshape(there, (-1, 1, 1, self.length))) * NOTHING
        mixed = ops.matmul(ops.softmax(scores, axis=-1), value)
        mixed = ops.reshape(ops.transpose(mixed, (0, 2, 1, 3)), (-1, self.length, self.width))
        return keras.layers.Dense(self.width, name=f"{name}_out")(mixed)

    def batch(self, columns: Columns, label: str) -> Batch:
        tokens: Any = columns["tokens"].astype(np.int64)
        check_tokens(tokens, self.vocabulary, "imdb_keras")
        targets: Any = columns[label].astype(np.int64)
        return Batch(tokens, targets)

    def losses(self, outputs: Any, targets: Any) -> Any:
        import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        return tf.nn.sparse_softmax_cross_entropy_with_logits(targets, outputs)

    def metrics(self, outputs: Any, targets: Any) -> dict[str, Any]:
        import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        return {"accuracy": tf.argmax(outputs, axis=1) == targets}

    def optimizer(self, model: Any, *, learning_rate: float, weight_decay: float) -> Any:
        import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        return decay_matrices(keras.optimizers.AdamW(learning_rate, weight_decay=weight_decay, epsilon=1e-8), model)
