"""A trained model on this rank's part of the machines: whole on each, or shared out by a strategy."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from drivetrain.base.errors import InputError
from drivetrain.training.config import Config, Precision
from drivetrain.training.layout import Layout
from drivetrain.training.options import parse_options
from drivetrain.training.process import Process
from drivetrain.training.recipe import Recipe
from drivetrain.training.strategy import WHOLE, load_strategy
from drivetrain.training.torch.precision import precision_of

Forward = Callable[[Tensor], Tensor | None]


@contextmanager
def placed(
    recipe: Recipe, model: nn.Module, process: Process, *, strategy: str, strategy_options: str
) -> Generator[tuple[Forward, Layout]]:
    """The function that computes outputs in eval mode, and the layout of the ranks.

    Under a strategy that shares the model out every rank must take part in each forward pass, and the passes end
    with the block.

    Args:
        model: with its weights, on the CPU, the same on every rank.
        strategy: a file of strategies/.
        strategy_options: a JSON object.

    Raises:
        InputError: no such strategy or option, or one that these processes or this model cannot have.
    """
    options = parse_options(strategy_options, "strategy")
    precision: Precision = "fp64" if next(model.parameters()).dtype == torch.float64 else "fp32"
    is_whole = strategy in WHOLE
    if options or not is_whole:  # (the strategies themselves take their time to import)
        strategy_class, built = load_strategy(strategy, options)
        if not is_whole:
            # (An optimizer has no state before its first step, and there is none.)
            made = strategy_class(recipe, model, process, Config(recipe="", precision=precision), built)
            made.model.eval()
            with made.in_evaluation():
                yield made.forward, made.layout
            return
    # Options of these strategies are about gradients, of which there are none.
    if strategy == "single" and process.world_size > 1:
        raise InputError(
            f"strategy 'single' is for one process, but {process.world_size} were started. Use strategy 'ddp', or "
            "one host with processes 1."
        )
    precision_of(precision).set_up()
    yield model.to(process.device).eval(), Layout(process, {"replicate": process.world_size})
