"""Load a model folder of torch. Needs torch and nothing else, so that it travels with the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from drivetrain.base.errors import InputError
from drivetrain.training.model_folder import WEIGHTS_FILE, no_description, read_description, read_weights
from drivetrain.training.recipe import HasFolder, Recipe, load_recipe
from drivetrain.training.torch.models.tensor_file import parse_tensors
from drivetrain.training.torch.precision import precision_of


def load_model(folder: Path) -> tuple[Recipe, nn.Module, dict[str, Any]]:
    """The recipe, the model with its weights on the CPU, and the description.

    Raises:
        InputError: not a model folder, or one whose weights are damaged or of another model.
    """
    description = read_description(folder)
    try:
        recipe = load_recipe(description["recipe"], description["recipe_options"])
        if isinstance(recipe, HasFolder):
            recipe = recipe.in_model_folder(folder)
        precision = precision_of(description["precision"]).parameters
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise no_description(folder, error) from None
    weights = read_weights(folder, description)
    try:
        model = recipe.model().to(precision)
        is_kept = recipe.is_kept if isinstance(recipe, HasFolder) else None
        found = model.load_state_dict(parse_tensors(weights), strict=is_kept is None)
        if is_kept and (wrong := [*filter(is_kept, found.missing_keys), *found.unexpected_keys]):
            raise ValueError(f"{wrong[0]} is missing, or is not the model's; {len(wrong)} such tensors")
    except (ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        lines = [line.strip() for line in str(error).splitlines()]
        reason = lines[1] if len(lines) > 1 else str(error)  # torch heads its list of mismatches with a line of its own
        raise InputError(f"{folder / WEIGHTS_FILE} does not fit recipe {description['recipe']!r}: {reason}") from None
    return recipe, model, description
