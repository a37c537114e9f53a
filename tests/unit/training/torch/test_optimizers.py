"""Several optimizers of a recipe: each steps on its own parameters, at its own rate, and goes on where it was."""

from __future__ import annotations

import copy
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from drivetrain.base.errors import InputError
from drivetrain.training.loop.schedule import Schedule, schedules_of
from drivetrain.training.torch import optimizers
from drivetrain.training.torch.optimizer_state import OptimizerState
from drivetrain.training_scripts.recipes import digits_cnn
from drivetrain.training_scripts.strategies import ddp
from tests.fixtures.two_optimizers import Recipe

SMALL = Recipe(channels=1, hidden=2)


def model() -> nn.Module:
    torch.manual_seed(0)
    return SMALL.model()


def build(of: nn.Module, recipe: Any = SMALL) -> optimizers.Optimizers:
    made = optimizers.build(recipe, of, learning_rate=0.01, weight_decay=0.1)
    assert isinstance(made, optimizers.Optimizers)
    return made


def step(of: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    of(torch.ones(2, 1, 8, 8)).square().sum().backward()
    optimizer.step()


def test_they_step_as_they_would_alone() -> None:
    together, apart = model(), model()
    one = build(together)
    several: Any = SMALL.optimizer(apart, learning_rate=0.01, weight_decay=0.1)
    for _ in range(3):
        step(together, one)
        for each in several:
            each.zero_grad()
        apart(torch.ones(2, 1, 8, 8)).square().sum().backward()
        for each in several:
            each.step()
    pairs = zip(together.parameters(), apart.parameters(), strict=True)
    assert all(torch.equal(mine, theirs) for mine, theirs in pairs)
    assert {name for kept in one.state.values() for name in kept} == {
        "momentum_buffer",
        "exp_avg",
        "exp_avg_sq",
        "step",
    }
    assert len(one.state) == len(list(together.parameters()))


def test_they_go_on_from_their_state() -> None:
    whole = model()
    optimizer = build(whole)
    step(whole, optimizer)
    cut = copy.deepcopy(whole)
    again = build(cut)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert [len(each.state) for each in again.several] == [len(each.state) for each in optimizer.several]
    for _ in range(2):
        step(whole, optimizer)
        step(cut, again)
    assert all(torch.equal(one, two) for one, two in zip(whole.parameters(), cut.parameters(), strict=True))


def test_optimizer_state_without_a_parameter_is_refused_in_a_checkpoint() -> None:
    class Counting(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            state: Any = self.state
            state["steps"] = state.get("steps", 0) + 1

    parameters = {name: nn.Parameter(torch.ones(1)) for name in "ab"}
    several: list[Any] = [Counting([parameter]) for parameter in parameters.values()]
    together = optimizers.Optimizers(several)
    together.step()
    assert [each.state["steps"] for each in several] == [1, 1]
    with pytest.raises(InputError, match="keeps 'steps' in its state, which is no parameter of the model"):
        OptimizerState(together, parameters).entries()


def test_each_has_the_schedule_that_the_recipe_names() -> None:
    schedule = Schedule(kind="cosine", warmup_steps=2, total_steps=10)
    found = schedules_of(SMALL, schedule)
    assert found.total_steps == 10
    assert [found.factors(step) for step in (0, 6)] == [[0.5, 0.5], [pytest.approx(0.5), 1.0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"schedules": ("",)},
            r"schedules of the recipe is \(''\,\), and optimizer\(\) returned 2. Give a schedule for",
        ),
        ({"schedules": "constant"}, "Give a schedule for each"),
        ({"schedules": ("", "step")}, r"allowed are cosine, .* or '' for the training's own, not 'step'"),
    ],
)
def test_schedules_that_do_not_fit(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(model(), Recipe(channels=1, hidden=2, **change))


def test_what_cannot_be() -> None:
    class Twice(Recipe):
        def optimizer(self, model: nn.Module, **given: float) -> Any:
            return [torch.optim.SGD(model.parameters()), torch.optim.SGD(model.parameters())]

    class Missing(Recipe):
        def optimizer(self, model: nn.Module, **given: float) -> Any:
            return [torch.optim.SGD(model.parameters()), None]

    with pytest.raises(InputError, match="returned 2 optimizers: some parameters appear in more than one"):
        build(model(), Twice(channels=1, hidden=2))
    with pytest.raises(InputError, match=r"it must return a torch.optim.Optimizer, or a list of them"):
        build(model(), Missing(channels=1, hidden=2))
    with pytest.raises(InputError, match=r"strategy 'deepspeed' steps with one optimizer, and optimizer.* returned 2"):
        optimizers.only(build(model()), "deepspeed")
    with pytest.raises(InputError, match=r"makes an optimizer of no parameters .* Give it groups, which may be empty"):
        returned(lambda _: torch.optim.SGD([]))
    factored = returned(torch.optim.Adafactor)
    with pytest.raises(
        InputError, match=r"'deepspeed' steps on flat pieces of parameters, and Adafactor of the recipe"
    ):
        optimizers.only(factored, "deepspeed")


def test_hooks_and_profilers_still_see_a_step() -> None:
    seen = list[str]()
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))])
    optimizers.take_step(optimizer)
    handle = optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizers.take_step(optimizer)
    handle.remove()
    optimizers.take_step(optimizer)
    assert seen == ["before"]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        optimizers.take_step(optimizer)
    assert "Optimizer.step#SGD.step" in {event.key for event in profiler.key_averages()}


