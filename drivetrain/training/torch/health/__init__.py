"""What the health rules are told of a training by torch: sums of tensors and layers, times of phases."""
