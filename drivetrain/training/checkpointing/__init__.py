"""Checkpoints that cannot be lost: a store that commits folders, and the tensors of a training in it."""
