"""Several optimizers of a recipe as one: each steps on parameters of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import nn

from drivetrain.base.errors import InputError
from drivetrain.training import trees
from drivetrain.training.loop.schedule import check_schedules
from drivetrain.training.recipe import Recipe, wrong_answer

try:
    from torch.autograd import _profiler_enabled
    from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

    # What torch puts around the step of each class of optimizers.
    _WRAPPER = torch.optim.Optimizer.profile_hook_step(lambda: None).__code__
except (ImportError, AttributeError):  # a torch without these names, which it promises to nobody: steps are its own
    _WRAPPER = object()
    _global_optimizer_pre_hooks = _global_optimizer_post_hooks = {}

    def _profiler_enabled() -> bool:
        return True


# Classes of well-known optimizers, torch's and others', that do not work number by number.
ACROSS_NUMBERS = {"adafactor", "lamb", "lars", "muon", "shampoo", "soap"}
# What torch says where an operation of an optimizer cannot be done slice by slice.
_REFUSALS_OF_SLICES = ("placement", "sharding strategy", "DTensor")
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Optimizers(torch.optim.Optimizer):
    """Steps with each of `several`, in their order.

    Its groups are theirs, one after the other, and its state is theirs: who reads them need not know that there are
    several.

    Raises:
        InputError: a parameter is in two of them.
    """

    def __init__(self, several: Sequence[torch.optim.Optimizer]) -> None:
        self.several = list(several)
        try:
            super().__init__([group for each in several for group in each.param_groups], {})
        except ValueError as error:
            raise InputError(
                f"optimizer() of the recipe returned {len(several)} optimizers: {error}. Give each parameter to one of "
                "them."
            ) from None
        self._gather_groups()

    def _gather_groups(self) -> None:
        self.param_groups = [group for each in self.several for group in each.param_groups]

    @property
    def state(self) -> dict[Any, Any]:
        """That of all, to be read: each has its own, where one's numbers of all its parameters are not another's."""
        return {key: kept for each in self.several for key, kept in each.state.items()}

    @state.setter
    def state(self, value: object) -> None:  # type: ignore[override]
        """torch's constructor sets it, to nothing."""

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for each in self.several:
            each.step()

    # torch wraps the step of a class to profile it; here each of the several is profiled.
    step.hooked = True  # type: ignore[attr-defined]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        groups, first = state_dict["param_groups"], 0
        for each in self.several:
            own = groups[first : first + len(each.param_groups)]
            numbers = {number for group in own for number in group["params"]}
            state = {number: kept for number, kept in state_dict["state"].items() if number in numbers}
            each.load_state_dict({"state": state, "param_groups": own})
            first += len(own)
        self._gather_groups()


def each_of(optimizer: torch.optim.Optimizer) -> list[torch.optim.Optimizer]:
    """The optimizers of a recipe: one, or several."""
    return optimizer.several if isinstance(optimizer, Optimizers) else [optimizer]


def take_step(optimizer: torch.optim.Optimizer) -> None:
    """`optimizer.step()`, without torch's wrapper around it where that has nothing to do.

    The wrapper calls hooks and opens a record for profilers, also without any: 0.1 ms a step, since the backward pass
    leaves the caches cold.
    """
    is_profiled = _profiler_enabled()
    for each in each_of(optimizer):
        step: Any = type(each).step
        is_wrapped = getattr(step, "__code__", None) is _WRAPPER and "step" not in vars(each)
        if is_wrapped and not is_profiled and not _is_hooked(each):
            step.__wrapped__(each)
        else:
            each.step()


def refusal_of(
    error: RuntimeError, optimizer: torch.optim.Optimizer, strategy: str, *, holds_slices: bool
) -> InputError | None:
    """The error for people if a step failed because of the recipe's optimizer; else None."""
    kind, said = " and ".join(type(each).__name__ for each in each_of(optimizer)), f"{str(error).splitlines()[0]:.120}"
    if holds_slices and any(words in str(error) for words in _REFUSALS_OF_SLICES):
        return InputError(
            f"{kind} of the recipe cannot step on slices of parameters, as strategy {strategy!r} holds them ({said}). "
            "Use AdamW, Adam or SGD, or a strategy with whole parameters, such as 'ddp'."
        )
    held = (each.grad for group in optimizer.param_groups for each in group["params"])
    if any(gradient is not None and gradient.is_sparse for gradient in held):
        return InputError(
            f"{kind} of the recipe cannot step on sparse gradients ({said}). Make the embedding with sparse=False; or "
            "let optimizer() give it an optimizer of its own: SparseAdam, or SGD without momentum and weight decay."
        )
    return None


