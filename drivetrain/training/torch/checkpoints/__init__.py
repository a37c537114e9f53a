"""torch's side of checkpoints: the state as named tensors, their way to and from memory, random numbers."""
