"""Fine-tuning of transformers' models: two ranks learn what one process learns, and evaluate to the same digits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file

from drivetrain.base.errors import InputError
from drivetrain.training.config import Config, Folders
from drivetrain.training.process import Process
from drivetrain.training_scripts import evaluate, predict
from drivetrain.training_scripts.train import train
from tests.fixtures import tiny_transformers as tiny

Forked = Callable[..., list[Any]]
# 49 rows in batches of 16: the last one of an epoch has 1, so that a rank of two has none; 5 epochs are 20 steps.
ROWS = 49
COMMON: dict[str, Any] = {
    "recipe": "huggingface",
    "global_batch": 16,
    "epochs": 5,
    "warmup_epochs": 0.0,
    "clip_norm": 0.3,
    "checkpoint_every": "3steps",
    "keep_last": 99,
}
LORA = {"lora_rank": 4, "lora_targets": ["q_proj", "v_proj", "o_proj", "down_proj"]}
# name: kind of model, options of the recipe, learning rate, tolerance
RUNS: dict[str, tuple[str, dict[str, Any], float, float]] = {
    "lora": ("llama", {"head": "causal_lm", "prompt": "prompt", "optimizer_kind": "sgd", **LORA}, 0.1, 1e-6),
    "whole": ("llama", {"head": "causal_lm", "prompt": "prompt", "optimizer_kind": "sgd"}, 0.1, 1e-6),
    "lora-adamw": ("llama", {"head": "sequence_classification", **LORA}, 3e-3, 2e-5),
    "whole-adamw": ("llama", {"head": "causal_lm", "packed": True}, 1e-3, 2e-5),
    "bert-lora": ("bert", {"head": "token_classification", "lora_rank": 4, "optimizer_kind": "sgd"}, 0.1, 1e-6),
    "bert": ("bert", {"head": "sequence_classification", "optimizer_kind": "sgd"}, 0.1, 1e-6),
}
QUICK = [("lora", "tp"), ("whole", "ddp"), ("bert-lora", "fsdp")]
PAIRS = [
    (name, strategy)
    for name in RUNS
    for strategy in ("ddp", "fsdp", "tp")
    if (RUNS[name][0], strategy) != ("bert", "tp")
]


def fit(process: Process, name: str, strategy: str, folder: Path, target: Path, **more: Any) -> None:
    kind, options, rate, _ = RUNS[name]
    recipe_options = json.dumps({"length": tiny.LENGTH, **options, **more.pop("recipe_options", {})})
    config = Config(strategy=strategy, recipe_options=recipe_options, learning_rate=rate, **COMMON | more)
    folders = Folders(
        train=folder / options["head"],
        validation=folder / options["head"],
        weights=folder / kind,
        model=target / "model",
        output=target,
        checkpoints=target / "checkpoints",
    )
    train(config, folders, process)


def weights(target: Path) -> dict[str, NDArray[Any]]:
    return load_file(target / "model/model.safetensors")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models and data; from here on this process has transformers, and the ranks that it forks."""
    import peft  # noqa: F401

    made = tmp_path_factory.mktemp("huggingface")
    for kind in ("llama", "bert"):
        tiny.model(made / kind, kind)
    for head in ("sequence_classification", "token_classification", "causal_lm"):
        tiny.texts(made / head, ROWS, head)
    return made


@pytest.fixture(scope="module")
def alone(folder: Path) -> Callable[[str], Path]:
    """What one process learns; once a run."""

    def trained(name: str) -> Path:
        target = folder / f"alone-{name}"
        if not target.exists():
            fit(Process(0, 1, 0, 1, torch.device("cpu")), name, "single", folder, target)
        return target

    return trained


@pytest.mark.parametrize(
    ("name", "strategy"),
    [pytest.param(*pair, marks=[] if pair in QUICK else pytest.mark.slow, id="-".join(pair)) for pair in PAIRS],
)
def test_two_ranks_learn_what_one_learns(
    name: str, strategy: str, folder: Path, alone: Callable[[str], Path], forked: Forked, tmp_path: Path
) -> None:
    forked(2, fit, name, strategy, folder, tmp_path)
    found, expected = weights(tmp_path), weights(alone(name))
    start = load_file(folder / RUNS[name][0] / "model.safetensors")
    assert found.keys() == expected.keys()
    moved = max(float(np.abs(expected[each] - start[each]).max()) for each in expected.keys() & start.keys())
    assert moved > 1e-3  # it learnt something
    furthest = max(float(np.abs(found[each] - expected[each]).max()) for each in expected)
    assert furthest <= RUNS[name][3]
