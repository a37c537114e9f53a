"""Check a recipe's losses on the first batch: each is its own sample's, and made of its parts."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

import torch
from torch import Tensor

from drivetrain.base.errors import InputError
from drivetrain.training import trees
from drivetrain.training.recipe import HasLossParts, Recipe
from drivetrain.training.torch.generators import kept_generators
from drivetrain.training.torch.recipes import check_values
from drivetrain.training.trees import Tree

# Of outputs that are looked at: the losses are computed some times more, in the first step.
MOST_BYTES = 4 << 20
# Of outputs that ranks put together although training does not.
MOST_GATHERED_BYTES = 256 << 20


class FirstLosses:
    """Looks once at what a recipe gives: at losses of several samples, and at losses that are made of parts."""

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        self._recipe, self._device = recipe, device
        self._are_apart = False
        self._has_parts = isinstance(recipe, HasLossParts)
        self.are_done = False
        """True if nothing is left to check, which a step asks instead of calling."""

    def apart(self, method: str, outputs: Tree, targets: Tree, found: Tensor | None = None) -> None:
        """See `check_samples_apart`."""
        if not self._are_apart and (trees.num_samples(targets) or 0) > 1:
            self._are_apart = True
            self.are_done = not self._has_parts
            with kept_generators(self._device):  # a loss may draw from any
                check_samples_apart(self._recipe, method, outputs, targets, None if found is None else found.detach())

    @property
    def wants_parts(self) -> bool:
        """True if losses of parts are still to be checked."""
        return self._has_parts

    def of_parts(self, outputs: Tree, targets: Tree, from_parts: Tensor | None = None) -> None:
        """See `check_parts`."""
        if self._has_parts:
            self._has_parts = False
            self.are_done = self._are_apart
            with kept_generators(self._device):
                check_parts(self._recipe, outputs, targets, from_parts)


def check_samples_apart(recipe: Recipe, method: str, outputs: Tree, targets: Tree, found: Tensor | None = None) -> None:
    """Hold `losses()`, or the sums of `loss_parts()`, against what they promise: on all samples, or on as many, spread
    over the batch, as MOST_BYTES of outputs have (two at least).

    Args:
        method: its name.
        outputs: of the model, [samples, ...] or a tree of such tensors, for two samples at least.
        found: what the method gave for all samples of these outputs, [samples], where they require gradients.

    Raises:
        InputError: a sample's loss depends on the outputs of another, or on how many or which samples there are.
    """
    count, num_samples = _fitting(outputs, least=2), trees.num_samples(outputs) or 0
    device = trees.leaves(outputs)[0].device
    rows = torch.arange(count, device=device) * num_samples // count
    some = trees.mapped(lambda tensor: _followed(tensor[rows]), outputs)
    wanted = trees.mapped(itemgetter(rows), targets)
    followed = [tensor for tensor in trees.leaves(some) if tensor.requires_grad]

    def losses(chosen: Tensor) -> Tensor:
        # Indexing copies, for a recipe may change what the model gives it.
        answer = getattr(recipe, method)(*trees.mapped(itemgetter(chosen), (some, wanted)))
        return answer[0] if isinstance(answer, tuple) else answer

    every = torch.arange(count, device=device)
    half = every.flip(0)[::2]
    where = f"{type(recipe).__module__}: {method}() of the recipe mixes samples"
    rule = "each has to be that of its own sample, as a loss with reduction='none' gives it"
    with torch.enable_grad():
        together = losses(every)
        again, fewer = losses(every).detach(), losses(half).detach()
        if not torch.isfinite(together).all():
            return  # which says nothing of other samples; the loop tells it
        for group in _groups(every) if together.requires_grad else ():
            answers = torch.autograd.grad(together[group].sum(), followed, retain_graph=True, allow_unused=True)
            gradients = [gradient for gradient in answers if gradient is not None]
            if not gradients:
                break
            if not all(bool(torch.isfinite(gradient).all()) for gradient in gradients):
                return
            outside = int((~group).sum())
            touched = [(gradient[~group] != 0).reshape(outside, -1).any(dim=1) for gradient in gradients]
            others = torch.stack(touched).any(dim=0)
            if others.any():
                number = int(rows[~group][others][0]) + 1
                raise InputError(
                    f"{where}: the loss of a sample depends on the outputs of another (sample {number} of "
                    f"{num_samples}); {rule}."
                )
    together = together.detach()
    if not torch.equal(together, again):
        return  # it draws
    comparisons = [(rows[half], count, together[half], fewer)]
    if found is not None and any(tensor.requires_grad for tensor in trees.leaves(outputs)):
        comparisons.append((rows, num_samples, found[rows], together))
    for chosen, size, many, few in comparisons:
        wrong = ~torch.isclose(many, few, rtol=1e-2, atol=1e-4, equal_nan=True)
        if wrong.any():
            first = int(wrong.nonzero()[0])
            raise InputError(
                f"{where}: the loss of sample {int(chosen[first]) + 1} is {float(many[first]):.6g} among {size} "
                f"samples and {float(few[first]):.6g} among {len(few)} of them; {rule}."
            )


def check_parts(recipe: Recipe, outputs: Tree, targets: Tree, from_parts: Tensor | None = None) -> None:
    """Hold `losses()` against `loss_parts()`, on as many of the first samples as MOST_BYTES of outputs have.

    Args:
        outputs: of the model, for whole sequences, [samples, positions, ...].
        from_parts: the losses of the samples as their parts gave them, [samples], NaN where nothing weighs anything;
            None: they are asked for here, for every other position and for the rest.

    Raises:
        InputError: they disagree.
    """
    assert isinstance(recipe, HasLossParts)
    count = trees.num_samples(outputs) if from_parts is not None else _fitting(outputs, least=1)
    outputs = trees.mapped(lambda tensor: _followed(tensor[:count]), outputs)
    targets = trees.mapped(itemgetter(slice(count)), targets)
    with torch.enable_grad():  # a recipe may smooth where a gradient follows
        losses, again = (recipe.losses(*trees.mapped(torch.clone, (outputs, targets))).detach() for _ in range(2))
        if from_parts is None:
            from_parts = _from_parts(recipe, outputs, targets)
    check_values(recipe, "losses", losses, targets)
    known = torch.isfinite(losses) & torch.isfinite(from_parts)
    wrong = known & ~torch.isclose(losses, from_parts.to(losses.dtype), rtol=1e-3, atol=1e-5)
    if wrong.any() and torch.equal(losses, again):
        first = int(wrong.nonzero()[0])
        raise InputError(
            f"{type(recipe).__module__}: losses() and loss_parts() of the recipe disagree: the loss of sample "
            f"{first + 1} is {float(losses[first]):.6g} by losses(), and {float(from_parts[first]):.6g} by the sums of "
            "its parts over their weights. Training under 'cp' would learn by the latter and be evaluated by the "
            "former; correct one of them."
        )


def _from_parts(recipe: HasLossParts, outputs: Tree, targets: Tree) -> Tensor:
    """The losses of samples by their parts; NaN where these weigh nothing."""
    parts: list[slice] = [slice(None)]
    tensors = trees.leaves((outputs, targets))
    lengths = {tensor.shape[1] if tensor.dim() > 1 else 1 for tensor in tensors}
    if len(lengths) == 1 and lengths.pop() > 1:
        parts = [slice(0, None, 2), slice(1, None, 2)]

    def of(part: slice) -> tuple[Tensor, Tensor]:
        cut = trees.mapped(lambda tensor: tensor[:, part].clone(), (outputs, targets))
        return recipe.loss_parts(*cut)

    answers = [of(part) for part in parts] if parts[1:] else [recipe.loss_parts(outputs, targets)]
    sums = torch.stack([answer[0].detach() for answer in answers]).sum(dim=0)
    return sums / torch.stack([answer[1].detach() for answer in answers]).sum(dim=0)


def _fitting(outputs: Tree, *, least: int) -> int:
    """How many samples MOST_BYTES have."""
    sample = sum(tensor[0].nbytes for tensor in trees.leaves(outputs))
    return min(trees.num_samples(outputs) or 0, max(least, MOST_BYTES // max(1, sample)))


def _followed(tensor: Tensor) -> Tensor:
    """Detached; with a gradient where it can have one."""
    tensor = tensor.detach()
    return tensor.requires_grad_() if tensor.is_floating_point() else tensor


def _groups(every: Tensor) -> Iterator[Tensor]:
    """Masks of samples, so that of any two samples each is once in a group that the other is not in."""
    for bit in range((len(every) - 1).bit_length()):
        inside = (every >> bit) % 2 == 1
        yield inside
        yield ~inside
