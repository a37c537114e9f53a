"""Wheels of Horovod, built here and kept: PyPI has only the source."""
