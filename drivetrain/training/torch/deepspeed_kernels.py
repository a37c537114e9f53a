"""DeepSpeed's optimizer kernels in torch's words, for machines where nothing is compiled.

The optimizers stay DeepSpeed's own, with their options and the format of their checkpoints; only the arithmetic of a
step is written here, as `csrc/adam/cpu_adam_impl.cpp`, `csrc/adagrad/cpu_adagrad.cpp` and `csrc/lion/cpu_lion_impl.cpp`
have it. Numbers agree to rounding.
"""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor


def adam(
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    bias_correction: bool,
    parameter: Tensor,
    gradient: Tensor,
    momentum: Tensor,
    variance: Tensor,
    *,
    is_decoupled: bool,
) -> None:
    """One step of Adam, or of AdamW where its decay is decoupled, in float32."""
    value, slope, first, second = (tensor.float() for tensor in (parameter, gradient, momentum, variance))
    if weight_decay and not is_decoupled:
        slope = slope + weight_decay * value
    first = first * beta1 + slope * (1 - beta1)
    second = second * beta2 + slope * slope * (1 - beta2)
    first_scale, second_scale = (1 - beta1**step, 1 - beta2**step) if bias_correction else (1.0, 1.0)
    if is_decoupled:
        value = value * (1 - lr * weight_decay)
    parameter.copy_(value - lr / first_scale * first / ((second / second_scale).sqrt() + eps))
    momentum.copy_(first)
    variance.copy_(second)


def adagrad(
    step: int, lr: float, eps: float, weight_decay: float, parameter: Tensor, gradient: Tensor, variance: Tensor
) -> None:
    value, slope = parameter.float(), gradient.float()
    if weight_decay:
        slope = slope + weight_decay * value
    total = variance.float() + slope * slope
    parameter.copy_(value - lr * slope / (total.sqrt() + eps))
    variance.copy_(total)


def lion(
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    parameter: Tensor,
    gradient: Tensor,
    momentum: Tensor,
) -> None:
    value, slope, first = parameter.float(), gradient.float(), momentum.float()
    direction = torch.copysign(torch.ones_like(first), first * beta1 + slope * (1 - beta1))
    parameter.copy_(value * (1 - lr * weight_decay) - lr * direction)
    momentum.copy_(first * beta2 + slope * (1 - beta2))


def kernels(name: str) -> SimpleNamespace | None:
    """The functions of the compiled extension of this name; None for one that is not written here."""
    decoupled: dict[int, bool] = {}  # by the optimizer's number

    def create(number: int, *given: float | bool) -> None:
        decoupled[number] = bool(given[5])

    def update(number: int, *given: float | Tensor) -> None:
        torch.no_grad()(adam)(*given, is_decoupled=decoupled[number])  # type: ignore[arg-type]

    def multi_tensor_adam(
        chunk_size: int,
        overflow: Tensor,
        tensors: list[list[Tensor]],
        lr: float,
        beta1: float,
        beta2: float,
        eps: float,
        step: int,
        mode: int,
        bias_correction: int,
        weight_decay: float,
    ) -> None:
        for gradient, parameter, momentum, variance in zip(*tensors, strict=True):
            torch.no_grad()(adam)(
                *(step, lr, beta1, beta2, eps, weight_decay, bool(bias_correction)),
                *(parameter, gradient, momentum, variance),
                is_decoupled=mode == 1,
            )

    def nothing(*given: object) -> None:
        """There is no C++ object to make or to free."""

    known = {
        "fused_adam": {"multi_tensor_adam": multi_tensor_adam},
        "cpu_adam": {"create_adam": create, "adam_update": update, "destroy_adam": decoupled.pop},
        "cpu_adagrad": {
            **{"create_adagrad": nothing, "destroy_adagrad": nothing},
            "adagrad_update": lambda number, *given: torch.no_grad()(adagrad)(*given),
        },
        "cpu_lion": {
            **{"create_lion": nothing, "destroy_lion": nothing},
            "lion_update": lambda number, *given: torch.no_grad()(lion)(*given),
        },
    }
    return SimpleNamespace(**known[name]) if name in known else None
