from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from drivetrain.training_scripts.distribution import state
from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.process import Process
from drivetrain.training_scripts.recipe import Batch, load_recipe
from drivetrain.training_scripts.strategy import Common, Strategy, load_strategy

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
BATCH = Batch(torch.rand(5, 1, 8, 8), torch.arange(5))


def build(**common: Any) -> Strategy:
    kind, options = load_strategy("single", {})
    recipe = load_recipe("digits_cnn", {"channels": 2, "hidden": 4})
    return kind(recipe, recipe.model(), ALONE, Common(learning_rate=0.1, **common), options)


def step(strategy: Strategy) -> None:
    strategy.train_step(BATCH, num_samples=5, num_global_samples=5)


def test_what_was_handed_out_stays_as_it_was() -> None:
    """On a CPU nothing has to be moved, and the tensors could be the very ones that training goes on with."""
    strategy = build(ema_decay=0.9)
    step(strategy)
    found, model = state.gather(strategy), state.gather_model(strategy)
    groups: list[dict[str, torch.Tensor]] = [found.model, found.optimizer, found.average, model]
    before = [{name: tensor.clone() for name, tensor in group.items()} for group in groups]
    step(strategy)
    for group, kept in zip(groups, before, strict=True):
        assert group
        for name, tensor in group.items():
            assert torch.equal(tensor, kept[name]), name


def test_the_model_that_is_kept_is_the_average() -> None:
    strategy = build(ema_decay=0.9)
    step(strategy)
    found = state.gather(strategy)
    assert found.average.keys() == dict(strategy.model.named_parameters()).keys()
    for name, tensor in state.gather_model(strategy).items():
        assert torch.equal(tensor, found.average[name])
        assert not torch.equal(tensor, found.model[name])


def test_the_loss_scale_goes_along() -> None:
    strategy = build(precision="fp16")
    assert strategy.loss_scale
    strategy.loss_scale.value, strategy.loss_scale.good_steps = 8.0, 3
    other = build(precision="fp16")
    state.scatter(state.gather(strategy), other)
    assert other.loss_scale and other.loss_scale.state() == {"value": 8.0, "good_steps": 3}


def test_groups_keep_their_parameters_names() -> None:
    strategy = build()
    (group,) = state.gather(strategy).values["groups"]
    assert group["params"] == [name for name, _ in strategy.model.named_parameters()]
    assert group["lr"] == group["initial_lr"] == 0.1


def test_another_model() -> None:
    strategy = build()
    tensors = state.gather_model(strategy)
    with pytest.raises(InputError, match=r"no tensor '0\.weight'\. .*The saved model is another one"):
        state.load_model(strategy, {name: t for name, t in tensors.items() if name != "0.weight"})
    with pytest.raises(InputError, match=r"tensor '0\.weight' is of shape \[7\], the model's of shape \[2, 1, 3, 3\]"):
        state.load_model(strategy, tensors | {"0.weight": torch.zeros(7)})


def test_state_that_is_no_tensor() -> None:
    strategy = build()
    step(strategy)
    first = next(iter(strategy.optimizer.state.values()))
    first["recipe"] = object()
    with pytest.raises(InputError, match=r"the optimizer keeps '0\.weight//recipe', which is no tensor"):
        state.gather(strategy)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod.", "_fsdp_wrapped_module.", "model."])
def test_names_of_wrapped_models(prefix: str) -> None:
    tensors = nn.Linear(2, 3).state_dict()
    wrapped = {prefix + name: tensor for name, tensor in tensors.items()}
    found, removed = state.unwrapped(wrapped, tensors)
    assert removed == prefix
    assert found.keys() == tensors.keys()
    assert state.unwrapped(tensors, tensors) == (tensors, "")


def test_names_that_only_look_wrapped() -> None:
    tensors = {"module.weight": torch.zeros(1), "bias": torch.zeros(1)}
    assert state.unwrapped(tensors, ["weight", "other"]) == (tensors, "")
    own = {"model.weight": torch.zeros(1)}
    assert state.unwrapped(own, ["model.weight"]) == (own, "")
