"""Samples ranked by score over all ranks."""
