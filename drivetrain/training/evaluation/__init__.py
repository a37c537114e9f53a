"""Outputs of an evaluation: numbers, curves, pictures, predictions."""
