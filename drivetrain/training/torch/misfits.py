"""A forward pass in which a layer does not fit its input, in words for the recipe's author."""

from __future__ import annotations

import re

from torch import nn

from drivetrain.base.errors import InputError, first_line
from drivetrain.training.recipe import Recipe

# What torch says of a tensor that does not fit a layer. Its errors of memory, compilers and lost ranks have classes of
# their own; those of gloo speak of connections.
_MISFIT = re.compile(
    r"shapes? cannot be multiplied|size of tensor|"
    r"to have \d+ channels|[Ee]xpected .*\b(?:size|shape)\b|\bD (?:or|input)"
)


def misfit(recipe: Recipe, model: nn.Module, error: RuntimeError) -> InputError | None:
    """The error for people if a layer does not fit its input in the model's forward pass; else None."""
    if type(error) is not RuntimeError or not _MISFIT.search(first_line(error)):
        return None
    names = {id(module): name for name, module in model.named_modules() if name}
    layer, trace = "", error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_locals.get("self")
        if id(module) in names and isinstance(module, nn.Module):
            layer = f" layer {names[id(module)]} ({type(module).__name__}) of"
        trace = trace.tb_next
    return InputError(
        f"{type(recipe).__module__}: the input does not fit{layer} the recipe's model: {first_line(error)}. Mend "
        "the sizes in model(), or what batch() gives."
    )
