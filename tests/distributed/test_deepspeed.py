"""DeepSpeed's ZeRO keeps what every strategy promises; in fp32, which it keeps its parameters in."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.launch.deepspeed import refuse_pipeline_module
from drivetrain.training.process import Process
from drivetrain.training.strategy import load_strategy
from drivetrain.training_scripts.strategies import deepspeed
from tests.distributed.own_ranks import run_forked
from tests.distributed.strategy_runs import Run
from tests.distributed.strategy_training import (
    Setting,
    Trained,
    build,
    difference,
    fit,
    fit_each,
    fit_in_halves,
    identical,
    worst,
)
from tests.distributed.test_checkpoints_strategies import assert_same, load, save
from tests.fixtures.told import told

SINGLE = Run("single", 1)
# Batches of 16, 16, 16 and 1: with 2 ranks one has no sample of the last. Clipped in most steps.
SGD = Setting(optimizer="momentum", precision="fp32", learning_rate=5e-2, clip_norm=0.33, ema_decay=0.8)
ADAMW = Setting(precision="fp32", clip_norm=0.33, ema_decay=0.8)


def zero(stage: int, ranks: int, **config: Any) -> Run:
    return Run("deepspeed", ranks, {"stage": stage, "ds_config": config})


@pytest.fixture
def imported() -> None:
    """Once, here: the ranks are forked from this process. (The engine calls torch.compile, which loads the rest.)"""
    for name in ("deepspeed", "torch._inductor.compile_fx"):
        importlib.import_module(name)


def all_at_once(process: Process, run: Run, halves: Setting) -> tuple[Trained, Trained, Trained, Trained]:
    """What takes long is to start ranks: one start for several trainings."""
    return (
        fit(process, run, replace(SGD, accumulation=3)),
        fit(process, run, ADAMW),
        *fit_in_halves(process, run, halves),
    )


@pytest.mark.shows("equals one process", "resumes", "exact evaluation")
@pytest.mark.slow
@pytest.mark.nightly_cases("pipelines")
@pytest.mark.parametrize(
    "run",
    [
        zero(1, 2),
        zero(2, 2, zero_optimization={"reduce_bucket_size": 100, "overlap_comm": False}),
        zero(3, 3, zero_optimization={"stage3_param_persistence_threshold": 0}),
        zero(3, 2),
        Run("deepspeed_pp", 2),
        Run("deepspeed_pp", 4, {"micro_batches": 3, "split": ["6"]}),
    ],
    ids=["1", "2", "3", "3-small-ones-stay", "pipeline", "pipelines"],
)
def test_training_equals_one_process_and_resumes(run: Run, imported: None, tmp_path: Path) -> None:
    """With clipping, accumulation, a moving average and uneven last batches; saved and loaded in between."""
    halves = replace(SGD, steps=3)
    (sgd,) = run_forked(tmp_path, 1, fit, SINGLE, SGD)
    (adamw,) = run_forked(tmp_path, 1, fit, SINGLE, ADAMW)
    ((start, end),) = run_forked(tmp_path, 1, fit_in_halves, SINGLE, halves)
    first, *others = run_forked(tmp_path, run.world_size, all_at_once, run, halves, timeout=240)
    got_sgd, got_adamw, half, whole = first
    assert difference(got_sgd, sgd) < 1e-6, worst(got_sgd, sgd)
    assert difference(got_adamw, adamw) < 2e-5, worst(got_adamw, adamw)
    for other, *_ in others:  # what is reported is the same everywhere
        assert (other.losses, other.norms, other.evaluation) == (got_sgd.losses, got_sgd.norms, got_sgd.evaluation)
    rest = replace(halves, first=3, seed=99)
    untouched = replace(rest, steps=0, start=end)  # of one model every digit that is counted is the same
    (known,) = run_forked(tmp_path, 1, fit, SINGLE, untouched)
    for found in run_forked(tmp_path, run.world_size, fit, run, untouched, timeout=240):
        assert found.evaluation["accuracy"] == known.evaluation["accuracy"]
    starts = [replace(rest, start=each) for each in (start, half)]
    moved, resumed = run_forked(tmp_path, run.world_size, fit_each, run, starts, timeout=240)[0]
    assert difference(moved, end) < 1e-6, worst(moved, end)
    assert identical(resumed, whole), worst(resumed, whole)
    (back,) = run_forked(tmp_path, 1, fit, SINGLE, replace(rest, start=half))
    assert difference(back, end) < 1e-6, worst(back, end)


@pytest.mark.slow
def test_checkpoints_move_between_stages_ranks_and_strategies(imported: None, tmp_path: Path) -> None:
    setting = replace(ADAMW, kind="transformer", steps=2)
    folder = tmp_path / "checkpoints"
    saved, _ = run_forked(tmp_path, 3, save, zero(3, 3), setting, folder, timeout=120)[0]
    for run in (zero(1, 2), Run("fsdp", 2), SINGLE, zero(3, 2), Run("deepspeed_pp", 2)):
        loaded, _ = run_forked(tmp_path, run.world_size, load, run, setting, folder, timeout=120)[0]
        assert_same(loaded, saved)
    other = tmp_path / "of ddp"
    saved, _ = run_forked(tmp_path, 2, save, Run("ddp", 2), setting, other, timeout=120)[0]
    loaded, _ = run_forked(tmp_path, 3, load, zero(3, 3), setting, other, timeout=120)[0]
    assert_same(loaded, saved)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stage": 4}, "stage=4; allowed are whole numbers from 1 to 3"),
        ({"ds_config": "ds.json"}, 'ds_config="ds.json"; allowed is a JSON object'),
        ({"ds_config": {"zero_optimization": {"stage": 3}}}, "zero_optimization.stage=3, but stage=2"),
        ({"ds_config": {"zero_optimization": {"offload_optimizer": {"device": "cpu"}}}}, "use strategy fsdp with"),
        ({"ds_config": {"zero_optimization": {"zero_quantized_weights": True}}}, "is not supported. Allowed are stage"),
        ({"ds_config": {"zero_optimization": 2}}, "zero_optimization=2; allowed is a JSON object"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        load_strategy("deepspeed", options)


def build_only(process: Process, run: Run, setting: Setting) -> None:
    build(process, run, setting)


@pytest.mark.parametrize(
    ("options", "setting", "said"),
    [
        (
            {"ds_config": {"gradient_accumulation_steps": 2}},
            SGD,
            r"gradient_accumulation_steps=2, but accumulation x micro_batches=4\. Give the same",
        ),
        (
            {},
            replace(SGD, precision="bf16"),
            r"precision 'bf16' under strategy 'deepspeed_pp'.*or strategy pp or pp_ddp",
        ),
        (
            {},
            replace(SGD, common={"compile": True}),
            r"compile=True under strategy 'deepspeed_pp'\. Leave it off; or use",
        ),
        ({"stage": 3}, SGD, r"stage 3 needs a multiple of 3 processes, but there are 2"),
        ({"micro_batches": 1}, SGD, r"micro_batches=1 for 2 stages; some would always wait\. Use at least 2"),
    ],
    ids=["passes", "precision", "compile", "stages", "micro_batches"],
)
def test_unsupported_pipelines_are_refused(
    options: dict[str, Any], setting: Setting, said: str, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=rf"(?s)errors\.InputError: [^\n]*{said}"):
        run_forked(tmp_path, 2, build_only, Run("deepspeed_pp", 2, options), setting)


def test_the_pipeline_supports_only_zero_1() -> None:
    with pytest.raises(InputError, match=r"zero_optimization.stage=2, but the only one of its pipeline engine=1"):
        load_strategy("deepspeed_pp", {"ds_config": {"zero_optimization": {"stage": 2}}})


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"gradient_clipping": 1.0}, "gradient_clipping=1.0, but clip_norm=0.33. Give the same twice"),
        ({"gradient_accumulation_steps": 4}, "gradient_accumulation_steps=4, but accumulation=1"),
        ({"optimizer": {"type": "Adam"}}, "optimizer is not taken from there: the recipe builds the optimizer"),
        ({"fp16": {"enabled": True}}, "fp16 is not taken from there: give precision='bf16'"),
        ({"pipeline": {"stages": 2}}, "stages are those of strategy deepspeed_pp, pp, pp_ddp"),
        ({"hybrid_engine": {"enabled": True}}, "hybrid_engine is not supported under strategy 'deepspeed'"),
    ],
)
def test_a_configuration_that_contradicts(config: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        deepspeed.refuse_contradictions(config, told(learning_rate=0.1, clip_norm=0.33))


@pytest.mark.parametrize(
    ("common", "stage", "said"),
    [
        ({"precision": "fp64"}, 2, "keeps its parameters in fp32. Use precision fp32, tf32 or bf16"),
        ({"precision": "fp16"}, 2, "scales the loss itself"),
        ({"compile": True}, 3, "Use stage 1 or 2; or strategy fsdp"),
    ],
)
def test_unsupported_common_options_are_refused(common: dict[str, Any], stage: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        deepspeed.refuse_common_options(told(learning_rate=0.1, **common), stage)


@pytest.mark.slow
def test_a_model_for_the_pipeline_engine(imported: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"DS_ACCELERATOR": "cpu", "LOCAL_RANK": "0"}.items():  # which it sets
        monkeypatch.setenv(name, value)
    module = importlib.import_module("deepspeed").PipelineModule
    with pytest.raises(InputError, match=r"a PipelineModule, .* with strategy deepspeed_pp, pp, pp_ddp or"):
        refuse_pipeline_module(module.__new__(module))


def test_consistent_or_auto_settings_are_accepted() -> None:
    load_strategy("deepspeed", {"stage": 3, "ds_config": {"zero_optimization": {"stage": 3, "offload_param": "auto"}}})
    config = told(learning_rate=0.1, clip_norm=0.5, accumulation=2)
    same = {"gradient_clipping": 0.5, "gradient_accumulation_steps": "auto", "fp16": {"enabled": False}}
    deepspeed.refuse_contradictions(same, config)
