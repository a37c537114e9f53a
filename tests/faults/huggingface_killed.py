"""SIGKILL the fine-tuning of a transformers model by adapters, at a random instant, and let it go on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults import checkpoint_killed
from tests.faults.harness.families import Found, Trial

if TYPE_CHECKING:
    from tests.faults.harness.training import Reference

FAULT = "adapters of a transformers model (ddp, fsdp, tp), killed at any instant: whole, unmixed, bit-equal"
TRIALS, QUICK, AT_ONCE = 30, 1, 1
PRELOAD = ("tests.faults.harness.training", "peft")
PATIENCE_S = 600.0

_ROWS = 24


def prepare(folder: Path) -> Sequence[Reference]:
    from tests.faults.harness import training
    from tests.faults.harness.training import Case
    from tests.fixtures import tiny_transformers as tiny

    data = folder / "data"
    data.mkdir()
    # Each row is a class of its own, so that the targets of a step tell its rows.
    rows = [{"text": " ".join(tiny.WORDS[row : row + 1 + row % 5]), "label": row} for row in range(_ROWS)]
    (data / "data.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    options = {
        "length": 8,
        "num_labels": _ROWS,
        "lora_rank": 2,
        "lora_dropout": 0.1,
        "lora_targets": ["q_proj", "o_proj"],
    }
    common = {
        "recipe": "huggingface",
        "recipe_options": json.dumps(options),
        "weights": str(tiny.model(folder / "llama")),
        "global_batch": "7",
        "epochs": "4",
        "log_every": "3",
        "checkpoint_every": "4steps",
    }
    cases = [Case(name, 2, 4, {**common, "strategy": name}) for name in ("ddp", "fsdp", "tp")]
    return training.References(cases, data, folder)


def trial(given: Trial, shared: Sequence[Reference]) -> Found:
    return checkpoint_killed.trial(given, shared)
