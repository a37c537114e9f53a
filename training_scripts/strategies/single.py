"""One process with the whole model and the whole batch: the reference that every other strategy must equal."""

from __future__ import annotations

from torch import Tensor, nn

from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.process import Process
from drivetrain.training_scripts.recipe import Batch, Recipe
from drivetrain.training_scripts.strategy import weighted_step


class Strategy:
    """See drivetrain.training_scripts.strategy.Strategy.

    Raises:
        InputError: more than one process was started; each would train a model of its own.
    """

    def __init__(
        self, recipe: Recipe, model: nn.Module, process: Process, *, learning_rate: float, weight_decay: float
    ) -> None:
        if process.world_size != 1:
            raise InputError(
                f"strategy 'single' is for one process, but {process.world_size} were started. "
                "Use strategy 'ddp', or one host with processes 1."
            )
        self.recipe = recipe
        self.model = model.to(process.device)
        self.optimizer = recipe.optimizer(self.model, learning_rate=learning_rate, weight_decay=weight_decay)

    def train_step(self, batch: Batch, *, num_samples: int, num_global_samples: int) -> Tensor:
        return weighted_step(
            self.recipe,
            self.model,
            self.optimizer,
            batch,
            num_samples=num_samples,
            gradient_scale=1.0 / num_global_samples,
        )
