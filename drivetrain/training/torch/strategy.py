"""The common part of torch's strategies: a model on the device, gradients over all ranks, a step (`Strategy`).

drivetrain.training.strategy is the contract; strategies/*.py override what their way of working changes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from drivetrain.base.errors import InputError
from drivetrain.training import trees
from drivetrain.training.config import Config
from drivetrain.training.framework import Framework
from drivetrain.training.layout import Layout
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch, HasFolder, HasLossWeights, Recipe, wrong_answer
from drivetrain.training.strategy import Step
from drivetrain.training.torch import gradients, optimizers
from drivetrain.training.torch.accumulation import NOTHING, ScaledLoss, pieces
from drivetrain.training.torch.average import MovingAverage
from drivetrain.training.torch.batch_statistics import synchronize_batch_statistics
from drivetrain.training.torch.buffers import shared_buffers
from drivetrain.training.torch.health.watcher import Watcher
from drivetrain.training.torch.joining import sum_tensor
from drivetrain.training.torch.layers import compile_layers, recompute_activations
from drivetrain.training.torch.loss_checks import FirstLosses
from drivetrain.training.torch.misfits import misfit
from drivetrain.training.torch.optimizer_state import OptimizerState
from drivetrain.training.torch.parallel.layout import lay_out
from drivetrain.training.torch.precision import LossScale, precision_of
from drivetrain.training.torch.recipes import check_values, exact, real, weights_of
from drivetrain.training.trees import Tree

# Whose fused kernels torch can run on DTensors (isinstance: AdamW is an Adam).
FUSED_ON_SLICES = (torch.optim.Adam, torch.optim.AdamW)


class Strategy:
    """The strategy of one process alone; the others override `distribute` and what their way of working changes.

    Attributes:
        layout: which ranks share a model.
        model: this rank's part, with the names that the recipe's model gives to its parameters; they may be DTensors.
        module: what is called: `model`, or the wrapper around it.
        optimizer: the recipe's, of this rank's part.
        optimizer_state: what it keeps of each parameter.
        average: the moving average of the parameters, or None.
        watcher: what is told of each step, where the loop asks for it (drivetrain.training.health).
    """

    name: ClassVar[str]
    dimensions: ClassVar[tuple[str, ...]]
    framework: ClassVar[Framework]
    needs_mesh: ClassVar[bool] = True
    is_watched: ClassVar[bool] = True
    """True if health rules can see gradients and updates."""
    watcher: Watcher | None = None

    def __init__(self, recipe: Recipe, model: nn.Module, process: Process, config: Config, options: Any) -> None:
        self.recipe, self.process, self.config, self.options = recipe, process, config, options
        self.precision = precision_of(config.precision)
        # Asked once: to look for a protocol's methods takes longer than a small step has to spare.
        self._weigher = recipe if isinstance(recipe, HasLossWeights) else None
        self._weights_are_checked = False
        self._of_folder = recipe if isinstance(recipe, HasFolder) else None
        self.first_losses = FirstLosses(recipe, process.device)
        self._scaled, self._on_host = ScaledLoss(), process.device.type == "cpu"
        if config.sync_batchnorm and process.device.type != "cuda":
            raise InputError(
                "sync_batchnorm=True needs GPUs: torch's SyncBatchNorm has no CPU kernels. Leave it off, or use a "
                "normalization that does not look across samples (GroupNorm, LayerNorm)."
            )
        self.layout: Layout = lay_out(process, self.name, self.dimensions, self.degrees(), mesh=self.needs_mesh)
        self.check()
        self.precision.set_up()
        self.model = model.to(process.device, self.precision.parameters)
        if process.world_size > 1:  # whatever the ranks drew, they start from the same
            for tensor in self._drawn(self.model):
                dist.broadcast(tensor.detach(), src=0)
        if config.sync_batchnorm:
            self.model = synchronize_batch_statistics(self.model, self.layout, self.name)
        self.module: nn.Module = self.distribute(self.model)
        self.parameters = dict(self.model.named_parameters())
        self.holds_slices = any(isinstance(parameter, DTensor) for parameter in self.parameters.values())
        self.buffers = shared_buffers(self.model, self.layout)
        self.meets_before_forward = self.buffers is not None or self._weigher is not None
        self.optimizer = self.build_optimizer()
        self.optimizer_state = self.build_optimizer_state()
        averaged = {name: each for name, each in self.parameters.items() if self.is_kept(name)}
        self.average = MovingAverage(averaged, config.ema_decay) if config.ema_decay else None
        self.loss_scale = LossScale() if self.precision.compute == torch.float16 else None

    # What a strategy may change.

    @classmethod
    def set_up(cls, process: Process, options: Any) -> None:
        """torch is ready when its processes have joined."""

    def degrees(self) -> dict[str, int]:
        """The size of each dimension; 0 for what the others leave over."""
        return {name: getattr(self.options, name, 0) for name in self.dimensions}

    def check(self) -> None:
        """Refuse what cannot be, before anything is built.

        Raises:
            InputError: this strategy on these processes, or with these common options.
        """

    def distribute(self, model: nn.Module) -> nn.Module:
        """Make `model` (already on the device) a distributed one; returns what is to be called.

        Where this rank holds only a part, `self.model` becomes that part. Calls `shape_layers` at the point where the
        strategy wants it.
        """
        return self.shape_layers(model)

    def synchronizing(self, last: bool) -> AbstractContextManager[None]:
        """Around each piece of an accumulation: gradients need to travel only with the last one."""
        return NOTHING

    def backward(self, batch: Batch, *, num_samples: int, gradient_scale: float | Tensor) -> float | Tensor:
        """Leave gradients of `gradient_scale` times the sum of the losses over all ranks (divided by `data_size`, where
        the strategy averages); returns the sum of this rank's losses, as `Step.loss` has it. Losses are those of
        `losses_of`, weighted where the recipe weighs its samples.

        Sums and one common scale, instead of each rank's mean, are what makes uneven parts exact: ranks with fewer
        samples weigh less, a rank without samples takes part with weight zero.
        """
        total: float | Tensor | None = None
        for piece, counted, last in pieces(batch, num_samples, self.config.accumulation):
            if self.watcher and self.watcher.sums:
                self.watcher.piece_begins(counted)
            with self.synchronizing(last):
                losses = self.losses_of(piece)
                summed = losses.sum() if counted else losses.sum() * 0.0
                # On the CPU nothing waits for the number, and each operation on a scalar costs more than a sum.
                loss = summed.item() if self._on_host else summed.detach().double()
                if self.watcher:
                    self.watcher.forward_done(piece, loss)
                # As (summed * gradient_scale).backward() to the bit, without the product and its gradient.
                summed.backward(self._scaled.gradient(summed, gradient_scale))
            if self.watcher:
                self.watcher.backward_done()
            total = loss if total is None else total + loss
        assert total is not None
        return total

    def losses_of(self, piece: Batch) -> Tensor:
        """The losses of a piece's samples, weighted where the recipe weighs them, shape [samples].

        Where ranks share samples, they may be this rank's parts of them; `backward` then adds up what it returns.
        """
        return self.losses(self.call(self.module, piece.inputs), piece.targets)

    def forward(self, inputs: Tree) -> Tree | None:
        """Outputs for evaluation, or None where another rank of the replica has them.

        All ranks must call it equally often, those of a replica with the same inputs. It is the bare model that is
        called: a wrapper would exchange buffers.
        """
        outputs = self.call(self.model, inputs)
        return outputs if self.layout.counts else None

    def trained(self) -> Sequence[nn.Parameter]:
        """The parameters whose gradients a step works on: those that an optimizer has."""
        return self.stepped

    def gradient_norm(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        """The Euclidean norm of the gradients of `trained` over all ranks, shape []. Every rank must ask for it."""
        return gradients.total_norm(parameters, self.layout)

    def build_optimizer_state(self) -> OptimizerState:
        return OptimizerState(self.optimizer, self.parameters)

    def model_state(self) -> dict[str, Any]:
        """This rank's part of the model's parameters and buffers that are kept, by name: the very tensors."""
        named = self.model.state_dict(keep_vars=True)
        return {name: tensor for name, tensor in named.items() if self.is_kept(name)}

    def whole_model(self, parts: Mapping[str, Any]) -> dict[str, Tensor] | None:
        """Whole tensors of `parts` (of `model_state`) under the recipe's names, on rank 0's CPU ({} elsewhere), where
        only a library can put them together; None where parts know what they are parts of. Every rank must call it."""
        return None

    # What all have in config.

    def train_step(self, batch: Batch, *, num_samples: int, num_global_samples: int, measure: bool = False) -> Step:
        """One optimizer step.

        Args:
            batch: this rank's part of the global batch.
            num_samples: how many of its samples count; 0 where the rank has none and `batch` is a stand-in that only
                keeps it in step with the others.
            num_global_samples: samples of the global batch, over all ranks.
            measure: whether the gradient's norm is wanted, also where nothing needs it.

        Raises:
            InputError: a layer that normalizes over samples gets a single one; gradients that are never finite in fp16.
        """
        if self.buffers:
            self.buffers.agree()
        optimizers.clear_gradients(self.optimizer, self.left_out)
        loss_scale = self.loss_scale.value if self.loss_scale else 1.0
        weight = self.total_weight(batch, num_samples)
        gradient_scale: float | Tensor = self.layout.data_size / num_global_samples
        if weight is not None:  # where nothing weighs anything there is nothing to learn
            gradient_scale = torch.where(weight > 0, self.layout.data_size / weight, 0.0).to(self.precision.parameters)
        if self.watcher and self.meets_before_forward:
            self.watcher.has_met()
        try:
            loss = self.backward(batch, num_samples=num_samples, gradient_scale=gradient_scale * loss_scale)
        except (ValueError, RuntimeError) as error:
            if not _needs_more_samples(error):
                raise
            accumulated = f", each cut into {self.config.accumulation} pieces" if self.config.accumulation > 1 else ""
            raise InputError(
                f"a batch of {num_global_samples} samples, dealt into {self.layout.data_size} parts{accumulated}: the "
                "model normalizes over samples (BatchNorm), and somewhere it got one alone. Give drop_last=True, which "
                "leaves out a smaller last batch; or a larger global_batch or less accumulation; or use GroupNorm."
            ) from error
        norm = self._update(loss_scale, measure)
        return Step(loss if self.layout.counts else 0.0, norm, weight)

    def on_device(self, batch: Batch) -> Batch:
        """The batch where the model computes, in its parameters' format."""
        return batch.to(self.process.device, self.precision.parameters)

    def set_training(self, on: bool) -> None:
        """Let layers such as dropout train, or be evaluated."""
        self.model.train(on)

    def set_learning_rate(self, *factors: float) -> float:
        """Give every group of parameters a factor times its highest learning rate: each optimizer of the recipe has its
        own, or all have the only one. Returns the first group's."""
        several = optimizers.each_of(self.optimizer)
        for each, factor in zip(several, factors if factors[1:] else factors * len(several), strict=True):
            for group in each.param_groups:
                group["lr"] = group["initial_lr"] * factor
        return self.optimizer.param_groups[0]["lr"]

    def settle(self) -> None:
        """Make the buffers of replicas equal, as the next step would. Every rank must call it."""
        if self.buffers:
            self.buffers.agree()

    def total_weight(self, batch: Batch, num_samples: int) -> Tensor | None:
        """The total weight of the global batch's samples, float64 []; None if the recipe does not weigh them.
        Every rank must ask for it.

        Raises:
            InputError: weights that are negative or not finite; on a GPU, in the first step.
        """
        if self._weigher is None:
            return None
        weights = weights_of(self._weigher, batch.targets)
        # On a GPU each look would wait for it.
        looked_at = not self._weights_are_checked or weights.device.type == "cpu"
        if looked_at and not bool((torch.isfinite(weights) & (weights >= 0)).all()):
            raise wrong_answer(self.recipe, "loss_weights", weights, "finite numbers from 0")
        self._weights_are_checked = True
        own = weights[:num_samples].sum() if self.layout.counts else torch.zeros_like(weights).sum()
        return sum_tensor(own, self.process)

    def weighted(self, losses: Tensor, targets: Tree) -> Tensor:
        """Losses of samples times what these weigh, shape [samples]; as they are where the recipe does not say."""
        if self._weigher is None:
            return losses
        return losses * weights_of(self._weigher, targets).to(losses.dtype)

    def is_kept(self, name: str) -> bool:
        """Return True if checkpoints and the resulting model have this tensor of the model."""
        return self._of_folder is None or self._of_folder.is_kept(name)

    def _drawn(self, model: nn.Module) -> Iterator[Tensor]:
        """Parameters and buffers that ranks may have drawn each for itself: what files have is the same on all."""
        named = (*model.named_parameters(), *model.named_buffers())
        return (tensor for name, tensor in named if self.is_kept(name))

    def _update(self, loss_scale: float, measure: bool) -> Tensor | None:
        """Take the step that the gradients ask for; returns their norm, if it was needed."""
        clip, norm = self.config.clip_norm, None
        if self.holds_slices:
            gradients.settle(self.trained())
        if self.watcher and self.watcher.sums:
            self.watcher.before_update(loss_scale)
        if clip or measure or self.loss_scale:
            norm = self.gradient_norm(self.trained())
        if self.loss_scale:
            assert norm is not None
            if not self.loss_scale.accepts(norm):
                return norm  # neither a step nor an average of where it led
            norm = norm / loss_scale
        if clip:
            assert norm is not None
            factor = torch.clamp(clip / (norm + 1e-6), max=1.0)
            gradients.scale(self.trained(), factor / loss_scale if self.loss_scale else factor)
        elif self.loss_scale:
            gradients.scale(self.trained(), 1.0 / loss_scale)
        self._step()
        if self.watcher and self.watcher.sums:
            self.watcher.after_update()
        if self.average:
            self.average.update()
        return norm

    def _step(self) -> None:
        try:
            optimizers.take_step(self.optimizer)
        except RuntimeError as error:  # NotImplementedError is one of them
            refusal = optimizers.refusal_of(error, self.optimizer, self.name, holds_slices=self.holds_slices)
            if refusal is None:
                raise
            raise refusal from error

    def call(self, module: nn.Module, inputs: Tree) -> Tree:
        """The outputs of `model` or `module`, computed in the precision's format."""
        try:
            if not self.precision.is_mixed:
                return module(inputs)
            with torch.autocast(self.process.device.type, self.precision.compute):
                return module(inputs)
        except RuntimeError as error:
            raise misfit(self.recipe, self.model, error) or error from None

    def losses(self, outputs: Tree, targets: Tree) -> Tensor:
        """The recipe's losses, weighted where it weighs its samples, shape [samples]; never in half precision."""
        wanted, is_first = self.precision.parameters, not self.first_losses.are_done
        if not isinstance(outputs, Tensor):
            outputs = exact(self.recipe, outputs, wanted)
        elif outputs.dtype != wanted:  # (a small step has no time to spare for a call that does nothing)
            outputs = (real(self.recipe, outputs) if is_first else outputs).to(wanted)
        versions = [leaf._version for leaf in trees.leaves(outputs)] if is_first else []
        losses = self.recipe.losses(outputs, targets)
        check_values(self.recipe, "losses", losses, targets)
        if is_first:
            is_as_given = [leaf._version for leaf in trees.leaves(outputs)] == versions
            self.first_losses.apart("losses", outputs, targets, losses if is_as_given else None)
            self.first_losses.of_parts(outputs, targets)
        return losses if self._weigher is None else self.weighted(losses, targets)

    def shape_layers(self, model: nn.Module) -> nn.Module:
        """Activation checkpointing and compilation, layer by layer; returns the model."""
        if self.config.compile:
            compile_layers(model)
        if self.config.activation_checkpointing:
            recompute_activations(model)
        return model

    def build_optimizer(self) -> torch.optim.Optimizer:
        """The recipe's optimizer of this rank's part; each group keeps its highest learning rate in `initial_lr`."""
        config = self.config
        optimizer = optimizers.build(
            self.recipe, self.model, learning_rate=config.highest_learning_rate, weight_decay=config.weight_decay
        )
        for each in optimizers.each_of(optimizer) if config.fused else ():
            if "fused" not in each.defaults:
                raise InputError(
                    f"fused=True, but {type(each).__name__} of the recipe has no fused kernel. Leave it off, or use "
                    "AdamW, Adam or SGD."
                )
            if self.holds_slices and not isinstance(each, FUSED_ON_SLICES):
                raise InputError(
                    f"fused=True, but the fused kernel of {type(each).__name__} does not take slices of parameters, "
                    f"as strategy {self.name!r} holds them; those of AdamW and Adam do. Leave fused off: torch then "
                    "steps on many parameters at once (foreach)."
                )
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
            if config.fused:
                group["fused"] = True
        self.stepped, self.left_out = optimizers.dealt(optimizer, self.model.parameters())
        return optimizer

    @contextmanager
    def in_evaluation(self) -> Generator[None]:
        """A context in which the model is what is evaluated and saved, the same on all ranks: with the moving average,
        if there is one, and the buffers of the first rank. Every rank must enter it."""
        self.settle()
        with self.average.in_place() if self.average else nullcontext():
            yield


def _needs_more_samples(error: BaseException) -> bool:
    """Return True if the error is, or comes from (torch's pipelines wrap it), a normalization of one value to a
    channel."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ValueError) and "more than 1 value per channel" in str(cause):
            return True
        cause = cause.__cause__
    return False