def test_the_step_and_the_clearing_of_an_optimizer_of_ones_own_are_called() -> None:
    class Own(torch.optim.SGD):
        @torch.no_grad()
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            super().step()
            called.append("step")

        def zero_grad(self, set_to_none: bool = True) -> None:
            called.append("zero_grad")

    called = list[str]()
    parameter = nn.Parameter(torch.ones(1))
    parameter.grad = torch.ones(1)
    optimizer = Own([parameter], lr=0.5)
    optimizers.take_step(optimizer)
    optimizers.clear_gradients(optimizer)
    assert called == ["step", "zero_grad"] and parameter.item() == 0.5 and parameter.grad is not None
    optimizers.clear_gradients(torch.optim.SGD([parameter]))
    assert parameter.grad is None
    other = torch.optim.SGD([nn.Parameter(torch.ones(1))])
    other.zero_grad = lambda set_to_none=True: called.append("other")  # type: ignore[method-assign]
    optimizers.clear_gradients(optimizers.Optimizers([optimizer, other]))
    assert called == ["step", "zero_grad", "zero_grad", "other"]


def test_private_names_of_torch_may_disappear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps and forward passes are torch's own then."""

    def again(module: ModuleType) -> Any:
        found = importlib.util.find_spec(module.__name__)
        assert found and found.loader
        made = importlib.util.module_from_spec(found)
        monkeypatch.setitem(sys.modules, module.__name__, made)  # for its dataclasses
        found.loader.exec_module(made)
        return made

    seen = list[str]()
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))])
    optimizer.register_step_pre_hook(lambda *_: seen.append("step"))
    with monkeypatch.context() as without:
        without.delattr(sys.modules["torch.optim.optimizer"], "_global_optimizer_pre_hooks")
        without.delattr(nn.parallel.DistributedDataParallel, "_run_ddp_forward")
        steps, wrapper = again(optimizers), again(ddp).Wrapper
    steps.take_step(optimizer)
    monkeypatch.setattr(nn.parallel.DistributedDataParallel, "forward", lambda self, x: seen.append(x))
    wrapper.forward(object.__new__(wrapper), "forward")
    assert seen == ["step", "forward"]


class Returning(digits_cnn.Recipe):
    """With what `make` makes of the parameters."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__(channels=1, hidden=2)
        object.__setattr__(self, "make", make)

    def optimizer(self, model: nn.Module, **given: float) -> Any:
        return self.make(model.parameters())  # type: ignore[attr-defined]


def returned(make: Callable[[Any], Any]) -> torch.optim.Optimizer:
    return optimizers.build(Returning(make), model(), learning_rate=0.1, weight_decay=0.0)


def test_a_step_that_needs_a_closure_is_refused() -> None:
    words = (
        r"optimizer\(\) of the recipe returned LBFGS, whose step\(\) needs closure; .* Use an optimizer that needs none"
    )
    with pytest.raises(InputError, match=words):
        returned(torch.optim.LBFGS)


def test_a_step_with_arguments_that_may_be_left_out_is_taken() -> None:
    class Own(torch.optim.SGD):
        def step(self, *arguments: Any, closure: Any = None, **options: Any) -> None:  # type: ignore[override]
            super().step()

    def scheduled(parameters: Any) -> torch.optim.Optimizer:
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        torch.optim.lr_scheduler.ConstantLR(optimizer)  # sets `step` on the instance
        return optimizer

    for make in (Own, scheduled):
        assert isinstance(returned(make), torch.optim.SGD)


def test_a_learning_rate_that_is_a_tensor_is_read_as_a_number() -> None:
    made = returned(lambda parameters: torch.optim.Adam(parameters, lr=torch.tensor(0.25)))
    assert [(type(group["lr"]), group["lr"]) for group in made.param_groups] == [(float, 0.25)]


def test_state_that_checkpoints_would_lose_is_refused() -> None:
    class Around(torch.optim.SGD):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, lr=0.1)
            self.base = torch.optim.SGD(self.param_groups, lr=0.1)

    class Counting(torch.optim.SGD):
        def state_dict(self) -> dict[str, Any]:
            return {**super().state_dict(), "count": 1}

    class Same(torch.optim.SGD):
        def state_dict(self) -> dict[str, Any]:
            return super().state_dict()

    optimizers.refuse_lost_state(returned(Same))
    optimizers.refuse_lost_state(build(model()))
    for make, words in ((Around, "an optimizer in 'base'"), (Counting, r"'count' in state_dict\(\)")):
        with pytest.raises(
            InputError, match=f"{make.__name__} of the recipe has {words}, which checkpoints do not keep"
        ):
            optimizers.refuse_lost_state(returned(make))
