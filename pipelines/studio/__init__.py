"""Edits made in SageMaker Studio, kept: merged with the code, written beside it, laid on every compile."""
