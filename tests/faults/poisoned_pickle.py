"""A pickle that would run a command, in every artefact that a resume or an evaluation reads: nothing runs."""

from __future__ import annotations

import io
import pickle
import shutil
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.faults.harness.families import Found, Trial

if TYPE_CHECKING:
    from tests.faults.harness.training import Case

FAULT = "a pickle with a command in any artefact of resume, start and evaluation: never executed"
TRIALS, QUICK, AT_ONCE = 200, 3, 2
PRELOAD = ("tests.faults.harness.training", "drivetrain.training_scripts.evaluate")
PATIENCE_S = 400.0

# What other tools' checkpoints are called, beside ours.
_FOREIGN = (".metadata", "model.pt", "optimizer.pt", "state.pkl", "__0_0.distcp", "pytorch_model.bin", "state.json.pkl")


@dataclass(frozen=True)
class Shared:
    """A training that has come to its end, in a folder, and one that may go on from there."""

    case: Case
    data: Path
    place: Path


class Command:
    """Unpickled, it makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (str(self.marker), "w")


def prepare(folder: Path) -> Shared:
    from tests.faults.harness import training
    from tests.faults.harness.training import Case

    data = training.write_data(folder / "data")
    options = {"global_batch": "8", "keep_best": "True", "ema_decay": "0.9"}
    short = Case("2 ranks", 2, 4, {**options, "epochs": "3"})
    training.uninterrupted(short, data, folder / "begun")
    return Shared(Case("2 ranks", 2, 4, {**options, "epochs": "4"}), data, folder / "begun")


def trial(given: Trial, shared: Shared) -> Found:
    from drivetrain.training.checkpointing.places.folder import FolderPlace
    from drivetrain.training.checkpointing.store.store import Store
    from drivetrain.training_scripts import evaluate, train
    from tests.faults.harness import training
    from tests.faults.harness.ranks import Ranks

    marker = given.folder / "executed"
    place, data = given.folder / "training", given.folder / "data"
    shutil.copytree(shared.place, place)
    shutil.copytree(shared.data, data)
    poisons = _poisons(marker)
    kind = given.draw.choice(sorted(poisons))
    poison = poisons[kind]
    [checkpoints] = (place / "checkpoints").iterdir()
    kept = Store(FolderPlace(checkpoints))
    newest = checkpoints / kept.folder(kept.steps()[0])
    # Every artefact in turn.
    artefacts = [
        *(("resume", path) for path in sorted(newest.iterdir())),
        *(("resume", newest / name) for name in _FOREIGN),
        *(("resume", checkpoints / name) for name in ("last.ckpt", "lock.json", ".metadata")),
        *(("evaluation", path) for path in sorted((place / "model").iterdir()) if path.is_file()),
        *(("evaluation", place / "model" / name) for name in _FOREIGN),
        *(("weights", given.folder / f"weights{suffix}") for suffix in (".pt", ".bin", ".safetensors", ".pth")),
        ("evaluation", data / "data.npz"),
        ("start", data / "data.npz"),
    ]
    program, artefact = given.in_turn(artefacts)
    artefact.write_bytes(_archive_of(marker) if artefact.name == "data.npz" else poison)
    if artefact.parent == newest and given.draw.random() < 0.7:
        _vouch(newest, artefact)
    case, words, function, size = shared.case, shared.case.words(data, place), train.main, 2
    if program == "evaluation":
        words = [f"--model={place / 'model'}", f"--data={data}", f"--metrics={given.folder / 'metrics.json'}"]
        function, size = evaluate.main, 1
    elif program == "weights":
        shutil.rmtree(place / "checkpoints")
        words.append(f"--weights={artefact}")
    with Ranks(size, words, place, 1, program=function) as ranks:
        codes = ranks.wait(training.PATIENCE_S)
    did = Counter([program])
    told = f"{kind} in {artefact.name} ({program} of {case.name})"
    violations = [f"{told}: it was executed"] if marker.exists() else []
    if len(codes) < size:
        violations.append(f"{told}: the program hangs: {training.logs(place, 1)}")
    if not violations and program != "resume" and 0 in codes.values() and artefact.name not in _FOREIGN:
        violations.append(f"{told}: the program took it for what it replaced")
    return Found(violations, did)


def _poisons(marker: Path) -> dict[str, bytes]:
    command = Command(marker)
    found = {f"pickle of protocol {number}": pickle.dumps(command, protocol=number) for number in range(6)}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as members:  # as torch.save writes it
        members.writestr("archive/data.pkl", pickle.dumps({"model": command}, protocol=2))
        members.writestr("archive/byteorder", "little")
        members.writestr("archive/version", "3\n")
    return {**found, "archive of torch.save": archive.getvalue()}


def _archive_of(marker: Path) -> bytes:
    """As numpy.savez writes arrays of objects."""
    import numpy as np

    archive = io.BytesIO()
    np.savez(archive, allow_pickle=True, key=np.array([Command(marker)] * 4, dtype=object), label=np.arange(4))
    return archive.getvalue()


def _vouch(folder: Path, artefact: Path) -> None:
    """Let the manifest say that the poison belongs there, as somebody does who knows the format."""
    from drivetrain.training.checkpointing.store.manifest import FileEntry, Manifest

    manifest = folder / "manifest.json"
    if artefact == manifest:
        return
    data = artefact.read_bytes()
    known = Manifest.from_bytes(manifest.read_bytes())
    entry = FileEntry(artefact.name, len(data), zlib.crc32(data))
    files = (*(each for each in known.files if each.name != artefact.name), entry)
    manifest.write_bytes(replace(known, files=files).to_bytes())
