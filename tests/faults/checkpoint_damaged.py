"""One bit of a checkpoint flipped, and each of its files cut off somewhere: noticed, set aside with a report that names
the file, and the checkpoint before it is loaded. Most trials ask the store alone, with files that are made up; the
others damage what a training has saved, and let the training go on."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.manifest import MANIFEST_FILE
from drivetrain.training.checkpointing.store.store import REPORT_FILE, Store
from tests.faults.harness.families import Found, Trial
from tests.faults.harness.made_checkpoints import Files, draw_files, load_newest, save

if TYPE_CHECKING:
    import random

    from tests.faults.harness.training import Reference

FAULT = "a bit flipped, every file cut off: noticed, named, and the older checkpoint is loaded"
# A trial flips one bit and cuts each file off at one offset; one of a training that goes on does the one or the other.
TRIALS, QUICK, AT_ONCE = 1000, 11, 2
PRELOAD = ("tests.faults.harness.training",)
PATIENCE_S = 400.0

_OLD, _NEW = 40, 100
_GOES_ON_EACH = 10
_EVERY = 4


def prepare(folder: Path) -> list[Reference]:
    """Trainings that have come to their end, each with two checkpoints at least."""
    from tests.faults.harness import training
    from tests.faults.harness.training import Case

    data = training.write_data(folder / "data")
    options = {"global_batch": "8", "epochs": "4", "ema_decay": "0.9", "checkpoint_every": f"{_EVERY}steps"}
    cases = [Case(f"{size} ranks", size, _EVERY, options) for size in (1, 2)]
    return [training.uninterrupted(case, data, folder / case.name) for case in cases]


def trial(given: Trial, shared: list[Reference]) -> Found:
    if given.number % _GOES_ON_EACH == 0:
        return _go_on(given, shared[given.number // _GOES_ON_EACH % len(shared)])
    with mock.patch("os.fsync"):  # this machine will not lose its power
        return _ask_the_store(given)


def _go_on(given: Trial, whole: Reference) -> Found:
    """Damage the newest checkpoint of a training, and start the training again."""
    from tests.faults.harness import training

    size = whole.case.world_size
    place = given.folder / "training"
    shutil.copytree(whole.data.parent / whole.case.name, place)
    [checkpoints] = (place / "checkpoints").iterdir()
    store = Store(FolderPlace(checkpoints))
    newest, older = store.steps()[:2]
    path, what, content = _draw_damage(given.draw, checkpoints / store.folder(newest))
    path.write_bytes(content)
    with training.start(whole.case, whole.data, place, 1) as ranks:
        codes = ranks.wait(training.PATIENCE_S)
    told = f"{whole.case.name}, step {newest}, {path.name} {what}"
    if codes != dict.fromkeys(range(size), 0):
        return Found([f"{told}: the training ended with {codes}: {training.logs(place, 1)}"])
    firsts = [min((line[0] for line in training.trace(place, 1, rank)), default=0) for rank in range(size)]
    violations = [*_misreported(checkpoints, newest, path.name), *training.differences(place, 2, whole)]
    if firsts != [older + 1] * size:
        violations.append(f"the ranks went on with steps {firsts} instead of {older + 1}")
    did = {"trainings gone on": 1, f"{path.suffix[1:]} damaged under a training": 1}
    return Found([f"{told}: {text}" for text in violations], did)


def _draw_damage(draw: random.Random, folder: Path) -> tuple[Path, str, bytes]:
    """A file, what is done to it, and what is left of it."""
    path = draw.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    data = path.read_bytes()
    if draw.random() < 0.5:
        length = draw.randrange(len(data))
        return path, f"cut off after {length} bytes", data[:length]
    bit = draw.randrange(len(data) * 8)
    return path, f"bit {bit} flipped", _flipped(data, bit)


def _misreported(checkpoints: Path, step: int, name: str) -> list[str]:
    """What is wrong with the report about the one checkpoint that was set aside."""
    reports = {path.parent.name: json.loads(path.read_text()) for path in checkpoints.glob(f"*/*/{REPORT_FILE}")}
    if list(reports) != [f"step-{step:08d}.1"]:
        return [f"{sorted(reports)} were set aside"]
    [report] = reports.values()
    if (report["step"], report["file"]) != (step, name):
        return [f"the report says {report}"]
    return []


def _ask_the_store(given: Trial) -> Found:
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
        return [f"{path.name} {what}: {text}" for text in _misreported(copy, _NEW, path.name)]
    finally:
        shutil.rmtree(copy)
