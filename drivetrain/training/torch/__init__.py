"""What strategies are made of: layouts, slices of tensors, stages, gradients over all ranks."""
