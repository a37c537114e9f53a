"""torch's tensors as numbers, and batches on their way to a device. It travels with a model that is served."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from drivetrain.training import trees
from drivetrain.training.recipe import Batch


class Values:
    @staticmethod
    def without_gradients() -> AbstractContextManager[Any]:
        return torch.no_grad()

    @staticmethod
    def is_tensor(value: object) -> bool:
        return isinstance(value, Tensor)

    @staticmethod
    def array(tensor: Tensor) -> NDArray[Any]:
        tensor = tensor.detach().cpu()
        if tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64):
            tensor = tensor.double()
        return np.asarray(tensor.numpy())

    @staticmethod
    def on_host(outputs: trees.Tree) -> trees.Tree:
        return trees.mapped(lambda tensor: tensor.detach().cpu(), outputs)

    @staticmethod
    def softmax(outputs: Tensor) -> NDArray[Any]:
        return outputs.detach().cpu().double().softmax(dim=1).numpy()

    @staticmethod
    def sigmoid(outputs: Tensor) -> NDArray[Any]:
        return outputs.detach().cpu().double().sigmoid().numpy()

    @staticmethod
    def rows(batch: Batch, places: NDArray[Any]) -> Batch:
        chosen = torch.from_numpy(places)
        return Batch(*trees.mapped(lambda tensor: tensor[chosen], (batch.inputs, batch.targets)))

    @staticmethod
    def on_device(batch: Batch, device: torch.device, precision: torch.dtype) -> Batch:
        return batch.to(device, precision)

    @staticmethod
    def precision_of(model: nn.Module) -> torch.dtype:
        return next(model.parameters()).dtype
