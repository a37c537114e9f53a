"""The model folder: what training hands on and evaluation, the registry and serving read.

    model.safetensors   the weights
    model.json          everything else that is needed to use and to judge them; see `save_model`
    code/               inference.py and the modules that it needs, so that the folder can be served as it is

The same training gives the same bytes: no time stamps, no paths, sorted keys.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save as tensor_bytes
from torch import Tensor

from drivetrain.training.torch.models.loaded_model import DESCRIPTION_FILE, FORMAT, WEIGHTS_FILE, load_model

__all__ = ["CODE", "CODE_FOLDER", "DESCRIPTION_FILE", "FORMAT", "WEIGHTS_FILE", "load_model", "save_model"]

CODE_FOLDER = "code"
# Under which key of a description the texts of code/ travel: a checkpoint keeps them too.
CODE = "code"


def save_model(folder: Path, tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> None:
    """Write the model folder (called on rank 0 only).

    Args:
        folder: made where it is missing.
        tensors: the whole model's parameters and buffers, by name.
        description: `recipe`, `recipe_options`, `precision`, and what else is worth keeping, as plain JSON values.
            `code` (name -> text) becomes the files of code/; without it there is no such folder.
    """
    weights = tensor_bytes({n: t.detach().cpu().contiguous().clone() for n, t in tensors.items()})
    described = {name: value for name, value in description.items() if name != CODE}
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / CODE_FOLDER).is_dir():  # what an earlier model needed
        shutil.rmtree(folder / CODE_FOLDER)
    for name, text in description.get(CODE, {}).items():
        path = folder / CODE_FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    (folder / WEIGHTS_FILE).write_bytes(weights)
    complete = {
        "format": FORMAT,
        "weights": {"file": WEIGHTS_FILE, "bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()},
        **described,
    }
    text = json.dumps(complete, indent=2, sort_keys=True, allow_nan=False) + "\n"
    (folder / DESCRIPTION_FILE).write_text(text, encoding="utf-8")
