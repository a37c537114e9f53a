"""Parallelism of models: layouts, tensor, pipeline and context parallelism."""
