"""Context parallel: ranks share the samples and split the sequence, for sequences too long for one of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from drivetrain.base.errors import InputError
from drivetrain.training import trees
from drivetrain.training.recipe import Batch, HasLossParts
from drivetrain.training.torch import reduction, strategy
from drivetrain.training.torch.layers import refuse_sparse_gradients
from drivetrain.training.torch.loss_checks import MOST_GATHERED_BYTES
from drivetrain.training.torch.parallel.context_parallel import Context
from drivetrain.training.torch.recipes import check_values, real

FRAMEWORK = "torch"
DIMENSIONS = ("replicate", "context")
MIN_TORCH = "2.13"
SUMMARY = "every process holds the model and works on its part of each sequence"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of context parallelism; the recipe's context_plan() says that its model can be split so."""

    replicate: int = 1
    """How many groups of ranks work on different samples."""
    context: int = 0
    """How many ranks share each sequence; 0 for what is left over."""


class Strategy(strategy.Strategy):
    """See drivetrain.training.torch.parallel.context_parallel."""

    def check(self) -> None:
        if self.config.compile:
            raise InputError(
                f"strategy {self.name!r}: compile=True; attention is replaced while the layers run, which compiled "
                "layers do not see. Leave it off."
            )

    def distribute(self, model: nn.Module) -> nn.Module:
        assert self.layout.mesh is not None
        refuse_sparse_gradients(model, f"strategy {self.name!r}")
        self.context = Context(model, self.recipe, self.layout.mesh["context"].get_group(), f"strategy {self.name!r}")
        return self.shape_layers(model)

    def call(self, module: nn.Module, inputs: trees.Tree) -> Tensor:
        """Whole outputs on every rank: for evaluation, and for recipes that give the losses of whole sequences only."""
        self.refuse_trees(inputs)
        outputs = super().call(module, self.context.part(inputs))
        return self.context.whole(outputs, inputs.shape[1])

    def refuse_trees(self, *given: trees.Tree) -> None:
        """
        Raises:
            InputError: something that is not one tensor.
        """
        for tree in given:
            if not isinstance(tree, Tensor):
                raise InputError(
                    f"strategy {self.name!r} splits one sequence of inputs and one of targets, and the recipe gives "
                    f"several tensors ({trees.described(tree):.200}). Use strategy 'ddp' or 'fsdp'."
                )

    def losses_of(self, piece: Batch) -> Tensor:
        if not isinstance(self.recipe, HasLossParts):
            return super().losses_of(piece)
        self.refuse_trees(piece.inputs, piece.targets)
        outputs = super().call(self.module, self.context.part(piece.inputs))
        targets = self.context.part_of_targets(piece.targets, outputs, piece.inputs.shape[1])
        outputs = real(self.recipe, outputs).to(self.precision.parameters)
        sums, weights = self.recipe.loss_parts(outputs, targets)
        for values in (sums, weights):
            check_values(self.recipe, "loss_parts", values, targets)
        self.first_losses.apart("loss_parts", outputs, targets)
        weights = weights.detach().clone()
        dist.all_reduce(weights, group=self.context.group)
        losses = sums / torch.where(weights == 0, 1, weights)  # a sample without a token that counts has no loss
        if self.first_losses.wants_parts:
            self._check_parts(piece, outputs.detach(), losses.detach(), weights)
        return self.weighted(losses, piece.targets)

    def _check_parts(self, piece: Batch, outputs: Tensor, losses: Tensor, weights: Tensor) -> None:
        """Compare the losses of whole sequences with those of their parts, for the first samples of the first piece.

        Args:
            outputs: of this rank's positions, [samples, positions, ...].
            losses: this rank's parts of them, shape [samples].
            weights: of whole samples, shape [samples].
        """
        count = min(len(outputs), MOST_GATHERED_BYTES // (self.context.size * outputs[0].nbytes))
        if not count:
            return
        total = losses[:count].clone()
        dist.all_reduce(total, group=self.context.group)
        whole = self.context.whole(outputs[:count], piece.inputs.shape[1])
        total = torch.where(weights[:count] == 0, torch.nan, total)
        self.first_losses.of_parts(whole, piece.targets[:count], total)

    def backward(self, batch: Batch, *, num_samples: int, gradient_scale: float | Tensor) -> float | Tensor:
        total = super().backward(batch, num_samples=num_samples, gradient_scale=gradient_scale)
        if isinstance(self.recipe, HasLossParts):
            total = torch.as_tensor(total, dtype=torch.float64, device=self.process.device)
            dist.all_reduce(total, group=self.context.group)
        # Each rank has the gradients of its own positions: the sum over them, the mean over the replicas.
        if self.process.world_size > 1:
            reduction.reduce_gradients(list(self.parameters.values()), None, parts=self.layout.data_size)
        return total
