"""The library of the training programs: loop, data, checkpoints, metrics, launcher."""
