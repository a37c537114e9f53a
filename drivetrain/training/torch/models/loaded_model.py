"""Load a model folder (saved_model.py writes it). Needs torch and nothing else, so that it travels with the model."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from torch import nn

from drivetrain.base.errors import InputError
from drivetrain.training.recipe import Recipe, load_recipe
from drivetrain.training.torch.models.tensor_file import parse_tensors
from drivetrain.training.torch.precision import precision_of

DESCRIPTION_FILE = "model.json"
WEIGHTS_FILE = "model.safetensors"
FORMAT = 1


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
    except (ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        lines = [line.strip() for line in str(error).splitlines()]
        reason = lines[1] if len(lines) > 1 else str(error)  # torch heads its list of mismatches with a line of its own
        raise InputError(f"{folder / WEIGHTS_FILE} does not fit recipe {description['recipe']!r}: {reason}") from None
    return recipe, model, description
