"""A pipeline is not compiled with the folder of a pretrained model that does not fit its training."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Pipeline, SpecError, step
from drivetrain.components.train import train
from drivetrain.rules import pretrained_rules
from drivetrain.training_scripts.recipes import huggingface


def made(folder: Path, **changed: Any) -> Path:
    """What the rule looks at of a folder: no library is needed for it."""
    folder.mkdir()
    config = {"model_type": "llama", "vocab_size": 30, "max_position_embeddings": 32} | changed
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    names = ("model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.v_proj.weight")
    header = json.dumps({name: {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]} for name in names}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    return folder


def pipeline(weights: Any = None, **options: Any) -> Pipeline:
    given = {} if weights is None else {"weights": weights}
    fit = step(train, train="s3://b/k/", recipe="huggingface", recipe_options=json.dumps(options), **given)
    return Pipeline(name="fit", steps=[fit])


def test_pretrained_models_fit(tmp_path: Path) -> None:
    folder = made(tmp_path / "llama")
    good = {"head": "causal_lm", "length": 32, "lora_rank": 4, "lora_targets": ["q_proj"]}
    assert pipeline(folder, **good).steps
    assert pipeline("s3://b/model/", **good | {"length": 9_999}).steps  # nobody here can look at it
    for changed, message in (
        (
            {"length": 33},
            r"step 'train', recipe 'huggingface': length=33, .* has 32 positions\. Give a length up to 32",
        ),
        ({"lora_targets": ["k_prog"]}, r"no layer of llama for lora_targets 'k_prog'"),
        ({"length": "long"}, r"length='long' should be a whole number\."),
    ):
        with pytest.raises(SpecError, match=message):
            pipeline(folder, **good | changed)
    with pytest.raises(SpecError, match=r"starts from the folder of a pretrained model\. Give the step weights="):
        pipeline(**good)
    with pytest.raises(SpecError, match=r"head='causal_lm', and t5 is a model of encoder and decoder"):
        pipeline(made(tmp_path / "t5", model_type="t5", is_encoder_decoder=True), head="causal_lm", length=8)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(SpecError, match=r"llama has no tokenizer"):
        pipeline(folder, **good)


def test_positions_of_roberta_begin_behind_the_padding(tmp_path: Path) -> None:
    folder = made(tmp_path / "roberta", model_type="roberta", max_position_embeddings=34, pad_token_id=1)
    assert pipeline(folder, length=32).steps
    with pytest.raises(SpecError, match="has 32 positions"):
        pipeline(folder, length=33)


def test_its_defaults_are_the_recipe_s() -> None:
    own = {field.name: field.default for field in dataclasses.fields(huggingface.Recipe)}
    assert {name: own[name] for name in pretrained_rules.DEFAULTS} == pretrained_rules.DEFAULTS
