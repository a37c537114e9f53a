"""The recipe of transformers' models: what a batch is, what counts, and what is refused before anything is learnt."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.config import Config, Folders
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.process import Process
from drivetrain.training.recipe import load_recipe
from drivetrain.training_scripts.train import train
from tests.fixtures import tiny_transformers as tiny

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
ROWS = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("folders")
    for kind in ("llama", "bert"):
        tiny.model(made / kind, kind)
    for head in ("sequence_classification", "token_classification", "causal_lm"):
        tiny.texts(made / head, ROWS, head)
    return made


def opened(folder: Path, kind: str, **options: Any) -> tuple[Any, Dataset]:
    recipe: Any = load_recipe("huggingface", {"pretrained": str(folder / kind), "length": tiny.LENGTH, **options})
    return recipe, Dataset(folder / recipe.head, recipe, ALONE)


def rows_of(folder: Path, head: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / head / "a.jsonl").read_text().splitlines()]


def test_padding_is_masked_and_left_out_where_all_rows_have_it(folder: Path) -> None:
    _, data = opened(folder, "bert")
    lengths = [len(row["text"].split()) for row in rows_of(folder, "sequence_classification")]
    short = np.flatnonzero(np.array(lengths) < max(lengths))[:2]
    batch = data.batch(short)
    width = max(lengths[row] for row in short)
    assert batch.inputs["input_ids"].shape == batch.inputs["attention_mask"].shape == (2, width)
    assert batch.inputs["attention_mask"].sum(dim=1).tolist() == [lengths[row] for row in short]
    assert data.fitted == {"labels": ["neg", "pos"]}
    assert batch.targets.tolist() == [
        int(rows_of(folder, "sequence_classification")[row]["label"] == "pos") for row in short
    ]


def test_a_prompt_is_seen_and_not_learnt(folder: Path) -> None:
    recipe, data = opened(folder, "llama", head="causal_lm", prompt="prompt")
    batch, rows = data.batch(slice(0, ROWS)), rows_of(folder, "causal_lm")
    # What follows the last token of the prompt is learnt, to the token that ends the text.
    assert recipe.loss_weights(batch.targets).tolist() == [len(row["text"].split()) + 1 for row in rows]
    tokens, targets = batch.inputs["input_ids"], batch.targets
    assert (targets[:, :-1] == tokens[:, 1:])[targets[:, :-1] != -100].all()


def test_packed_texts_give_what_each_gives_alone(folder: Path) -> None:
    packed, rows = opened(folder, "llama", head="causal_lm", packed=True)
    alone, texts = opened(folder, "llama", head="causal_lm")
    assert len(rows) < len(texts)
    lengths = texts.reader.read(slice(0, ROWS), ["length"])["length"]
    assert int(rows.reader.read(slice(0, len(rows)), ["length"])["length"].sum()) == lengths.sum()
    model = alone.model().eval()
    whole = packed.batch({**rows.reader.read(slice(0, len(rows)), packed.columns), "": np.zeros(len(rows))}, "")
    with torch.no_grad():
        logits = model(whole.inputs).flatten(0, 1)
        each = model(texts.batch(slice(0, ROWS)).inputs)
    first = int(lengths[0])  # the first text lies whole in the first row, and so does what fits behind it
    torch.testing.assert_close(logits[:first], each[0, :first])
    second = min(int(lengths[1]), tiny.LENGTH - first)
    torch.testing.assert_close(logits[first : first + second], each[1, :second])
    assert second > 0


def test_only_the_first_token_of_a_word_has_its_label(folder: Path) -> None:
    recipe, data = opened(folder, "bert", head="token_classification")
    batch, rows = data.batch(slice(0, ROWS)), rows_of(folder, "token_classification")
    expected = [[int(label == "late") for label in row["label"]] for row in rows]
    assert [row[row != -100].tolist() for row in batch.targets] == expected
    assert recipe.task == "tokens" and recipe.num_outputs == 2


def test_the_loss_is_that_of_transformers(folder: Path) -> None:
    import transformers

    recipe, data = opened(folder, "llama", head="causal_lm")
    batch = data.batch(slice(0, ROWS))
    inputs = batch.inputs
    labels = torch.where(inputs["attention_mask"].bool(), inputs["input_ids"], -100)
    with torch.no_grad():
        model = transformers.AutoModelForCausalLM.from_pretrained(folder / "llama")
        expected = model(**inputs, labels=labels).loss
        outputs = recipe.model().eval()(inputs)
    losses, weights = recipe.losses(outputs, batch.targets), recipe.loss_weights(batch.targets)
    torch.testing.assert_close((losses * weights).sum() / weights.sum(), expected)


# What is changed of a good folder or of good options -> what is said: field, reason, alternative.
Change = Callable[[Path], dict[str, Any]]
REFUSED: dict[str, tuple[Change, str]] = {
    "no folder": (lambda folder: {"pretrained": ""}, r"Give it as the training's input weights .*recipe_options"),
    "a folder that is not there": (lambda folder: {"pretrained": str(folder / "no")}, r"no is no folder\. Give one"),
    "no configuration": (lambda folder: gone(folder, "config.json"), r"no config\.json\. Give a folder that save_pret"),
    "no weights": (lambda folder: gone(folder, "model.safetensors"), r"no model\.safetensors\. .* save_pretrained"),
    "no tokenizer": (lambda folder: gone(folder, "tokenizer.json"), r"has no tokenizer \(tokenizer\.json, .* there"),
    "layers that are not there": (
        lambda folder: {"lora_rank": 2, "lora_targets": ["q_prog"]},
        r"no layer of llama for lora_targets 'q_prog'\. Did you mean 'q_proj'",
    ),
    "a head that there is not": (lambda folder: t5(folder), r"head='causal_lm', and t5 is .* decoder\. Allowed here"),
    "a head that transformers lacks": (lambda folder: clip(folder), r"head='causal_lm', and transformers has none for"),
    "too long a sequence": (lambda folder: {"length": 33}, r"length=33, and the model \(llama\) has 32 positions\."),
    "LoRA's options without it": (lambda folder: {"adapter": "apart"}, r"are for LoRA: give lora_rank from 1"),
    "packed labels": (
        lambda folder: {"packed": True, "head": "sequence_classification"}, r"packed and prompt are for head="
    ),
    "weights of another model": (lambda folder: torn(folder), r"weights in .* are not those of its config\.json"),
    "damaged weights": (lambda folder: cut(folder), r"the model in .* cannot be loaded|weights in .* are damaged"),
    "packed texts that see each other": (lambda folder: bloom(folder), r"packed=True, but in models of type bloom"),
}  # fmt: skip


def gone(folder: Path, name: str) -> dict[str, Any]:
    (folder / name).unlink()
    return {}


def t5(folder: Path) -> dict[str, Any]:
    return {"pretrained": str(tiny.model(folder / "t5", "t5"))}


def clip(folder: Path) -> dict[str, Any]:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({"model_type": "vit", "hidden_size": config["hidden_size"]}))
    return {}


def torn(folder: Path) -> dict[str, Any]:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    return {}


def cut(folder: Path) -> dict[str, Any]:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])
    return {}


def bloom(folder: Path) -> dict[str, Any]:
    import transformers

    config = transformers.BloomConfig(vocab_size=30, hidden_size=16, n_layer=2, n_head=4)
    transformers.BloomForCausalLM(config).save_pretrained(folder)
    return {"packed": True}


@pytest.mark.slow_cases("a head that transformers lacks")  # which imports all of its models
@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_before_anything_is_learnt(what: str, folder: Path, tmp_path: Path) -> None:
    change, message = REFUSED[what]
    start = tmp_path / "start"
    shutil.copytree(folder / "llama", start)
    options = {"head": "causal_lm", "length": 8, "pretrained": str(start)} | change(start)
    config = Config(recipe="huggingface", recipe_options=json.dumps(options), strategy="single")
    with pytest.raises(InputError, match=message):
        train(config, Folders(train=folder / "causal_lm", model=tmp_path / "model"), ALONE)
    assert not (tmp_path / "model").exists()


def test_a_folder_that_is_given_twice_is_refused(folder: Path, tmp_path: Path) -> None:
    options = json.dumps({"pretrained": str(folder / "llama")})
    config = Config(recipe="huggingface", recipe_options=options, strategy="single")
    folders = Folders(train=folder / "causal_lm", weights=folder / "bert", model=tmp_path / "model")
    with pytest.raises(InputError, match=r"pretrained=.* and the input weights is .* Give one of them"):
        train(config, folders, ALONE)
