"""What every recipe keeps, on data in its real format. A new file in recipes/ is picked up by itself."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections import OrderedDict
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from drivetrain.training import plugins
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.process import Process
from drivetrain.training.recipe import (
    Batch,
    HasAugment,
    HasContextPlan,
    HasExample,
    HasLossParts,
    HasTensorPlan,
    Recipe,
    load_recipe,
)
from drivetrain.training.torch.layers import layers_of
from drivetrain.training_scripts.profile_recipe import measure
from tests.fixtures import tiny_data

NAMES = plugins.recipes_alone("torch")
ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
ROWS = 20


def left_to_slow(names: list[str]) -> list[Any]:
    """For parametrize: the largest recipe takes seconds where the others take tenths."""
    return [pytest.param(name, marks=pytest.mark.slow if name == "ants_bees_resnet18" else []) for name in names]


def having(kind: type) -> pytest.MarkDecorator:
    """For the recipes alone that have an optional method."""
    found = [name for name in NAMES if isinstance(load_recipe(name, {}), kind)]
    return pytest.mark.parametrize("name", left_to_slow(found), indirect=True)


@pytest.fixture(params=left_to_slow(NAMES))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small models are slower on more, and much slower beside other tests."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def recipe(name: str) -> Recipe:
    return load_recipe(name, tiny_data.SMALL.get(name, {}))


@pytest.fixture
def dataset(recipe: Recipe, tmp_path: Path) -> Dataset:
    folder = tiny_data.write(getattr(recipe, "reader", "prepared"), tmp_path / "data", rows=ROWS)
    return Dataset(folder, recipe, ALONE)


@pytest.fixture
def batch(dataset: Dataset) -> Batch:
    return dataset.batch(np.arange(6, dtype=np.int64))


def new_model(recipe: Recipe, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return recipe.model()


def in_float64(batch: Batch) -> Batch:
    return batch.to(torch.device("cpu"), torch.float64)


def test_its_options_are_plain_values_and_explained(name: str) -> None:
    recipe = load_recipe(name, {})
    kind = type(recipe)
    source = inspect.getsource(kind)
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        assert re.fullmatch(
            r"(int|float|str|bool)|Annotated\[(int|float), Bounds\(.*\)\]|Literal\[.*\]", str(field.type)
        )
        assert isinstance(field.default, (int, float, str))
        assert f"    {field.name}: {field.type} = " in source
        assert source.split(f"    {field.name}: {field.type} = ")[1].splitlines()[1].lstrip().startswith('"""'), field
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe.anything = 1  # type: ignore[attr-defined]


