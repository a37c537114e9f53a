"""Losses, weights and checkpoints of PyTorch's strategies, bit for bit as they were when they were recorded.

    python -m tests.distributed.test_recorded_digests      records them anew: after a change that is to change bits

Processors round differently: a digest is compared where plain torch, by a probe that runs no code of ours, computes
what it computed on the machine of the recording.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from drivetrain.training.checkpointing.store.manifest import Manifest
from drivetrain.training.config import Config, Folders
from drivetrain.training.process import Process
from drivetrain.training_scripts.train import train
from tests.distributed.prepared_data import digit_columns, write_prepared

RECORDED = Path(__file__).with_name("recorded_digests.json")
# (strategy, options, ranks): 50 rows in batches of 16: the last one of an epoch has 2, or 1 a rank.
RUNS: dict[str, tuple[str, str, int]] = {
    "single": ("single", "{}", 1),
    "ddp": ("ddp", "{}", 2),
    "fsdp": ("fsdp", "{}", 2),
    "tp": ("tp", "{}", 2),
    "pp": ("pp", "{}", 2),
    "pp_ddp": ("pp_ddp", '{"stage": 2, "replicate": 2}', 4),
}
# Everything that keeps a state of its own.
COMMON: dict[str, Any] = {
    "recipe": "digits_cnn",
    "recipe_options": '{"channels": 4, "hidden": 16}',
    "global_batch": 16,
    "epochs": 2,
    "learning_rate": 1e-2,
    "accumulation": 2,
    "clip_norm": 0.5,
    "ema_decay": 0.9,
    "keep_best": True,
    "log_every": 1,
    "checkpoint_every": "3steps",
    "keep_last": 9,
}
_TIMES = ("time", "samples_per_second")
_SAID = ("consumed", "epoch", "folders", "finished", "metrics", "strategy")


def probe() -> str:
    """The digest of a few steps that no code of ours takes: how this machine rounds."""
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 16), nn.ReLU(), nn.Linear(16, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for rows in (16, 8, 4, 2, 1):
        optimizer.zero_grad()
        functional.cross_entropy(model(torch.rand(rows, 1, 8, 8)), torch.arange(rows) % 10).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    return _sha(b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters()))


def digests(folder: Path) -> dict[str, str]:
    """Of a training that ran in `folder`."""
    lines = [json.loads(line) for line in (folder / "output/metrics.jsonl").read_text().splitlines()]
    losses = [{name: value for name, value in line.items() if name not in _TIMES} for line in lines]
    found = {
        "losses": _sha(json.dumps(losses).encode()),
        "weights": _sha((folder / "model/model.safetensors").read_bytes()),
    }
    for step in sorted((folder / "checkpoints").rglob("step-*")):
        name = "-".join(step.name.split("-")[:2])
        manifest = Manifest.from_bytes((step / "manifest.json").read_bytes())
        files = [astuple(file) for file in manifest.files if file.name != "state.json"]
        state = json.loads((step / "state.json").read_text())
        del state["config"]["code"], state["description"]  # hashes of files; names of versions
        del state["health_rules"]  # by the clock: of which steps there was a record
        said = {each: manifest.values[each] for each in _SAID}
        found[name] = _sha(json.dumps([files, said, state], sort_keys=True).encode())
        found[f"index of {name}"] = _sha((step / "index.json").read_bytes())
    return found


def fit(process: Process, name: str, data: Path, target: Path) -> None:
    strategy, options, _ = RUNS[name]
    config = Config(strategy=strategy, strategy_options=options, **COMMON)
    folders = Folders(
        train=data,
        validation=data,
        model=target / "model",
        output=target / "output",
        checkpoints=target / "checkpoints",
    )
    train(config, folders, process)


def recorded() -> dict[str, Any]:
    found = json.loads(RECORDED.read_text())
    if probe() != found["probe"]:
        pytest.skip("this machine, or this torch, rounds otherwise than the one of the recording")
    return found


@pytest.mark.slow_cases("pp_ddp", "tp", "pp")
@pytest.mark.parametrize("name", RUNS)
def test_bits_match_the_recording(name: str, pooled: Any, digits: Path, tmp_path: Path) -> None:
    expected = recorded()["digests"][name]
    pooled(RUNS[name][2], fit, name, digits, tmp_path)
    found = digests(tmp_path)
    assert len(found) >= 8  # losses, weights, and both of three checkpoints
    assert found == expected


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _record() -> None:
    from tests.distributed.rank_pool import RankPool

    torch.set_num_threads(1)
    made: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        data = write_prepared(Path(temporary) / "data", digit_columns(50))
        for name, (_, _, ranks) in RUNS.items():
            target = Path(temporary) / name
            pool = RankPool(ranks, Path(temporary))
            pool.run(fit, (name, data, target), 120)
            pool.end()
            made[name] = digests(target)
    RECORDED.write_text(json.dumps({"probe": probe(), "torch": torch.__version__, "digests": made}, indent=1) + "\n")


if __name__ == "__main__":
    _record()
