"""Building blocks of strategies: layouts, slices of tensors, stages, gradients over all ranks."""
