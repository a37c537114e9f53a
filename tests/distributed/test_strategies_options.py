"""The options common to all strategies: each honours one as one process does, or refuses it with the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drivetrain.training.process import Process
from tests.distributed.strategy_models import Memory
from tests.distributed.strategy_runs import FEATURES, FIRST, Run, dealt, parameters
from tests.distributed.strategy_training import NUM_SAMPLES, Setting, build, difference, fit, fit_each, identical, worst

ALONE = Run("single", 1)


# Whole models and models in slices; the others are held to the options by the slow tests.
QUICK = ("ddp", "fsdp")


HALF = [run for run in FIRST if not run.refuses & {"bf16", "fp16"}]


def that_take(feature: str, quick: tuple[str, ...] = QUICK) -> list[Any]:
    """One run of each strategy that does not refuse."""
    return parameters([run for run in FIRST if feature not in run.refuses], quick_ranks=2, quick=quick)


COMMON: dict[str, dict[str, Any]] = {
    "fp16": {"precision": "fp16"},
    "bf16": {"precision": "bf16"},
    "clipping": {"clip_norm": 1.0},
    "ema": {"ema_decay": 0.9},
    **{name: {"common": {name: True}} for name in ("activation_checkpointing", "compile", "fused")},
}


@pytest.mark.parametrize(
    ("run", "feature"),
    [pytest.param(run, name, id=f"{run.id}-{name}") for run in FIRST for name in FEATURES if name in run.refuses]
    or [pytest.param(None, "", marks=pytest.mark.skip("no strategy refuses anything"))],
)
def test_unsupported_options_are_refused(run: Run, feature: str, forked: Any) -> None:
    word = COMMON[feature].get("precision", feature.removesuffix("ping"))
    with pytest.raises(AssertionError, match=rf"InputError: .*{word}"):
        forked(run.world_size, build_only, run, Setting(kind=run.models[-1], **COMMON[feature]))


def build_only(process: Process, run: Run, setting: Setting) -> None:
    build(process, run, setting)


def learn_with_overflow(process: Process, run: Run, setting: Setting) -> tuple[list[float], list[bool], list[float]]:
    """Scales after each step, whether the step changed this rank's parameters, losses. The first scale is too large."""
    strategy = build(process, run, setting)
    recipe: Any = strategy.recipe
    assert strategy.loss_scale and strategy.average
    strategy.loss_scale.value = 2.0**30
    samples = Memory(recipe, recipe.samples(NUM_SAMPLES)).samples.to(process.device, torch.float32)
    size, rank = strategy.layout.data_size, strategy.layout.data_rank
    rows = slice(NUM_SAMPLES * rank // size, NUM_SAMPLES * (rank + 1) // size)
    batch = type(samples)(samples.inputs[rows], samples.targets[rows])
    scales, changed, losses = [], [], []

    def held() -> list[torch.Tensor]:
        with torch.no_grad():
            tensors = [*strategy.parameters.values(), *strategy.average.values.values()]  # type: ignore[union-attr]
            return [(t.to_local() if hasattr(t, "to_local") else t).clone() for t in tensors]  # type: ignore[operator]

    for _ in range(30):
        before = held()
        step = strategy.train_step(batch, num_samples=len(batch.targets), num_global_samples=NUM_SAMPLES)
        scales.append(strategy.loss_scale.value)
        changed.append(any(not torch.equal(one, other) for one, other in zip(before, held(), strict=True)))
        losses.append(float(process.sum(step.loss)) / NUM_SAMPLES)
    return scales, changed, losses


@pytest.mark.slow_cases("fsdp-2")
@pytest.mark.parametrize("run", that_take("fp16"))
def test_fp16_halves_its_scale_and_skips_the_step_on_all_ranks_together(run: Run, pooled: Any) -> None:
    setting = Setting(kind=run.models[0], precision="fp16", ema_decay=0.5, clip_norm=1.0)
    answers = pooled(run.world_size, learn_with_overflow, run, setting)
    scales, changed, losses = answers[0]
    assert not any(changed[:5]), "the first scale was not too large"
    assert sum(changed[-10:]) >= 8, "it does not recover"
    for before, after, stepped in zip([2.0**30, *scales], scales, changed, strict=False):
        assert after == (before if stepped else before / 2)
    assert losses[-1] < 0.8 * losses[0]
    for other in answers[1:]:
        assert other == answers[0]


@pytest.mark.slow
@pytest.mark.parametrize(("run", "precision"), dealt(HALF, ("bf16", "fp16"), quick_ranks=2, quick=("ddp",)))
def test_half_precision_learns_nearly_the_same(run: Run, precision: str, pooled: Any) -> None:
    setting = Setting(kind=run.models[-1], optimizer="momentum", learning_rate=0.05, steps=20)
    answers = pooled(run.world_size, fit, run, replace(setting, precision=precision))
    (exact,) = pooled(1, fit, ALONE, setting)
    trained = answers[0]
    assert all(values.dtype == np.float32 for values in trained.model.values())
    assert np.mean(trained.losses) == pytest.approx(np.mean(exact.losses), rel=0.02)
    assert trained.losses != pytest.approx(exact.losses, rel=1e-5), "nothing was computed in half precision"


@pytest.mark.slow_cases("ddp-2-bf16")
@pytest.mark.parametrize(
    ("run", "precision"),
    dealt([run for run in HALF if "conv" in run.models], ("bf16", "fp16"), quick_ranks=2, quick=("ddp",)),
)
def test_half_precision_with_a_batch_normalization(run: Run, precision: str, pooled: Any) -> None:
    """Its running statistics stay in full precision, whatever its inputs are."""
    exact = Setting(kind="batchnorm", optimizer="momentum", learning_rate=0.05, steps=20)
    common = {"activation_checkpointing": precision == "bf16"}
    half = replace(exact, precision=precision, accumulation=2, common=common)
    (trained,) = pooled(run.world_size, fit_each, run, [half])[0]
    (expected,) = pooled(run.world_size, fit_each, run, [replace(exact, accumulation=2)])[0]
    assert all(values.dtype in (np.float32, np.int64) for values in trained.model.values())
    assert np.mean(trained.losses) == pytest.approx(np.mean(expected.losses), rel=0.1)
    assert trained.losses != pytest.approx(expected.losses, rel=1e-5), "nothing was computed in half precision"
    if precision == "bf16":  # (in fp16 the first steps are left out, until the scale fits)
        np.testing.assert_allclose(trained.model["1.running_var"], expected.model["1.running_var"], rtol=0.1)


# (Of models in slices each takes 5 s: theirs are slow.)
@pytest.mark.slow
@pytest.mark.parametrize("run", that_take("activation_checkpointing", quick=("ddp",)))
def test_activation_checkpointing_changes_no_bit(run: Run, pooled: Any) -> None:
    kinds = ["transformer", *(["batchnorm", "dropout"] if "conv" in run.models and run.deals_alike else [])]
    without = [Setting(kind=kind, steps=4, accumulation=2) for kind in kinds]
    recomputed = [Setting(**vars(each) | {"common": {"activation_checkpointing": True}}) for each in without]
    answers = pooled(run.world_size, fit_each, run, [*without, *recomputed])
    plain, again = answers[0][: len(kinds)], answers[0][len(kinds) :]
    for one, other in zip(plain, again, strict=True):
        assert identical(one, other), worst(one, other)


@pytest.mark.slow_cases("fsdp-2")
@pytest.mark.parametrize("run", that_take("fused"))
def test_a_fused_optimizer_is_the_same_within_rounding(run: Run, pooled: Any) -> None:
    settings = [Setting(kind=run.models[0], steps=4, common=common) for common in ({}, {"fused": True})]
    answers = pooled(run.world_size, fit_each, run, settings)
    plain, fused = answers[0]
    assert difference(plain, fused) < 1e-10, worst(plain, fused)
    assert all(group["fused"] for group in fused.values["groups"])


def test_a_fused_optimizer_with_momentum(pooled: Any) -> None:
    settings = [Setting(optimizer="momentum", steps=4, common=common) for common in ({}, {"fused": True})]
    plain, fused = pooled(2, fit_each, Run("ddp", 2), settings)[0]
    assert difference(plain, fused) < 1e-10, worst(plain, fused)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run, id=run.id, marks=pytest.mark.slow if run.strategy == "ddp" else pytest.mark.nightly)
        for run in FIRST
        if run.strategy in ("ddp", "fsdp")
    ],
)
def test_compiled_layers_are_the_same_within_rounding(
    run: Run, forked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled"))
    # (Adam would make a step of what is rounding in the gradient of a bias before a normalization.)
    exact = Setting(kind="batchnorm", optimizer="momentum", learning_rate=0.05, steps=3)
    settings = [replace(exact, common=common) for common in ({}, {"compile": True})]
    plain, compiled = forked(run.world_size, fit_each, run, settings, timeout=600)[0]
    assert difference(plain, compiled) < 1e-10, worst(plain, compiled)
    assert list((tmp_path / "compiled").rglob("*.so")), "nothing was compiled"
