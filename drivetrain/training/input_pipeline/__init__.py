"""The input pipeline: the order of samples, their reading, and their way to the loop."""
