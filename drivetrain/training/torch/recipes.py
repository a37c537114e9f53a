"""Check what torch asks of a recipe's answers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from drivetrain.base.errors import InputError
from drivetrain.training import trees
from drivetrain.training.recipe import HasLossWeights, Recipe, wrong_answer


def build_model(recipe: Recipe) -> nn.Module:
    """A fresh model of the recipe.

    Raises:
        InputError: it returned none, one without parameters, or one with complex numbers or a state beside its tensors.
    """
    model = recipe.model()
    if not isinstance(model, nn.Module):
        raise wrong_answer(recipe, "model", model, "an nn.Module")
    if not any(True for _ in model.parameters()):
        raise InputError(
            f"{type(recipe).__module__}: the model of the recipe has no parameters; nothing can be learnt."
        )
    for kind, named in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        for name, tensor in named:
            if tensor.is_complex():  # whose imaginary part `model.to` would drop
                raise _complex_numbers(recipe, f"{kind} {name!r} of the recipe's model")
    for name, module in model.named_modules():
        if type(module).get_extra_state is not nn.Module.get_extra_state:
            raise InputError(
                f"{type(recipe).__module__}: {type(module).__name__} {name!r} of the recipe's model has "
                "get_extra_state(), which neither checkpoints nor models keep. Keep its numbers with register_buffer()."
            )
    return model


def real(recipe: Recipe, outputs: Tensor) -> Tensor:
    """The outputs as they are.

    Raises:
        InputError: they are complex.
    """
    if outputs.is_complex():
        raise _complex_numbers(recipe, "what the recipe's model returned")
    return outputs


def check_values(recipe: Any, method: str, values: object, targets: trees.Tree) -> None:
    """
    Raises:
        InputError: not one value a sample. (A mean would be taken for the sum, and gradients be too small.)
    """
    # (torch's `len` of a tensor takes ten times as long as its shape, and this is asked in every step.)
    number = targets.shape[0] if isinstance(targets, Tensor) and targets.dim() else trees.num_samples(targets)
    if not isinstance(values, Tensor) or values.shape != (number,):
        mean = ", not a mean: reduction='none'" if method == "losses" else ""
        raise wrong_answer(recipe, method, values, f"one number a sample, shape [{trees.num_samples(targets)}]{mean}")


def exact(recipe: Recipe, outputs: trees.Tree, dtype: torch.dtype) -> trees.Tree:
    """A tree of outputs in the format in which losses are computed.

    Raises:
        InputError: something among them is no tensor, or not one of all samples.
    """

    def in_format(output: object) -> Tensor:
        if not isinstance(output, Tensor):
            rule = "tensors, or dicts, tuples and lists of tensors; leave others out"
            raise wrong_answer(recipe, "model", outputs, rule)
        return output.to(dtype) if output.is_floating_point() else output

    made = trees.mapped(in_format, outputs)
    if trees.num_samples(made) is None:
        raise wrong_answer(recipe, "model", outputs, "tensors with the samples along the first dimension")
    return made


def weights_of(recipe: HasLossWeights, targets: trees.Tree) -> Tensor:
    """The weights of samples, detached, float64 [samples], on the device of the targets.

    Raises:
        InputError: not one number a sample.
    """
    weights: object = recipe.loss_weights(targets)
    check_values(recipe, "loss_weights", weights, targets)
    assert isinstance(weights, Tensor)
    return weights.detach().double()


def _complex_numbers(recipe: Recipe, what: str) -> InputError:
    return InputError(
        f"{type(recipe).__module__}: {what} is complex; parameters, buffers and outputs have to be real. Keep real and "
        "imaginary part as two real numbers (torch.view_as_real), and compute with torch.view_as_complex of them."
    )
