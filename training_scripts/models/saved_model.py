"""The model folder: what training hands on and evaluation, the registry and serving read.

    model.safetensors   the weights
    model.json          everything else that is needed to use and to judge them; see `save_model`

The same training gives the same bytes: no time stamps, no paths, sorted keys.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as tensor_bytes
from torch import Tensor, nn

from drivetrain.training_scripts.distribution.precision import precision_of
from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.recipe import Recipe, load_recipe

DESCRIPTION_FILE = "model.json"
WEIGHTS_FILE = "model.safetensors"
FORMAT = 1


def save_model(folder: Path, tensors: Mapping[str, Tensor], description: dict[str, Any]) -> None:
    """Write the model folder (called on rank 0 only).

    Args:
        folder: made where it is missing.
        tensors: the whole model's parameters and buffers, by name.
        description: `recipe`, `recipe_options`, `precision`, and what else is worth keeping, as plain JSON values.
    """
    weights = tensor_bytes({n: t.detach().cpu().contiguous().clone() for n, t in tensors.items()})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / WEIGHTS_FILE).write_bytes(weights)
    complete = {
        "format": FORMAT,
        "weights": {"file": WEIGHTS_FILE, "bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()},
        **description,
    }
    text = json.dumps(complete, indent=2, sort_keys=True, allow_nan=False) + "\n"
    (folder / DESCRIPTION_FILE).write_text(text, encoding="utf-8")


def load_model(folder: Path) -> tuple[Recipe, nn.Module, dict[str, Any]]:
    """The recipe, the model with its weights on the CPU, and the description.

    Raises:
        InputError: not a model folder, or one whose weights are damaged or of another model.
    """
    path = folder / DESCRIPTION_FILE
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        if description["format"] != FORMAT:
            raise InputError(f"{path} has format {description['format']!r}; this program reads format {FORMAT}.")
        recipe = load_recipe(description["recipe"], description["recipe_options"])
        precision, expected = precision_of(description["precision"]).parameters, description["weights"]["sha256"]
        weights = (folder / WEIGHTS_FILE).read_bytes()
    except FileNotFoundError as error:
        name = Path(error.filename).name
        raise InputError(f"{folder} is not a model folder: no {name}. Give the output `model` of train.") from None
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} does not describe a model ({error!r}).") from None
    if hashlib.sha256(weights).hexdigest() != expected:
        raise InputError(f"{folder / WEIGHTS_FILE} is not what {DESCRIPTION_FILE} describes: copy or train again.")
    try:
        model = recipe.model().to(precision)
        model.load_state_dict(parse_tensors(weights))
    except (SafetensorError, RuntimeError) as error:
        lines = [line.strip() for line in str(error).splitlines()]
        reason = lines[1] if len(lines) > 1 else str(error)  # torch heads its list of mismatches with a line of its own
        raise InputError(f"{folder / WEIGHTS_FILE} does not fit recipe {description['recipe']!r}: {reason}") from None
    return recipe, model, description
