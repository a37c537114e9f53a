from __future__ import annotations

import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.tensors.index import Index, TensorEntry
from drivetrain.training.checkpointing.tensors.writing import merge_values
from drivetrain.training.torch.checkpoints import state as tensors
from tests.fixtures.single_strategy import build, step


def index_of(found: dict[str, torch.Tensor]) -> Index:
    return Index({n: TensorEntry(str(t.dtype).removeprefix("torch."), tuple(t.shape), ()) for n, t in found.items()})


def test_names() -> None:
    strategy = build(ema_decay=0.9)
    assert not [name for name in tensors.tensors_of(strategy) if name.startswith("optimizer/")]
    step(strategy)
    found = tensors.tensors_of(strategy, tensors.model_parts(strategy))
    assert {name.partition("/")[0] for name in found} == {"model", "optimizer", "average", "best"}
    assert {name for name in found if "/0.weight" in name} == {
        "model/0.weight",
        "average/0.weight",
        "best/0.weight",
        "optimizer/0.weight//step",
        "optimizer/0.weight//exp_avg",
        "optimizer/0.weight//exp_avg_sq",
    }
    assert found["model/0.weight"] is strategy.parameters["0.weight"]  # the very tensor, no copy


def test_the_model_that_is_best_is_a_copy_and_the_average() -> None:
    strategy = build(ema_decay=0.9)
    step(strategy)
    best = tensors.model_parts(strategy)
    assert strategy.average
    before = {name: value.clone() for name, value in strategy.average.values.items()}
    step(strategy)
    assert before
    assert all(torch.equal(best[name], value) for name, value in before.items())


def test_saved_state_is_restored() -> None:
    strategy = build(ema_decay=0.9)
    step(strategy)
    saved = {n: t.detach().clone() for n, t in tensors.tensors_of(strategy, tensors.model_parts(strategy)).items()}
    other = build(ema_decay=0.9)
    targets = tensors.targets(other, index_of(saved))
    assert targets.keys() == saved.keys()
    for name, target in targets.items():
        target.detach().copy_(saved[name])
    best = tensors.adopt(other, targets, tensors.values_of(strategy))
    assert best.keys() == {name.removeprefix("best/") for name in saved if name.startswith("best/")}
    step(strategy)
    step(other)
    gone_on = tensors.tensors_of(other)
    for name, tensor in tensors.tensors_of(strategy).items():
        assert torch.equal(gone_on[name], tensor), name


def test_the_loss_scale_goes_along() -> None:
    strategy, other = build(precision="fp16"), build(precision="fp16")
    assert strategy.loss_scale
    strategy.loss_scale.value, strategy.loss_scale.good_steps = 8.0, 3
    tensors.adopt(other, {}, tensors.values_of(strategy))
    assert other.loss_scale
    assert other.loss_scale.state() == {"value": 8.0, "good_steps": 3}


def test_groups_keep_their_parameters_names() -> None:
    strategy = build()
    (group,) = tensors.values_of(strategy)["groups"]
    assert group["params"] == [name for name, _ in strategy.model.named_parameters()]
    assert group["lr"] == group["initial_lr"] == 0.1


def test_groups_of_all_stages() -> None:
    stages = [{"groups": [{"params": ["a"]}], "loss_scale": {"value": 2.0}}, {"groups": [{"params": ["b"]}]}]
    merged = merge_values(stages)
    assert merged == {"groups": [{"params": ["a"]}, {"params": ["b"]}], "loss_scale": {"value": 2.0}}


def test_a_learning_rate_comes_back_by_the_name_of_a_parameter() -> None:
    strategy, other = build(), build()
    strategy.optimizer.param_groups[0]["lr"] = 0.025
    tensors.adopt(other, {}, tensors.values_of(strategy))
    assert other.optimizer.param_groups[0]["lr"] == 0.025


def test_another_model() -> None:
    strategy = build()
    saved = tensors.tensors_of(strategy)
    with pytest.raises(InputError, match=r"no tensor 'model/0\.weight'\. .*The saved model is another one"):
        tensors.targets(strategy, index_of({name: t for name, t in saved.items() if name != "model/0.weight"}))
    with pytest.raises(InputError, match=r"'model/0\.weight' is of shape \[7\], the model's of shape \[2, 1, 3, 3\]"):
        tensors.targets(strategy, index_of(saved | {"model/0.weight": torch.zeros(7)}))


def test_an_optimizer_that_keeps_what_is_no_tensor() -> None:
    strategy = build()
    step(strategy)
    first = next(iter(strategy.optimizer.state.values()))
    first["empty"] = None  # as SGD without momentum has it
    tensors.tensors_of(strategy)
    first["recipe"] = object()
    with pytest.raises(InputError, match=r"the optimizer keeps 'recipe' of '0\.weight', which is no tensor"):
        tensors.tensors_of(strategy)


def test_a_new_average_starts_with_the_parameters() -> None:
    saved, strategy = build(), build(ema_decay=0.9)
    step(saved)
    assert strategy.average
    assert not [name for name in tensors.targets(strategy, index_of(tensors.tensors_of(saved))) if "average" in name]
    with torch.no_grad():
        for parameter in strategy.parameters.values():
            parameter.fill_(0.25)  # as loading does
    tensors.adopt(strategy, {}, tensors.values_of(saved))
    assert all(torch.equal(value, strategy.parameters[name]) for name, value in strategy.average.values.items())
    # One of which a part is missing is another model's.
    kept = tensors.tensors_of(strategy)
    with pytest.raises(InputError, match=r"no tensor 'average/0\.weight'"):
        tensors.targets(strategy, index_of({name: t for name, t in kept.items() if name != "average/0.weight"}))
