"""What the health rules are told of a training by TensorFlow: sums of tensors and layers, from a step's graph."""
