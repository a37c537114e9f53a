"""Fine-tuning of transformers' models: two ranks learn what one process learns, and evaluate to the same digits."""

from __future__ import annotations

import json
import shutil
import tarfile
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
from drivetrain.training.torch.models.loaded_model import load_model
from drivetrain.training_scripts import evaluate, predict
from drivetrain.training_scripts.train import train
from tests.fixtures import tiny_transformers as tiny

# transformers is dear to import; what the recipe does is shown by tests/unit/training_scripts/recipes.
pytestmark = pytest.mark.slow

Forked = Callable[..., list[Any]]
ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
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
    "tied": ("tied", {"head": "causal_lm", "optimizer_kind": "sgd"}, 0.1, 1e-6),
    "chunked": (
        "llama",
        {"head": "causal_lm", "prompt": "prompt", "loss_chunk": 5, "optimizer_kind": "sgd"},
        0.1,
        1e-6,
    ),
    "bert-lora": ("bert", {"head": "token_classification", "lora_rank": 4, "optimizer_kind": "sgd"}, 0.1, 1e-6),
    "bert": ("bert", {"head": "sequence_classification", "optimizer_kind": "sgd"}, 0.1, 1e-6),
}
QUICK = [("whole", "ddp"), ("lora", "ddp")]
PAIRS = [
    (name, strategy)
    for name in RUNS
    for strategy in ("ddp", "fsdp", "tp")
    if (RUNS[name][0], strategy) != ("bert", "tp") and (name, strategy) != ("chunked", "tp")
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
    tiny.model(made / "tied", "llama", tie_word_embeddings=True)
    for head in ("sequence_classification", "token_classification", "causal_lm"):
        tiny.texts(made / head, ROWS, head)
    return made


@pytest.fixture(scope="module")
def alone(folder: Path) -> Callable[[str], Path]:
    """What one process learns; once a run."""

    def trained(name: str) -> Path:
        target = folder / f"alone-{name}"
        if not target.exists():
            fit(ALONE, name, "single", folder, target)
        return target

    return trained


@pytest.mark.parametrize(
    ("name", "strategy"),
    [pytest.param(*pair, marks=[] if pair in QUICK else pytest.mark.slow, id="-".join(pair)) for pair in PAIRS],
)
def test_two_ranks_equal_one_process(
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


def test_only_adapters_are_saved(alone: Callable[[str], Path], folder: Path) -> None:
    target = alone("lora")
    steps = sorted((target / "checkpoints").rglob("step-*/index.json"))
    assert len(steps) == 7  # every third of 20, and the last
    for path in steps:
        names = [name for name in json.loads(path.read_text())["tensors"] if not name.startswith("generator")]
        assert sum(name.startswith("model/") for name in names) == 16  # two a layer that is adapted
        assert all("lora_" in name for name in names), names
    base, found = load_file(folder / "llama/model.safetensors"), weights(target)
    assert base.keys() == found.keys()
    adapted = ("q_proj", "v_proj", "o_proj", "down_proj")
    changed = {name for name in base if not np.array_equal(base[name], found[name])}
    assert changed == {name for name in base if name.split(".")[-2] in adapted}


def test_transformers_loads_the_output_model(alone: Callable[[str], Path]) -> None:
    import transformers

    for name, kind in (
        ("lora", "AutoModelForCausalLM"),
        ("whole-adamw", "AutoModelForCausalLM"),
        ("bert", "AutoModelForSequenceClassification"),
    ):
        model = alone(name) / "model"
        loaded, about = getattr(transformers, kind).from_pretrained(model, output_loading_info=True)
        assert not about["missing_keys"] and not about["unexpected_keys"] and not about["mismatched_keys"]
        tokens = transformers.AutoTokenizer.from_pretrained(model)("ban der fis", return_tensors="pt")
        with torch.no_grad():
            expected = loaded(**tokens).logits
            _, own, _ = load_model(model)
            found = own.eval()(dict(tokens))
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_peft_loads_a_separate_adapter(folder: Path, tmp_path: Path) -> None:
    import peft
    import transformers

    fit(ALONE, "lora-adamw", "single", folder, tmp_path, epochs=1, recipe_options={"adapter": "apart"})
    model = tmp_path / "model"
    assert (model / "base/model.safetensors").read_bytes() == (folder / "llama/model.safetensors").read_bytes()
    torch.manual_seed(7)  # by which the base model's new head is drawn: the adapter brings its own
    base = transformers.AutoModelForSequenceClassification.from_pretrained(model / "base", num_labels=2, pad_token_id=0)
    loaded = peft.PeftModel.from_pretrained(base, model).eval()
    _, own, description = load_model(model)
    assert description["recipe"] == "huggingface"
    tokens = {"input_ids": torch.arange(4, 16).view(2, 6), "attention_mask": torch.ones(2, 6, dtype=torch.int64)}
    with torch.no_grad():
        torch.testing.assert_close(own.eval()(tokens), loaded(**tokens).logits, rtol=0, atol=0)


def measure(process: Process, model: Path, data: Path, target: Path, strategy: str) -> tuple[dict[str, float], bytes]:
    numbers = evaluate.run(model, data, process, settings=evaluate.Settings(batch_size=8, threads=1, strategy=strategy))
    predict.run(model, data, target, process, settings=predict.Settings(batch_size=8, rows_per_shard=20, threads=1))
    files = sorted(target.glob("*.parquet"))
    return numbers, b"".join(path.read_bytes() for path in files)


@pytest.mark.slow_cases("bert-lora", "whole-adamw")
@pytest.mark.parametrize("name", ["lora", "bert-lora", "whole-adamw"])
def test_any_number_of_ranks_evaluates_to_the_same_digits(
    name: str, alone: Callable[[str], Path], folder: Path, forked: Forked, tmp_path: Path
) -> None:
    model, data = alone(name) / "model", folder / RUNS[name][1]["head"]
    found = []
    for ranks in (1, 2, 3):
        found += forked(ranks, measure, model, data, tmp_path / f"predictions-{ranks}", "ddp")
    assert found[0][0]["num_samples"] >= 10 and {"loss", "perplexity", "exact_match"} <= found[0][0].keys()
    assert len(found[0][1]) > 1000
    assert all(each == found[0] for each in found)


def test_a_training_resumes_in_mid_epoch(alone: Callable[[str], Path], folder: Path, tmp_path: Path) -> None:
    whole = alone("lora-adamw")
    shutil.copytree(whole / "checkpoints", tmp_path / "checkpoints")
    for step in (tmp_path / "checkpoints").rglob("step-*"):
        if int(step.name.split("-")[1].partition(".")[0]) > 6:  # of 4 an epoch
            shutil.rmtree(step)
    fit(ALONE, "lora-adamw", "single", folder, tmp_path)
    assert (tmp_path / "model/model.safetensors").read_bytes() == (whole / "model/model.safetensors").read_bytes()
    assert (tmp_path / "history.json").read_text() == (whole / "history.json").read_text()


def test_the_same_training_elsewhere_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    """Where the folders lie is no part of a model; and one goes on from the archive of an earlier one's model."""
    shutil.copytree(folder / "llama", tmp_path / "elsewhere/llama")
    shutil.copytree(folder / "sequence_classification", tmp_path / "elsewhere/sequence_classification")
    for place, target in ((folder, "one"), (tmp_path / "elsewhere", "other")):
        fit(ALONE, "lora-adamw", "single", place, tmp_path / target, epochs=1)
    one, other = (
        {str(path.relative_to(model)): path.read_bytes() for path in model.rglob("*") if path.is_file()}
        for model in (tmp_path / "one/model", tmp_path / "other/model")
    )
    assert one == other and "tokenizer.json" in one
    shutil.rmtree(tmp_path / "elsewhere/llama")
    (tmp_path / "elsewhere/llama").mkdir()
    with tarfile.open(tmp_path / "elsewhere/llama/model.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "one/model", ".")
    fit(ALONE, "lora-adamw", "single", tmp_path / "elsewhere", tmp_path / "again", epochs=1)
    before, after = (load_file(tmp_path / each / "model/model.safetensors") for each in ("one", "again"))
    assert before.keys() == after.keys() and not np.array_equal(before["score.weight"], after["score.weight"])
    np.testing.assert_array_equal(before["model.norm.weight"], after["model.norm.weight"])


def test_another_base_model_is_another_training(alone: Callable[[str], Path], folder: Path, tmp_path: Path) -> None:
    shutil.copytree(alone("lora") / "checkpoints", tmp_path / "checkpoints")
    other = tmp_path / "other"
    shutil.copytree(folder / "causal_lm", other / "causal_lm")
    tiny.model(other / "llama", seed=1)
    fit(ALONE, "lora", "single", other, tmp_path, max_steps=1)
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_a_model_without_a_plan_is_not_split(kind: str, folder: Path, forked: Forked, tmp_path: Path) -> None:
    start = tiny.model(tmp_path / kind, kind)
    head = "causal_lm" if kind == "gpt2" else "sequence_classification"
    (said, _) = forked(2, refusal, start, head, folder, tmp_path)
    assert f"no plan of tensor parallelism for models of type {kind}" in said and "'fsdp'" in said


def refusal(process: Process, start: Path, head: str, folder: Path, target: Path) -> str:
    config = Config(strategy="tp", recipe_options=json.dumps({"head": head, "length": 8}), **COMMON)
    with pytest.raises(InputError) as refused:
        train(config, Folders(train=folder / head, weights=start, model=target / "model"), process)
    return str(refused.value)
