"""Texts of known words in two files of JSON Lines, and a tokenizer beside them that numbers those words."""

import json
from pathlib import Path

import numpy as np

from tests.fixtures import tiny_transformers as tiny

OPTIONS: dict[str, object] = {"length": 6}


def write(folder: Path, rows: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    from transformers import AutoTokenizer

    folder.mkdir()
    tokenizer = folder.parent / "tokenizer"
    if not tokenizer.exists():
        tiny.tokenizer(tokenizer)
    OPTIONS["tokenizer"] = str(tokenizer)  # it lies where the test writes
    number = AutoTokenizer.from_pretrained(tokenizer).convert_tokens_to_ids
    tokens, lengths = np.zeros((rows, 6), dtype=np.int64), random.integers(1, 9, rows)
    labels = random.integers(0, 3, rows)
    for name, some in (("a", range(rows // 3)), ("b", range(rows // 3, rows))):
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as stream:
            for row in some:
                words = [tiny.WORDS[place] for place in random.integers(0, len(tiny.WORDS), lengths[row])]
                tokens[row, : len(words)] = [number(word) for word in words[:6]]
                stream.write(json.dumps({"text": " ".join(words), "label": int(labels[row])}) + "\n")
    return {"tokens": tokens, "length": np.minimum(lengths, 6), "label": labels}
