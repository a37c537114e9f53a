"""The tensors of a training in a checkpoint: who writes what, and how it is loaded again."""
