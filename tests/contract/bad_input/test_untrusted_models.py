"""Models and checkpoints that came from elsewhere: reading them runs nothing that they hold."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training.checkpointing.store.manifest import FileEntry, Manifest
from tests.contract.bad_input.place import Place

EVALUATION = """
from drivetrain.components.evaluate import evaluate
from drivetrain import Pipeline, step

def evaluation() -> Pipeline:
    return Pipeline(name="evaluation", steps=[step(evaluate, model="model", data="prepared")])
"""


class Poison:
    """A pickle that leaves a mark when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def poison(place: Place) -> bytes:
    poisoned = pickle.dumps(Poison(place.folder / "owned"))
    pickle.loads(pickle.dumps(Poison(place.folder / "works")))
    (place.folder / "works").rmdir()
    return poisoned


def write_model(place: Place, poison: bytes, recipe: str) -> None:
    """A model folder whose every file is a pickle, or code, and whose description vouches for them."""
    mark = f"import os\nos.mkdir({str(place.folder / 'owned')!r})\n"
    names = ("model.safetensors", "model.pt", "model.pkl", "pytorch_model.bin", "optimizer.pt", "state.pkl")
    for name in names:
        place.write(f"model/{name}", poison)
    for name in ("evil.py", "__init__.py"):
        place.write(f"model/{name}", mark)
    described = {
        "format": 1,
        "recipe": recipe,
        "recipe_options": {},
        "precision": "fp32",
        "weights": {
            "file": "model.safetensors",
            "bytes": len(poison),
            "sha256": hashlib.sha256(poison).hexdigest(),
        },
    }
    place.write("model/model.json", json.dumps(described))
    place.write("prepared/manifest.json", "{}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param("processing.input.model.evil", id="code", marks=pytest.mark.slow),
        pytest.param("digits_cnn", id="pickle"),
    ],
)
def test_evaluating_runs_nothing_of_the_model(place: Place, poison: bytes, recipe: str) -> None:
    write_model(place, poison, recipe)
    ran = place.drivetrain("run", place.write("evaluation.py", EVALUATION))
    place.failed_by_input(ran, "evaluate", recipe)
    assert not (place.folder / "owned").exists()


@pytest.mark.slow
def test_evaluating_in_a_shell_runs_nothing_of_the_model(place: Place, poison: bytes) -> None:
    write_model(place, poison, "model.evil")
    ran = place.python("-m", "drivetrain.components.evaluate", "--model", "model", "--data", "prepared")
    place.error_of(ran, "no recipe 'model.evil'")
    assert not (place.folder / "owned").exists()


@pytest.mark.slow
@pytest.mark.nightly_cases(but=["index.json"])
@pytest.mark.parametrize("spoilt", ["state.json", "index.json", "rank-00000-of-00001.safetensors"])
def test_resuming_runs_nothing_of_a_checkpoint(place: Place, poison: bytes, spoilt: str) -> None:
    """The manifest vouches for the pickle: whoever can write one file can write the other."""
    from tests.distributed.prepared_data import digit_columns, write_prepared

    write_prepared(place.folder / "prepared", digit_columns(64))
    train = ["-m", "drivetrain.components.train", "--train", "prepared", "--processes", "1", "--global-batch", "32"]
    for name in ("model", "output", "checkpoints"):
        train += [f"--{name}", str(place.folder / name)]
    run: Any = {"DRIVETRAIN_EXECUTION": "one"}  # another one would start anew
    assert place.python(*train, "--epochs", 1, **run).code == 0
    (manifest,) = (place.folder / "checkpoints").rglob("step-*/manifest.json")
    (manifest.parent / spoilt).write_bytes(poison)
    told = Manifest.from_bytes(manifest.read_bytes())
    files = [file for file in told.files if file.name != spoilt]
    vouched = replace(told, files=(*files, FileEntry(spoilt, len(poison), zlib.crc32(poison))))
    manifest.write_bytes(vouched.to_bytes())
    ran = place.python(*train, "--epochs", 2, **run)
    assert ran.code == 0, ran
    told_of = ran.out + ran.err
    assert "checkpoint 2 in" in told_of
    assert "is damaged" in told_of  # and training starts afresh
    assert list((place.folder / "checkpoints").rglob("quarantine/step-00000002.1/report.json"))
    assert not (place.folder / "owned").exists()
