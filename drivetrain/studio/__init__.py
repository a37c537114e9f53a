"""Edits made in SageMaker Studio, kept: merged with the code, written beside it, laid on every compile."""

from pathlib import Path

SUFFIX = ".studio.yaml"


def file_of(pipeline: str, folder: Path) -> Path:
    """Where the patch of a pipeline lies: beside the pipeline's file, or in the current folder for a ready one."""
    return folder / f"{pipeline}{SUFFIX}"
