"""A fine-tuned model is registered with tokenizer and adapter, and answers texts by the code that goes with it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drivetrain.components.register_model import register_model
from drivetrain.registry.registry import open_registry
from drivetrain.training.config import Config, Folders
from drivetrain.training.process import Process
from drivetrain.training.serving import request
from drivetrain.training.serving.model import ServedModel
from drivetrain.training_scripts.train import train
from tests.fixtures import tiny_transformers as tiny

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
HEADS: dict[str, tuple[str, dict[str, Any]]] = {
    "sequence_classification": ("bert", {"lora_rank": 2, "adapter": "apart"}),
    "token_classification": ("bert", {}),
    "causal_lm": ("llama", {"lora_rank": 2, "prompt": "prompt"}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("served")
    for head, (kind, options) in HEADS.items():
        start = tiny.model(made / f"start-{head}", kind)
        data = tiny.texts(made / head, 12, head)
        given = json.dumps({"head": head, "length": tiny.LENGTH, **options})
        config = Config(recipe="huggingface", recipe_options=given, strategy="single", max_steps=2, learning_rate=0.1)
        train(config, Folders(train=data, weights=start, model=made / f"model-{head}"), ALONE)
        shutil.rmtree(start)  # what is handed on needs nothing of where it began
    return made


def rows_of(folder: Path, head: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / head / "a.jsonl").read_text().splitlines()[:4]]
    return [{name: value for name, value in row.items() if name != "label"} for row in rows]


def expected(folder: Path, head: str) -> list[Any]:
    """What transformers (and peft) say of the texts."""
    import peft
    import transformers

    model, rows = folder / f"model-{head}", rows_of(folder, head)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    found: list[Any] = []
    if head == "sequence_classification":
        base = transformers.AutoModelForSequenceClassification.from_pretrained(model / "base", num_labels=2)
        loaded: Any = peft.PeftModel.from_pretrained(base, model).eval()
    elif head == "token_classification":
        loaded = transformers.AutoModelForTokenClassification.from_pretrained(model)
    else:
        loaded = transformers.AutoModelForCausalLM.from_pretrained(model)
    for row in rows:
        text = f"{row['prompt']} {row['text']}" if "prompt" in row else row["text"]
        tokens = tokenizer(text, is_split_into_words=isinstance(text, list), return_tensors="pt")
        kept = {name: tokens[name][:, : tiny.LENGTH] for name in ("input_ids", "attention_mask")}
        with torch.no_grad():
            logits = loaded(**kept).logits[0]
        found.append(logits.softmax(dim=-1)[1].item() if logits.dim() == 1 else logits.argmax(dim=-1).tolist())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_texts_are_answered_like_transformers_does(head: str, folder: Path) -> None:
    model = ServedModel.load(folder / f"model-{head}", torch.device("cpu"))
    body = json.dumps({"instances": rows_of(folder, head)})
    answers = model.predict(request.columns_of(body, "application/json", model.inputs))
    wanted = expected(folder, head)
    if head == "sequence_classification":
        np.testing.assert_allclose(answers.scores, wanted, rtol=0, atol=1e-6)
    else:
        assert [row[: len(each)].tolist() for row, each in zip(answers.predicted, wanted, strict=True)] == wanted


@pytest.mark.slow  # a process of its own imports transformers
def test_the_code_in_the_folder_works_alone(folder: Path, tmp_path: Path) -> None:
    head = "sequence_classification"
    model, rows = tmp_path / "model", rows_of(folder, head)
    shutil.copytree(folder / f"model-{head}", model)
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    done = subprocess.run(
        [sys.executable, "code/inference.py", "--input", str(tmp_path / "rows.jsonl")],
        cwd=model, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    served = ServedModel.load(model, torch.device("cpu"))
    direct = served.predict(request.columns_of(json.dumps(rows), "application/json", served.inputs))
    assert len(answers) == len(rows)
    assert [answer["predicted"] for answer in answers] == direct.predicted.tolist()


@pytest.mark.parametrize("head", ["sequence_classification", "causal_lm"])
def test_it_is_registered_with_its_tokenizer_and_adapter(head: str, folder: Path, tmp_path: Path) -> None:
    import transformers

    registry = f"local:{tmp_path / 'ledger.db'}"
    made = register_model(model=folder / f"model-{head}", group="texts", registry=registry)
    assert made.version == 1 and made.created == 1
    version = open_registry(registry).version("texts")
    place = Path(version.artifact.removeprefix("file://"))
    assert (place / "tokenizer.json").is_file()
    assert (place / "adapter_config.json").is_file() == (head == "sequence_classification")
    assert transformers.AutoTokenizer.from_pretrained(place)("ban der")["input_ids"]
    # Another tokenizer is another content, and so another version.
    changed = tmp_path / "changed"
    shutil.copytree(folder / f"model-{head}", changed)
    (changed / "tokenizer.json").write_text((changed / "tokenizer.json").read_text().replace("ban", "bam"))
    assert register_model(model=changed, group="texts", registry=registry).version == 2


def test_inputs_that_are_no_text_are_reported(folder: Path) -> None:
    from drivetrain.base.errors import InputError

    for head, given, allowed in (
        ("sequence_classification", 3, "a text"),
        ("token_classification", "ban der", "a list of words"),
    ):
        model = ServedModel.load(folder / f"model-{head}", torch.device("cpu"))
        with pytest.raises(InputError, match=rf"row 1: text is .*; allowed is {allowed}\."):
            request.columns_of(json.dumps([{"text": given}]), "application/json", model.inputs)
