"""One bit of a checkpoint flipped, and each of its files cut off somewhere: noticed, set aside with a report that names
the file, and the checkpoint before it is loaded."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from unittest import mock

from drivetrain.training_scripts.checkpointing.manifest import MANIFEST_FILE
from drivetrain.training_scripts.checkpointing.places.folder import FolderPlace
from drivetrain.training_scripts.checkpointing.store import REPORT_FILE, Store
from tests.faults.harness.families import Found, Trial
from tests.faults.harness.made_checkpoints import Files, draw_files, load_newest, save

FAULT = "a bit flipped, every file cut off: noticed, named, and the older checkpoint is loaded"
# A trial flips one bit and cuts each file off at one offset.
TRIALS, QUICK, AT_ONCE = 1000, 50, 2
_OLD, _NEW = 40, 100


@mock.patch("os.fsync")  # this machine will not lose its power
def trial(given: Trial, shared: None, fsync: mock.Mock) -> Found:
    draw = given.draw
    older = draw_files(draw, _OLD)
    store = Store(FolderPlace(given.folder / "whole"))
    save(store, _OLD, older)
    save(store, _NEW, draw_files(draw, _NEW))
    folder = given.folder / "whole" / store.folder(_NEW)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    did: Counter[str] = Counter()
    violations: list[str] = []
    # The manifest as often as all others: nothing else vouches for it.
    flipped = folder / MANIFEST_FILE if draw.random() < 0.5 else draw.choice(files)
    if size := flipped.stat().st_size:
        bit = draw.randrange(size * 8)
        violations += _try(given, flipped, f"bit {bit} flipped", _flipped(flipped.read_bytes(), bit), older)
        did["bits flipped"] += 1
    for path in files:
        if size := path.stat().st_size:
            length = draw.randrange(size)
            violations += _try(given, path, f"cut off after {length} bytes", path.read_bytes()[:length], older)
            did["files cut off"] += 1
    return Found(violations, did)


def _flipped(data: bytes, bit: int) -> bytes:
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def _try(given: Trial, path: Path, what: str, content: bytes, older: Files) -> list[str]:
    """Damage one file of a copy, and load."""
    copy = given.folder / "damaged"
    shutil.copytree(given.folder / "whole", copy)
    try:
        (copy / path.relative_to(given.folder / "whole")).write_bytes(content)
        loaded = load_newest(Store(FolderPlace(copy)))
        if (loaded.step, loaded.files, loaded.quarantined) != (_OLD, older, [_NEW]):
            return [f"{path.name} {what}: step {loaded.step} is loaded, {loaded.quarantined} set aside"]
        report = json.loads((copy / f"quarantine/step-{_NEW:08d}.1" / REPORT_FILE).read_text())
        if report["file"] != path.name:
            return [f"{path.name} {what}: the report says {report}"]
        return []
    finally:
        shutil.rmtree(copy)