def dealt(
    optimizer: torch.optim.Optimizer, parameters: Iterable[nn.Parameter]
) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Those of `parameters` that the optimizer has, and those that it leaves as they are."""
    held = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    stepped, left_out = list[nn.Parameter](), list[nn.Parameter]()
    for parameter in parameters:
        (stepped if parameter in held else left_out).append(parameter)
    return stepped, left_out


def clear_gradients(optimizer: torch.optim.Optimizer, left_out: Iterable[nn.Parameter] = ()) -> None:
    """`optimizer.zero_grad()`; torch's own without its record for profilers, which costs more than all the rest.

    `left_out`: parameters that are in no optimizer; their gradients would add up for ever.
    """
    for parameter in left_out:
        parameter.grad = None
    for each in each_of(optimizer):
        if type(each).zero_grad is not torch.optim.Optimizer.zero_grad or "zero_grad" in vars(each):
            each.zero_grad()
            continue
        for group in each.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


def _is_hooked(optimizer: torch.optim.Optimizer) -> bool:
    return bool(
        getattr(optimizer, "_optimizer_step_pre_hooks", True)
        or getattr(optimizer, "_optimizer_step_post_hooks", True)
        or _global_optimizer_pre_hooks
        or _global_optimizer_post_hooks
    )


def only(optimizer: torch.optim.Optimizer, strategy: str) -> torch.optim.Optimizer:
    """The optimizer, where a strategy can step with one alone, on flat pieces of the parameters.

    Raises:
        InputError: the recipe has several, or one that looks across a matrix.
    """
    refuse_flat_pieces(optimizer, strategy)
    if (number := len(each_of(optimizer))) > 1:
        raise InputError(
            f"strategy {strategy!r} steps with one optimizer, and optimizer() of the recipe returned {number}. Return "
            "one with groups of parameters, or use strategy 'fsdp'."
        )
    return optimizer


def refuse_flat_pieces(optimizer: torch.optim.Optimizer, strategy: str) -> None:
    """
    Raises:
        InputError: the optimizer's step on a piece of a parameter differs from that piece of its step on the whole
            parameter.
    """
    for each in each_of(optimizer):
        if ACROSS_NUMBERS & {kind.__name__.lower() for kind in type(each).__mro__}:
            raise InputError(
                f"strategy {strategy!r} steps on flat pieces of parameters, and {type(each).__name__} of the recipe "
                "looks across a whole one: its steps would be other ones. Use AdamW, Adam or SGD, or strategy 'ddp'."
            )


def build(recipe: Recipe, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
    """The recipe's optimizer of a model, or of a rank's part of it.

    Raises:
        InputError: the recipe returned no optimizer, one without parameters, one whose step needs arguments, or two for
            one parameter.
    """
    try:
        found: Any = recipe.optimizer(model, learning_rate=learning_rate, weight_decay=weight_decay)
    except ValueError as error:
        if "empty parameter list" not in str(error):
            raise
        raise InputError(
            f"{type(recipe).__module__}: optimizer() of the recipe makes an optimizer of no parameters at all; this "
            "rank's part of the model has none for it. Give it groups, which may be empty: "
            'torch.optim.AdamW([{"params": parameters}], ...).'
        ) from error
    several: list[Any] = list(found) if isinstance(found, list | tuple) else [found]
    if not several or not all(isinstance(each, torch.optim.Optimizer) for each in several):
        raise wrong_answer(recipe, "optimizer", found, "a torch.optim.Optimizer, or a list of them")
    check_schedules(recipe, len(several))
    for each in several:
        _refuse_arguments(recipe, each)
        for group in each.param_groups:
            for rate in ("lr", "initial_lr"):
                if isinstance(group.get(rate), torch.Tensor):  # schedules and checkpoints have numbers
                    group[rate] = float(group[rate])
    return Optimizers(several) if several[1:] else several[0]


def _refuse_arguments(recipe: Recipe, optimizer: torch.optim.Optimizer) -> None:
    """
    Raises:
        InputError: its class's step needs arguments, which the loop does not give.
    """
    if "step" in vars(optimizer):  # replaced by a wrapper, which may give them
        return
    _, *others = inspect.signature(type(optimizer).step).parameters.values()
    needed = [each.name for each in others if each.default is each.empty and each.kind not in _ANY_NUMBER]
    if needed:
        raise InputError(
            f"{type(recipe).__module__}: optimizer() of the recipe returned {type(optimizer).__name__}, whose step() "
            f"needs {' and '.join(needed)}; a training computes the gradients once a step and calls step() without "
            "arguments. Use an optimizer that needs none, such as AdamW, Adam or SGD."
        )


def refuse_lost_state(optimizer: torch.optim.Optimizer) -> None:
    """For checkpoints, which keep `state` and `param_groups` of an optimizer.

    Raises:
        InputError: it has more: another optimizer, or further entries in its `state_dict()`.
    """
    for each in each_of(optimizer):
        own = {name: value for name, value in vars(each).items() if name not in ("state", "param_groups")}
        lost = [f"an optimizer in {name!r}" for name, value in own.items() if _has_optimizer(value)]
        if type(each).state_dict is not torch.optim.Optimizer.state_dict:
            lost += [f"{name!r} in state_dict()" for name in each.state_dict() if name not in ("state", "param_groups")]
        if lost:
            raise InputError(
                f"{type(each).__name__} of the recipe has {' and '.join(lost)}, which checkpoints do not keep: a "
                "resumed training would be another one. Keep all in its `state`, by parameter, and in `param_groups`; "
                "or train without checkpoints."
            )


def _has_optimizer(value: object) -> bool:
    return any(isinstance(leaf, torch.optim.Optimizer) for leaf in trees.leaves(value))
