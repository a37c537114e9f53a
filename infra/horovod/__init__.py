"""Wheels of Horovod, of which PyPI has the source alone: built here, and kept."""
