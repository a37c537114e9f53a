"""Write a model folder of torch's (drivetrain.training.model_folder), and load one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save as tensor_bytes
from torch import Tensor

from drivetrain.training.model_folder import CODE, CODE_FOLDER, DESCRIPTION_FILE, FORMAT, WEIGHTS_FILE, write_folder
from drivetrain.training.torch.models.loaded_model import load_model

__all__ = ["CODE", "CODE_FOLDER", "DESCRIPTION_FILE", "FORMAT", "WEIGHTS_FILE", "load_model", "save_model"]


def save_model(folder: Path, tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> None:
    """Write the model folder (called on rank 0 only).

    Args:
        tensors: the whole model's parameters and buffers, by name.
        description: see `write_folder`.
    """
    write_folder(
        folder, tensor_bytes({n: t.detach().cpu().contiguous().clone() for n, t in tensors.items()}), description
    )