def test_a_model_is_determined_by_its_seed(recipe: Recipe) -> None:
    first, second, other = (new_model(recipe, seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)


def test_a_model_can_be_built_on_the_meta_device(name: str) -> None:
    with FakeTensorMode():
        model = load_recipe(name, {}).model()
    assert sum(parameter.numel() for parameter in model.parameters())


def test_a_model_is_a_chain_of_named_layers(recipe: Recipe) -> None:
    model = new_model(recipe)
    assert isinstance(model, nn.Sequential)
    parameters = {f"{layer}.{name}" for layer, part in layers_of(model) for name, _ in part.named_parameters()}
    assert parameters == {name for name, _ in model.named_parameters()}


@having(HasLossParts)
def test_losses_are_those_of_their_parts(recipe: Recipe, batch: Batch) -> None:
    assert isinstance(recipe, HasLossParts)
    model = new_model(recipe).double().eval()
    outputs, positions = model(batch.inputs), torch.arange(batch.targets.shape[1])
    parts = [positions % 3 == 0, positions % 3 > 0]
    sums, weights = zip(*(recipe.loss_parts(outputs[:, part], batch.targets[:, part]) for part in parts), strict=True)
    torch.testing.assert_close(sum(sums) / sum(weights), recipe.losses(outputs, batch.targets), rtol=1e-9, atol=0)


@pytest.mark.slow_cases(but=["mnist_cnn", "digits_cnn"])
def test_it_can_be_measured(name: str, recipe: Recipe) -> None:
    facts = measure(recipe, name, tiny_data.SMALL.get(name, {}))
    model = new_model(recipe)
    assert facts["parameters"]["count"] == sum(parameter.numel() for parameter in model.parameters())
    assert sum(layer["full"]["activations"] for layer in facts["layers"]) > 0


def test_a_batch_has_its_rows_in_order(dataset: Dataset, batch: Batch) -> None:
    assert len(batch.inputs) == len(batch.targets) == 6
    one_by_one = [dataset.batch(np.array([row])) for row in range(6)]
    assert torch.equal(batch.inputs, torch.cat([single.inputs for single in one_by_one]))
    assert torch.equal(batch.targets, torch.cat([single.targets for single in one_by_one]))
    as_slice = dataset.batch(slice(2, 4))
    assert torch.equal(as_slice.inputs, batch.inputs[2:4])
    as_slice.inputs.add_(1)  # its own memory, whatever the reader keeps
    assert torch.equal(dataset.batch(slice(2, 4)).inputs, batch.inputs[2:4])


@having(HasExample)
def test_an_example_is_like_a_batch(recipe: object, batch: Batch) -> None:
    assert isinstance(recipe, HasExample)
    example = recipe.example(6)
    for made, real in ((example.inputs, batch.inputs), (example.targets, batch.targets)):
        assert (made.shape, made.dtype) == (real.shape, real.dtype)


def test_losses_and_metrics_are_stated_a_sample(recipe: Recipe, batch: Batch) -> None:
    """What makes uneven batches exact: the losses and gradients of two parts sum to those of the whole."""
    model = new_model(recipe).double().eval()
    whole = in_float64(batch)
    parts = [Batch(whole.inputs[rows], whole.targets[rows]) for rows in (slice(0, 2), slice(2, 6))]
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def losses_and_gradients(batch: Batch) -> tuple[Tensor, tuple[Tensor, ...]]:
        losses = recipe.losses(model(batch.inputs), batch.targets)
        assert losses.shape == (len(batch.inputs),)
        return losses, torch.autograd.grad(losses.sum(), parameters)

    losses, expected = losses_and_gradients(whole)
    assert losses.isfinite().all()
    assert (losses > 0).all()
    found = [losses_and_gradients(part) for part in parts]
    torch.testing.assert_close(torch.cat([losses for losses, _ in found]), losses, rtol=1e-9, atol=1e-11)
    for total, *summands in zip(expected, *(gradients for _, gradients in found), strict=True):
        torch.testing.assert_close(sum(summands), total, rtol=1e-9, atol=1e-11)

    metrics = recipe.metrics(model(whole.inputs), whole.targets)
    assert metrics
    for name, values in metrics.items():
        assert values.shape == (6,), name
        by_part = [recipe.metrics(model(part.inputs), part.targets)[name] for part in parts]
        torch.testing.assert_close(torch.cat(by_part).double(), values.double())


def test_it_computes_in_bfloat16(recipe: Recipe, batch: Batch) -> None:
    """Multiplications in half the bits, as mixed precision does; losses as in fp32."""
    model = new_model(recipe).eval()
    expected = recipe.losses(model(batch.inputs), batch.targets)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = model(batch.inputs)
    assert outputs.dtype == torch.bfloat16
    losses = recipe.losses(outputs.float(), batch.targets)
    losses.sum().backward()
    torch.testing.assert_close(losses, expected, rtol=0.1, atol=0.1)


def test_an_optimizer_of_any_part_has_the_same_groups(recipe: Recipe) -> None:
    """A pipeline's stage may be any run of layers, one without parameters among them."""
    children = list(new_model(recipe).named_children())
    parts = [nn.Sequential(OrderedDict(children[start:])) for start in range(len(children))]
    parts += [nn.Sequential(OrderedDict([child])) for child in children]
    parts.append(nn.Sequential())
    optimizers = [recipe.optimizer(part, learning_rate=0.5, weight_decay=0.25) for part in parts]
    settings = [[{k: v for k, v in g.items() if k != "params"} for g in each.param_groups] for each in optimizers]
    assert all(each == settings[0] for each in settings)
    for part, optimizer in zip(parts, optimizers, strict=True):
        held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        assert len(held) == len(set(held))
        assert set(held) == {parameter for parameter in part.parameters() if parameter.requires_grad}
        assert all(0 < group["lr"] <= 0.5 for group in optimizer.param_groups)


@pytest.mark.slow_cases("cifar10_resnet")
def test_it_learns(recipe: Recipe, dataset: Dataset) -> None:
    model = new_model(recipe)
    batch = dataset.batch(np.arange(16, dtype=np.int64))
    optimizer = recipe.optimizer(model, learning_rate=0.01, weight_decay=0.0)

    def evaluated_loss() -> float:
        with torch.no_grad():
            return recipe.losses(model.eval()(batch.inputs), batch.targets).mean().item()

    before = evaluated_loss()
    for step in range(1, 41):
        optimizer.zero_grad()
        recipe.losses(model.train()(batch.inputs), batch.targets).mean().backward()
        optimizer.step()
        if step % 5 == 0 and evaluated_loss() < 0.7 * before:
            break
    assert evaluated_loss() < 0.7 * before


@having(HasAugment)
def test_augmentation_depends_only_on_sample_and_seed(recipe: object, batch: Batch) -> None:
    assert isinstance(recipe, HasAugment)
    augment = recipe.augment
    seeds = np.random.default_rng(0).integers(0, 2**64, size=6, dtype=np.uint64)
    untouched = Batch(batch.inputs.clone(), batch.targets.clone())
    whole = augment(batch, seeds)
    assert torch.equal(batch.inputs, untouched.inputs)
    assert torch.equal(whole.targets, batch.targets)
    assert not torch.equal(whole.inputs, augment(batch, seeds + np.uint64(1)).inputs)
    order = np.array([4, 1, 5, 0, 2, 3])
    for rows in (order, order[:1], order[1:4]):
        part = augment(Batch(batch.inputs[rows], batch.targets[rows]), seeds[rows])
        torch.testing.assert_close(part.inputs, whole.inputs[rows], rtol=0, atol=0)
    assert augment(in_float64(batch), seeds).inputs.dtype == torch.float64


@having(HasTensorPlan)
def test_a_tensor_plan_names_existing_layers(recipe: Any) -> None:
    assert isinstance(recipe, HasTensorPlan)
    plan = recipe.tensor_plan()
    assert plan
    modules = dict(recipe.model().named_modules())
    for pattern, style in plan.items():
        found = [modules[name] for name in modules if fnmatchcase(name, pattern)]
        assert found, pattern
        linear = (nn.Linear, nn.Embedding) if style == "rowwise" else nn.Linear
        assert style in ("colwise", "colwise_gather", "rowwise", "sequence")
        if style != "sequence":
            assert all(isinstance(module, linear) for module in found)


@having(HasContextPlan)
def test_a_context_plan_names_buffers_of_the_length(recipe: Any) -> None:
    assert isinstance(recipe, HasContextPlan)
    plan = recipe.context_plan()
    assert plan
    buffers = dict(recipe.model().named_buffers())
    for pattern, dimension in plan.items():
        found = [buffer for name, buffer in buffers.items() if fnmatchcase(name, pattern)]
        assert found, pattern
        assert {buffer.shape[dimension] for buffer in found} == {recipe.length}
