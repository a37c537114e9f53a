"""The number formats of a model: its parameters' format, and the one of its multiplications."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from drivetrain.base.errors import InputError
from drivetrain.training.errors import unknown_name


@dataclass(frozen=True)
class Precision:
    """`parameters`: what is stored, updated and summed in. `compute`: matrix products and convolutions."""

    parameters: torch.dtype
    compute: torch.dtype
    tf32: bool = False

    @cached_property
    def is_mixed(self) -> bool:
        return self.parameters != self.compute

    def set_up(self) -> None:
        """Let GPUs round to TF32, or not: torch by itself does so in convolutions, and not in matrix products."""
        torch.set_float32_matmul_precision("high" if self.tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = self.tf32


PRECISIONS = {
    "fp32": Precision(torch.float32, torch.float32),
    "fp64": Precision(torch.float64, torch.float64),
    "tf32": Precision(torch.float32, torch.float32, tf32=True),
    "bf16": Precision(torch.float32, torch.bfloat16),
    "fp16": Precision(torch.float32, torch.float16),
}


def precision_of(name: str) -> Precision:
    """Raises InputError: no such precision, with the closest match."""
    if name not in PRECISIONS:
        raise unknown_name("precision", name, PRECISIONS)
    return PRECISIONS[name]


# Below it, gradients of the size of one overflow: it is not their scale that is wrong.
SMALLEST_LOSS_SCALE = 2.0**-14


class LossScale:
    """A factor on the loss that keeps small gradients from vanishing in fp16.

    It halves, and the step is left out, when a gradient overflowed; it doubles after `patience` steps without one
    (P. Micikevicius et al., "Mixed Precision Training", ICLR 2018, section 3.2). torch's GradScaler does the same for
    one process; here the decision is taken from the gradient's norm over all ranks, so that no rank steps alone.
    """

    def __init__(self, value: float = 2.0**16, patience: int = 2000) -> None:
        self.value = value
        self.patience = patience
        self.good_steps = 0

    def accepts(self, norm: Tensor) -> bool:
        """Return True if the step may be taken; `norm` is that of the scaled gradients, the same on all ranks.

        Raises:
            InputError: gradients overflow at any scale. Every rank raises it.
        """
        if not bool(norm.isfinite()):
            self.value, self.good_steps = self.value / 2, 0
            if self.value < SMALLEST_LOSS_SCALE:
                raise InputError(
                    f"precision fp16: gradients are not finite, whatever the scale of the loss (now {self.value:g}). "
                    "Use precision bf16, which has the range of fp32; or look for a loss that is not finite."
                )
            return False
        self.good_steps += 1
        if self.good_steps == self.patience:
            self.value, self.good_steps = self.value * 2, 0
        return True

    def state(self) -> dict[str, float]:
        return {"value": self.value, "good_steps": self.good_steps}

    def load_state(self, state: dict[str, float]) -> None:
        self.value, self.good_steps = float(state["value"]), int(state["good_steps"])
