"""The contract of a strategy: whatever the distribution, training is that of one process with the whole batch.

In float64, over uneven parts of a batch and ranks without a sample. Each file of strategies/ is held to it without a
word here; strategy_runs.py says on how many processes, and with which options.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from drivetrain.training.input_pipeline.cursor import Order
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch
from drivetrain.training.strategy import load_strategy
from drivetrain.training.torch import gradients
from tests.distributed.strategy_models import Recipe, Weighted
from tests.distributed.strategy_runs import ALL, FIRST, Run, dealt, parameters, with_models
from tests.distributed.strategy_training import (
    GLOBAL_BATCH,
    NUM_SAMPLES,
    Setting,
    Trained,
    difference,
    fit,
    fit_each,
    fit_in_halves,
    identical,
    worst,
)

ALONE = Run("single", 1)
# Most gradients are longer than this, some are not.
CLIP = {"conv": 0.33, "transformer": 0.36}
TOLERANCE = 1e-10

Reference = Callable[[Setting], Trained]
_references: dict[str, Any] = {}


@pytest.fixture
def reference(pooled: Any) -> Callable[..., Any]:
    """The same training in one process; computed once for all that ask."""

    def train(setting: Setting, function: Any = fit) -> Any:
        key = f"{function.__name__} {setting}"
        if key not in _references:
            (_references[key],) = pooled(1, function, ALONE, setting)
        return _references[key]

    return train


def setting_for(run: Run, kind: str, **changes: Any) -> Setting:
    decay = 0.0 if "ema" in run.refuses else 0.8
    return Setting(kind=kind, clip_norm=CLIP[kind], ema_decay=decay, **changes)


def equals_one_process(run: Run, kind: str, accumulation: int, reference: Reference, pooled: Any) -> None:
    expected = reference(setting_for(run, kind))
    assert 5 <= sum(norm > CLIP[kind] for norm in expected.norms) < 8, "the bound must be active in most steps"
    assert expected.losses[-2] < 0.9 * expected.losses[0], "equality is cheap where nothing is learnt"
    first, *others = pooled(run.world_size, fit, run, setting_for(run, kind, accumulation=accumulation))
    assert difference(first, expected) < TOLERANCE, worst(first, expected)
    for other in others:  # what is reported is the same everywhere
        assert (other.losses, other.norms, other.evaluation) == (first.losses, first.norms, first.evaluation)


@pytest.mark.shows("equals one process")
@pytest.mark.slow_cases("tp-2-tensor=2-transformer", "fsdp-2-transformer", "pp-2-stage=2-transformer")
@pytest.mark.parametrize(
    ("run", "kind"),
    [
        *with_models([run for run in ALL if run.world_size <= 2 or len(run.models) == 1], quick_ranks=2),
        *dealt(
            [run for run in ALL if run.world_size > 2 and len(run.models) > 1],
            ("transformer", "conv"),
            quick_ranks=2,
            rest="slow",
        ),
    ],
)
def test_training_equals_one_process(run: Run, kind: str, reference: Reference, pooled: Any) -> None:
    """Loss curve, gradient norms, parameters, moving average and evaluation, over two epochs of AdamW with clipping."""
    equals_one_process(run, kind, 1, reference, pooled)


@pytest.mark.slow_cases("cp-2-transformer", "tp-2-tensor=2-conv", "pp-2-stage=2-conv", "fsdp-2-conv")
@pytest.mark.parametrize(
    ("run", "kind"),
    [
        *dealt([run for run in ALL if "conv" in run.models], ("conv", "transformer"), quick_ranks=2),
        *with_models([run for run in ALL if "conv" not in run.models], quick_ranks=2),
    ],
)
def test_accumulation_in_three_pieces_equals_one_process(
    run: Run, kind: str, reference: Reference, pooled: Any
) -> None:
    """Pieces are uneven, too, and some ranks have no sample for one."""
    equals_one_process(run, kind, 3, reference, pooled)


def in_one_pass(process: Process, setting: Setting) -> tuple[list[float], float, dict[str, Any]]:
    """A training by hand, of which each step minimizes the mean over all tokens of its batch that count."""
    recipe = Weighted(optimizer_kind="sgd")
    torch.manual_seed(setting.seed)
    model = recipe.model().double()
    optimizer = recipe.optimizer(model, learning_rate=setting.learning_rate, weight_decay=1e-2)
    data, held_out, order = recipe.samples(NUM_SAMPLES), recipe.samples(23, seed=1), Order(NUM_SAMPLES, GLOBAL_BATCH, 3)

    def mean(batch: Batch) -> torch.Tensor:
        counts = batch.targets < 4
        losses = functional.cross_entropy(model(batch.inputs).transpose(1, 2), batch.targets, reduction="none")
        return (losses * counts).sum() / counts.sum()

    losses = []
    for step in range(setting.steps):
        epoch, within = divmod(step, order.steps_per_epoch)
        rows = torch.from_numpy(order.batch(epoch * NUM_SAMPLES + within * GLOBAL_BATCH).copy())
        loss = mean(Batch(data.inputs[rows], data.targets[rows]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, mean(held_out).item(), {name: p.detach().numpy() for name, p in model.named_parameters()}


@pytest.mark.slow_cases("cp-4-replicate=2")
@pytest.mark.shows("equals one process")
@pytest.mark.parametrize(
    "run", parameters([ALONE, *(run for run in ALL if "transformer" in run.models)], quick=("single", "ddp", "cp"))
)
def test_the_loss_is_the_mean_over_all_tokens_of_a_batch(run: Run, pooled: Any) -> None:
    """Samples weigh what `loss_weights` says: some nothing, and of ranks and pieces each has another weight."""
    setting = Setting(kind="weighted", optimizer="sgd", accumulation=3, steps=6)
    ((losses, held_out, model),) = pooled(1, in_one_pass, setting)
    trained = pooled(run.world_size, fit, run, setting)[0]
    np.testing.assert_allclose(trained.losses, losses, rtol=0, atol=TOLERANCE)
    assert abs(trained.evaluation["loss"] - held_out) < TOLERANCE
    for name, values in model.items():
        np.testing.assert_allclose(trained.model[name], values, rtol=0, atol=TOLERANCE, err_msg=name)


@pytest.mark.slow_cases("fsdp-2")
@pytest.mark.parametrize("run", parameters(ALL, quick_ranks=2, quick=("ddp", "fsdp")))
def test_sgd_in_single_precision(run: Run, reference: Reference, pooled: Any) -> None:
    """(AdamW divides by the gradient's size, which turns the rounding of a gradient of zero into a step.)"""
    setting = Setting(kind=run.models[-1], optimizer="momentum", precision="fp32", learning_rate=0.05)
    first = pooled(run.world_size, fit, run, setting)[0]
    assert difference(first, reference(setting)) < 2e-5, worst(first, reference(setting))


def goes_on(run: Run, optimizer: str, reference: Any, pooled: Any) -> None:
    """3 steps, the state saved and loaded, 3 more: from one process to the strategy, back, and to itself."""
    setting = setting_for(run, run.models[-1], optimizer=optimizer, steps=3)
    expected_half, expected = reference(setting, fit_in_halves)
    half, whole = pooled(run.world_size, fit_in_halves, run, setting)[0]
    assert difference(whole, expected) < TOLERANCE, worst(whole, expected)

    rest = replace(setting, first=3, seed=99)  # a fresh model that starts elsewhere: what counts was loaded
    (back,) = pooled(1, fit, ALONE, replace(rest, start=half))
    assert difference(back, expected) < TOLERANCE, worst(back, expected)

    starts = [replace(rest, start=start) for start in (expected_half, half)]
    moved, resumed = pooled(run.world_size, fit_each, run, starts)[0]
    assert difference(moved, expected) < TOLERANCE, worst(moved, expected)
    assert identical(resumed, whole), worst(resumed, whole)


@pytest.mark.shows("exact evaluation")
@pytest.mark.parametrize("run", parameters(FIRST, quick_ranks=2, quick=("ddp",)))
def test_counted_metrics_have_the_same_digits(run: Run, reference: Any, pooled: Any) -> None:
    """Of one model, on every rank: a share of hits is a sum of whole numbers; losses are sums of another order."""
    setting = Setting(kind=run.models[-1], steps=0)
    expected = reference(setting).evaluation
    for trained in pooled(run.world_size, fit, run, setting):
        assert trained.evaluation["accuracy"] == expected["accuracy"]
        assert abs(trained.evaluation["loss"] - expected["loss"]) < 1e-12


# (test_checkpoints_strategies.py moves trainings of all of them, with AdamW, through files.)
def idle_runs() -> list[Run]:
    """Each strategy's first run on a transformer; those that must be told that layers may be unused are."""
    found: list[Run] = []
    for run in FIRST:
        if "transformer" in run.models:
            _, options = load_strategy(run.strategy, {})
            told = {"find_unused_parameters": True} if hasattr(options, "find_unused_parameters") else {}
            found.append(replace(run, options={**run.options, **told}))
    return found


@pytest.mark.parametrize("run", parameters(idle_runs(), quick=("cp",)))
def test_unused_parameters_are_unchanged(run: Run, reference: Reference, pooled: Any) -> None:
    """Without a gradient: with one of zeros AdamW would decay it."""
    setting = Setting(kind="idle", steps=3)
    expected = reference(setting)
    idle = [name for name in expected.model if "idle" in name]
    assert len(idle) == 4
    trained = pooled(run.world_size, fit, run, setting)[0]
    assert difference(trained, expected) < TOLERANCE, worst(trained, expected)
    torch.manual_seed(setting.seed)
    begun = Recipe(kind="idle").model().state_dict()
    for name in idle:
        assert np.array_equal(trained.model[name], begun[name].numpy()), name
        assert not any(key.startswith(name) for key in trained.optimizer), name


@pytest.mark.slow_cases("ddp-2")
@pytest.mark.parametrize("run", parameters(ALL, quick_ranks=2, quick=("ddp",)))
def test_a_training_resumes_under_another_strategy(run: Run, reference: Any, pooled: Any) -> None:
    goes_on(run, "amsgrad", reference, pooled)


@pytest.mark.parametrize(("run", "optimizer"), dealt(FIRST, ("sgd", "momentum"), quick_ranks=1))
def test_a_training_with_sgd_resumes_under_another_strategy(
    run: Run, optimizer: str, reference: Any, pooled: Any
) -> None:
    """Without momentum there is no state to keep, which must work as well."""
    goes_on(run, optimizer, reference, pooled)


def clip_too_long(process: Process, run: Run, setting: Setting) -> Trained:
    right = gradients.scale
    gradients.scale = lambda parameters, factor: right(parameters, factor * 1.01)  # in the forked rank only
    return fit(process, run, setting)


def leave_one_unscaled(process: Process, run: Run, setting: Setting) -> Trained:
    right = gradients.scale
    gradients.scale = lambda parameters, factor: right(parameters[1:], factor)
    return fit(process, run, setting)


@pytest.mark.parametrize("mistake", [clip_too_long, leave_one_unscaled])
@pytest.mark.parametrize("run", [run for run in FIRST if run.strategy == "ddp"], ids=lambda run: run.id)
def test_a_small_mistake_is_noticed(run: Run, mistake: Any, reference: Reference, forked: Any) -> None:
    """What the comparison says of a clip norm that is off by 1 %, or of one gradient that was left as it is."""
    setting = setting_for(run, run.models[-1])
    wrong = forked(run.world_size, mistake, run, setting)[0]
    assert difference(wrong, reference(setting)) > 1000 * TOLERANCE
