"""The state that DeepSpeed's ZeRO keeps of a training, by the names of the recipe's model: out for a checkpoint, and
in again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from drivetrain.base.errors import InputError
from drivetrain.training.torch.optimizer_state import Entries, OptimizerState, checked_entries
from drivetrain.training.torch.parallel.flat_slice import FlatSlice


class ZeroState(OptimizerState, ABC):
    """ZeRO's state: parameters and the optimizer's state in flat partitions, one for each group of parameters.

    Args:
        zero: DeepSpeed's optimizer.
        parameters: of the model, by name.
        groups: names of the parameters of each of the optimizer's groups.
        ranks: that hold the partitions; None for all.
    """

    def __init__(
        self,
        zero: Any,
        parameters: Mapping[str, nn.Parameter],
        groups: list[list[str]],
        ranks: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__(zero.optimizer, parameters)
        self.ranks = ranks
        self.zero, self.names = zero, [[name for name in names if parameters[name].requires_grad] for names in groups]

    @abstractmethod
    def places(self, name: str) -> tuple[Tensor, int, int, int]:
        """The place of a parameter: the partition with this rank's numbers of it; from which place on, from which
        number of the parameter on, and how many."""

    def shape(self, name: str) -> torch.Size:
        return self.parameters[name].shape

    def refresh(self) -> None:
        """Parameters have changed without a step."""

    def of_model(self, state: dict[str, Any]) -> dict[str, Any]:
        """The model's state as this rank has it."""
        return state

    def groups(self) -> list[dict[str, Any]]:
        listed = zip(self.optimizer.param_groups, self.names, strict=True)
        return [{**group, "params": names} for group, names in listed]

    def entries(self) -> Entries:
        found: Entries = {}
        for name in (name for names in self.names for name in names):
            partition, place, start, count = self.places(name)
            found[name] = {
                entry: FlatSlice(value[place : place + count], self.shape(name), start, self.ranks)
                if value.shape == partition.shape
                else value
                for entry, value in checked_entries(name, self.optimizer.state.get(partition, {})).items()
            }
        return found

    def empty(self, parameter: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor | FlatSlice:
        if tuple(self.shape(parameter)) != shape:
            return torch.empty(shape, dtype=dtype)
        partition, _, start, count = self.places(parameter)
        made = torch.empty(count, dtype=dtype, device=partition.device)
        return FlatSlice(made, self.shape(parameter), start, self.ranks)

    @torch.no_grad()
    def adopt(self, entries: Entries, saved: Mapping[str, Mapping[str, Any]]) -> None:
        self.optimizer.state.clear()
        for group, names in zip(self.optimizer.param_groups, self.names, strict=True):
            options = saved.get(names[0], {}) if names else {}
            group.update({option: value for option, value in options.items() if option != "params"})
            for name in names:
                partition, place, _, count = self.places(name)
                kept = self.optimizer.state[partition] if name in entries else {}
                for entry, value in entries.get(name, {}).items():
                    if not isinstance(value, FlatSlice):
                        self._adopt_counter(name, entry, value, kept)
                        continue
                    if entry not in kept:
                        kept[entry] = torch.zeros_like(partition, dtype=value.dtype)
                    kept[entry][place : place + count] = value.flat
        self.zero.refresh_fp32_params()
        self.refresh()

    @staticmethod
    def _adopt_counter(name: str, entry: str, value: Tensor, kept: dict[str, Any]) -> None:
        if entry in kept and not torch.equal(kept[entry], value):
            raise InputError(
                f"the optimizer's {entry} of {name!r} is {value.tolist()}, that of others of its group "
                f"{kept[entry].tolist()}: DeepSpeed keeps one for all. Go on with the strategy of the checkpoint."
            )
        kept[entry] = value.clone()


class Stage12(ZeroState):
    """Parameters are whole on every rank; partitions are ranges of all parameters of a group one after the other."""

    def places(self, name: str) -> tuple[Tensor, int, int, int]:
        parameter: Any = self.parameters[name]
        (group,) = (number for number, names in enumerate(self.names) if name in names)
        partition = self.zero.single_partition_of_fp32_groups[group]
        mapping = parameter._hp_mapping
        if mapping is None:  # all of it is in other ranks' partitions
            return partition, 0, 0, 0
        address, own = mapping.hp_fragment_address, mapping.lp_fragment_address
        return partition, address.start, own.start, own.numel


class Stage3(ZeroState):
    """Every parameter is cut into as many equal parts as there are ranks; partitions are this rank's parts, one after
    the other."""

    def places(self, name: str) -> tuple[Tensor, int, int, int]:
        parameter: Any = self.parameters[name]
        group, place, _ = self.zero.grad_position[self.zero.get_param_id(parameter)]
        start, count = self._range(parameter)
        return self.zero.fp32_partitioned_groups_flat[group], place, start, count

    def shape(self, name: str) -> torch.Size:
        parameter: Any = self.parameters[name]
        return parameter.ds_shape

    def sliced(self) -> dict[str, Any]:
        """The parameters as this rank holds them."""
        return {name: self._slice(parameter) for name, parameter in self.parameters.items()}

    def of_model(self, state: dict[str, Any]) -> dict[str, Any]:
        return {name: self._slice(value) if hasattr(value, "ds_tensor") else value for name, value in state.items()}

    def refresh(self) -> None:
        # Some are still whole, or fetched ahead, with the values from before.
        self.zero.empty_partition_cache()
        kept = list(self.zero.persistent_parameters)
        if kept:  # small ones, which stay whole between the steps
            kept[0].all_gather(kept)

    def _slice(self, parameter: Any) -> FlatSlice:
        start, count = self._range(parameter)
        return FlatSlice(parameter.ds_tensor.data.view(-1)[:count], parameter.ds_shape, start)

    @staticmethod
    def _range(parameter: Any) -> tuple[int, int]:
        size, rank = parameter.partition_numel(), dist.get_rank()
        start = min(size * rank, parameter.ds_numel)
        return start, min(size, parameter.ds_numel - start)
