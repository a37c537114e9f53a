"""Asynchronous saves at every step beside the collectives of training, which changes the weights at once."""

from __future__ import annotations

import json
import random
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.faults.harness.families import Found, Trial

if TYPE_CHECKING:
    from tests.faults.harness.training import Case

FAULT = "asynchronous save at each of 25 steps, weights changed right after: no hang, no mixed step"
TRIALS, QUICK, AT_ONCE = 20, 1, 2
PRELOAD = ("tests.faults.harness.training",)
PATIENCE_S = 400.0

_STEPS = 25
_SLOWEST_WRITE_S = 0.03


def prepare(folder: Path) -> tuple[Case, Path]:
    from tests.faults.harness import training
    from tests.faults.harness.training import Case

    options = {"global_batch": "8", "epochs": "7", "max_steps": str(_STEPS), "ema_decay": "0.9"}
    options |= {"checkpoint_every": "1steps", "keep_last": "1000", "recipe_options": '{"hidden": 160}'}
    return Case("2 ranks", 2, 1, options), training.write_data(folder / "data")


def trial(given: Trial, shared: tuple[Case, Path]) -> Found:
    from tests.faults.harness import training

    case, data = shared

    def slow_writes(rank: int) -> None:
        """A slow disk: what is written late must be what was saved, and not what there is by then."""
        from drivetrain.training.checkpointing.places.folder import FolderPlace

        draw, write = random.Random(given.draw.random() + rank), FolderPlace.write

        def written(self: FolderPlace, name: str, content: Any) -> int:
            time.sleep(draw.uniform(0.0, _SLOWEST_WRITE_S))
            return write(self, name, content)

        FolderPlace.write = written

    with training.start(case, data, given.folder, 0, change=slow_writes) as ranks:
        codes = ranks.wait(training.PATIENCE_S)
    if codes != {0: 0, 1: 0}:
        return Found([f"the training ended with {codes}: {training.logs(given.folder, 0)}"])
    right = {step: state for step, _, state in training.trace(given.folder, 0, 0)}
    violations: list[str] = []
    did: Counter[str] = Counter()
    for folder in sorted((given.folder / "checkpoints").glob("*/step-*")):
        if not (folder / "manifest.json").exists():
            violations.append(f"{folder.name} has no manifest")
        step = int(folder.name.removeprefix("step-").partition(".")[0])
        did.update(["saves"])
        if step + 1 not in right:  # after the last step no step looks at the state
            continue
        found = read_checksums(folder)
        wrong = [name for name, checksum in right[step + 1].items() if found.get(name) != checksum]
        if wrong:
            violations.append(f"{folder.name} holds {len(wrong)} tensors of another step: {', '.join(wrong[:4])}")
    if did["saves"] != _STEPS:
        violations.append(f"{did['saves']} checkpoints of {_STEPS}: {training.logs(given.folder, 0)}")
    return Found(violations, did)


def read_checksums(folder: Path) -> dict[str, int]:
    """The checksum of every tensor of a checkpoint, read by nothing but its index."""
    import numpy as np

    tensors = json.loads((folder / "index.json").read_text())["tensors"]
    content = {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}
    found: dict[str, int] = {}
    for name, entry in tensors.items():
        dtype = np.dtype(entry["dtype"])
        whole = np.empty(entry["shape"], dtype)
        for chunk in entry["chunks"]:
            data = content[chunk["file"]][chunk["start"] : chunk["start"] + chunk["length"]]
            ends = zip(chunk["offsets"], chunk["sizes"], strict=True)
            place = tuple(slice(offset, offset + size) for offset, size in ends)
            whole[place] = np.frombuffer(data, dtype).reshape(chunk["sizes"])
        found[name] = zlib.crc32(whole.tobytes())
    return found
