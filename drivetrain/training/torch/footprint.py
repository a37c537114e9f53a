"""How many bytes the layers of a model take for a batch: what they keep, give, and exchange with other ranks."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.dropout import _DropoutNd
from torch.overrides import TorchFunctionMode

from drivetrain.training import trees
from drivetrain.training.recipe import Batch, HasTensorPlan, Recipe
from drivetrain.training.torch.layers import chain_of, layers_of
from drivetrain.training.torch.parallel.tensor_plan import resolve

LOSS = "loss"
# What is counted, in bytes (drivetrain.recommend.facts.Bytes says what each is).
COUNTED = ("activations", "checkpointed", "recomputed", "outputs", "reduced", "gathered", "keys_and_values")


def layers_to_cut(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The layers that can be cut and sharded: the links of a chain, which pipelines cut between, else the layers."""
    return chain_of(model, "measure") if isinstance(model, nn.Sequential) else layers_of(model)


def units_of(model: nn.Module) -> dict[str, list[str]]:
    """Layer -> what activation checkpointing computes again at a time: itself, or the layers of a chain in a chain."""
    return {
        name: [f"{name}.{inner}" for inner, _ in layers_of(layer)] if type(layer) is nn.Sequential else [name]
        for name, layer in layers_to_cut(model)
    }


class Watch(TorchFunctionMode):
    """Counts bytes by unit (of `units_of`) while a model runs; `bytes` has a counter for each of `COUNTED`.

    Args:
        batch: its tensors, like the model's own, are counted elsewhere.
    """

    def __init__(self, recipe: Recipe, name: str, model: nn.Module, batch: Batch) -> None:
        super().__init__()
        self.bytes: dict[str, Counter[str]] = {what: Counter() for what in COUNTED}
        self.attention = ""
        self._units = {unit: model.get_submodule(unit) for units in units_of(model).values() for unit in units}
        self._unit = LOSS
        known = (*model.parameters(), *model.buffers(), *trees.leaves((batch.inputs, batch.targets)))
        self._known = {_storage(tensor) for tensor in known}
        self._counted: dict[str, set[int]] = {"activations": set(), "checkpointed": set(), "recomputed": set()}
        self._alive: list[Tensor] = []
        self._handles: list[Any] = []
        self._model = model
        self._plan = resolve(recipe.tensor_plan(), model, name) if isinstance(recipe, HasTensorPlan) else {}

    def __enter__(self) -> Watch:
        modules = dict(self._model.named_modules())
        for name, style in self._plan.items():
            self._watch_split(modules[name], self._unit_of(name), style)
        for name, module in self._units.items():
            self._watch_unit(module, name)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for handle in self._handles:
            handle.remove()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        result = func(*args, **given)
        if func is functional.scaled_dot_product_attention:
            for place, name in ((1, "key"), (2, "value")):
                tensor: Tensor = args[place] if len(args) > place else given[name]
                self.bytes["keys_and_values"][self._unit] += tensor.nbytes
            self.attention = "flash" if "FlashAttention" in type(result.grad_fn).__name__ else "math"
        return result

    def saved(self, tensor: Tensor) -> Tensor:
        """The hook for tensors that the backward pass needs."""
        self._count("activations", tensor)
        unit = self._units.get(self._unit)
        is_recomputed = unit is not None and any(True for _ in unit.parameters())
        self._count("recomputed" if is_recomputed else "checkpointed", tensor)
        return tensor

    def _count(self, what: str, tensor: Tensor) -> None:
        key, counted = _storage(tensor), self._counted[what]
        if key not in self._known and key not in counted:
            counted.add(key)
            self.bytes[what][self._unit] += tensor.untyped_storage().nbytes()
            self._alive.append(tensor)  # a freed storage's address may come again

    def _watch_unit(self, module: nn.Module, name: str) -> None:
        has_parameters = any(True for _ in module.parameters())

        def enter(_module: nn.Module, inputs: Any) -> None:
            self._unit = name
            for tensor in _tensors_in(inputs) if has_parameters else []:
                self._count("checkpointed", tensor)

        def leave(_module: nn.Module, _inputs: Any, output: Any) -> None:
            self._unit = LOSS
            self.bytes["outputs"][name] += sum(tensor.nbytes for tensor in _tensors_in(output))

        self._handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]

    def _watch_split(self, module: nn.Module, unit: str, style: str) -> None:
        """Measure what tensor parallelism exchanges: forward the outputs of rows, backward the gradients of columns'
        inputs."""

        def leave(_module: nn.Module, inputs: Any, output: Any) -> None:
            given, made = (sum(tensor.nbytes for tensor in _tensors_in(value)) for value in (inputs, output))
            self.bytes["reduced"][unit] += {"rowwise": made, "colwise": given, "colwise_gather": given}.get(style, 0)
            self.bytes["gathered"][unit] += made if style == "colwise_gather" else 0

        if not isinstance(module, _DropoutNd):
            self._handles.append(module.register_forward_hook(leave))

    def _unit_of(self, name: str) -> str:
        inside = [unit for unit in self._units if name == unit or name.startswith(f"{unit}.")]
        return max(inside, key=len, default=LOSS)


def _tensors_in(value: Any) -> list[Tensor]:
    return [leaf for leaf in trees.leaves(value) if isinstance(leaf, Tensor)]


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
