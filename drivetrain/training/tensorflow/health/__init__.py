"""The records of a training by TensorFlow for the health rules: sums of tensors and layers, from a step's graph."""
