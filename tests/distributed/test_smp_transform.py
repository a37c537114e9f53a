"""SMP's tensor and context parallelism, over a stand-in of its `transform`: ranks learn what one process learns."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from torch import nn

from drivetrain.base.errors import InputError
from drivetrain.steps.trainings import EXECUTION
from drivetrain.training.process import Process
from drivetrain.training.strategy import load_strategy
from drivetrain.training.torch.parallel.smp_model import refuse_model
from tests.distributed.own_ranks import run_forked
from tests.distributed.strategy_runs import Run
from tests.distributed.test_huggingface import ALONE, RUNS, fit, weights
from tests.fixtures import tiny_transformers as tiny
from tests.fixtures.sagemaker_libraries import installed

TENSOR, CONTEXT = Run("smp", 4, {"shard": 2, "tensor": 2}), Run("smp", 2, {"shard": 1, "context": 2})
BOTH = Run("smp", 4, {"shard": 1, "context": 2, "tensor": 2, "activation_offloading": True})
MORE: dict[str, Any] = {"recipe_options": {"packed": False}, "ema_decay": 0.8, "keep_best": True}


def learn(process: Process, name: str, run: Run, *folders: Path, **more: Any) -> list[str]:
    """A training by SMP; what the library was asked for, in order."""
    more.setdefault("activation_checkpointing", "activation_offloading" in run.options)
    fit(process, name, "smp", *folders, strategy_options=json.dumps(run.options), **MORE | more)
    return list(dict.fromkeys(sys.modules["torch.sagemaker"].calls))  # type: ignore[attr-defined]


def ranks(size: int, folder: Path, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    with installed():
        return run_forked(folder, size, function, *arguments, timeout=240)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("smp")
    tiny.model(made / "llama", "llama")
    tiny.texts(made / "causal_lm", 49, "causal_lm")
    return made


@pytest.fixture(scope="module")
def alone(folder: Path) -> Callable[[str], Path]:
    """What one process learns; once a run."""

    def trained(name: str) -> Path:
        target = folder / f"alone-{name}"
        if not target.exists():
            fit(ALONE, name, "single", folder, target, **MORE)
        return target

    return trained


def measured(target: Path) -> list[dict[str, float]]:
    return json.loads((target / "history.json").read_text())


@pytest.mark.shows("equals one process", "exact evaluation")
@pytest.mark.slow
@pytest.mark.nightly_cases("both")
@pytest.mark.parametrize(
    ("name", "run"),
    [("whole-adamw", CONTEXT), ("whole-adamw", BOTH)],
    ids=["context", "both"],
)
def test_smp_training_equals_one_process(
    name: str, run: Run, folder: Path, alone: Callable[[str], Path], tmp_path: Path
) -> None:
    """20 steps with clipping, a moving average and uneven last batches; what is handed on is the best model."""
    calls = ranks(run.world_size, tmp_path, learn, name, run, folder, tmp_path)
    offload = ["offload_wrapper"] if "activation_offloading" in run.options else []
    assert calls == run.world_size * [["init", "transform", "FullyShardedDataParallel", *offload, "full checkpoint"]]
    found, expected = weights(tmp_path), weights(alone(name))
    assert found.keys() == expected.keys()
    assert max(float(np.abs(found[each] - expected[each]).max()) for each in expected) <= RUNS[name][3]
    for own, others in zip(measured(tmp_path), measured(alone(name)), strict=True):
        assert own["validation_exact_match"] == others["validation_exact_match"]
        assert own["validation_loss"] == pytest.approx(others["validation_loss"], abs=1e-5)


def learn_in_parts(process: Process, run: Run, folder: Path, whole: Path, halved: Path) -> str:
    """Twice the same, once from the middle of it on; then with another strategy, and what is said to that."""
    os.environ[EXECUTION] = "one"  # which may train for longer
    learn(process, "whole", run, folder, whole)
    if process.is_main:
        shutil.copytree(whole / "checkpoints", halved / "checkpoints")
        for step in (halved / "checkpoints").rglob("step-*"):
            if int(step.name.split("-")[1].partition(".")[0]) > 6:
                shutil.rmtree(step)
    process.group.gather_json(None)
    learn(process, "whole", run, folder, halved)
    with pytest.raises(InputError) as refused:
        fit(process, "whole", "fsdp", folder, halved, **MORE | {"epochs": 6})
    return str(refused.value)


@pytest.mark.shows("equals one process", "resumes")
@pytest.mark.slow
@pytest.mark.parametrize("run", [TENSOR], ids=["tensor"])
def test_smp_resumes_with_the_same_degrees(
    run: Run, folder: Path, alone: Callable[[str], Path], tmp_path: Path
) -> None:
    said = ranks(4, tmp_path, learn_in_parts, run, folder, tmp_path / "whole", tmp_path / "halved")
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "halved")
    assert all(np.array_equal(one[name], other[name]) for name in one)
    expected = weights(alone("whole"))
    assert max(float(np.abs(one[name] - expected[name]).max()) for name in expected) <= RUNS["whole"][3]
    assert "no tensor 'model/" in said[0]


def refusals(process: Process, folder: Path, target: Path) -> list[str]:
    """What is said to libraries that do otherwise than they document."""
    from torch.sagemaker import split_model  # type: ignore[import-not-found]

    found = []
    for name, wrong in (
        ("_places", lambda self, places: places),  # every rank believes that its texts begin with its part
        ("translated", lambda self, found: found),  # full checkpoints keep its own names
    ):
        kept = getattr(split_model.Model, name)
        setattr(split_model.Model, name, wrong)
        with pytest.raises(InputError) as refused:
            learn(process, "whole", CONTEXT, folder, target)
        found.append(str(refused.value))
        setattr(split_model.Model, name, kept)
    return found


@pytest.mark.slow
def test_a_library_with_other_behaviour_is_refused_at_the_start(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "causal_lm", tmp_path / "causal_lm")
    tiny.model(tmp_path / "llama", initializer_range=0.5)  # in which attention tells positions apart
    folder = tmp_path
    for places, names in ranks(2, tmp_path, refusals, folder, tmp_path):
        assert "differs from the recipe's in outputs, gradient (norm" in places
        assert "differs from the recipe's in full checkpoint (norm" in names and "Use strategy fsdp_tp or cp" in names


class LlamaForCausalLM(nn.Module):
    config = SimpleNamespace(model_type="llama", num_attention_heads=4, num_key_value_heads=2)


class BertForMaskedLM(nn.Module):
    config = SimpleNamespace(model_type="bert", num_attention_heads=4)


@pytest.mark.parametrize(
    ("model", "recipe", "degrees", "said"),
    [
        (nn.Sequential(), {}, {"tensor": 2}, r"tensor 2, and the recipe's model is a Sequential.*strategy fsdp_tp or"),
        (BertForMaskedLM(), {}, {"context": 2}, r"context 2, .* a BertForMaskedLM.*types gpt_neox, llama, mistral, wh"),
        (LlamaForCausalLM(), {"packed": True}, {"context": 2}, "with packed or loss_chunk.*Leave them out; or use st"),
        (LlamaForCausalLM(), {}, {"tensor": 2}, r"the recipe has no loss_weights\(\).*strategy fsdp"),
        (LlamaForCausalLM(), {"loss_weights": len}, {"tensor": 4}, "4 does not divide the model's num_key_value_heads"),
    ],
)
def test_models_that_cannot_be_split(
    model: nn.Module, recipe: dict[str, Any], degrees: dict[str, int], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        refuse_model(model, SimpleNamespace(**recipe), {"context": 1, "tensor": 1} | degrees)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"expert": 2},
            "expert=2; allowed is 1.*Use strategy fsdp; or a script of your own by train_script",
        ),
        ({"tensor": 0}, "tensor=0; allowed are whole numbers from 1"),
        ({"shard": 1, "tensor": 2}, "shard=1 leaves every copy whole.*Use strategy tp"),
        ({"activation_loading_horizon": 0}, "activation_loading_horizon=0; allowed are whole numbers from 1"),
    ],
)
def test_impossible_degrees_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_strategy("smp", options)
