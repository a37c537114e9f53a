"""The records of a training by torch for the health rules: sums of tensors and layers, times of phases."""
