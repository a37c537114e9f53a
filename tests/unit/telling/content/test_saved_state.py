from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from drivetrain.run_store.home import Home
from drivetrain.run_store.model import StepRun
from drivetrain.telling.content import RunFacts, SavedState
from drivetrain.telling.content.saved_state import checkpoints_of, newest_checkpoint
from drivetrain.telling.page import render
from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.manifest import FileEntry, Manifest
from drivetrain.training.checkpointing.store.store import Store

URI = "s3://bucket/nightly/checkpoints/train/abc/"
ARGUMENTS = {"CheckpointConfig": {"S3Uri": URI}}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def save(home: Home, step: int, training: str = "digits", *, edition: str = "") -> Path:
    """A checkpoint as the store has it once it was copied there."""
    folder = home.objects / URI.removeprefix("s3://") / training / f"step-{step:08d}{edition}"
    folder.mkdir(parents=True)
    (folder / "rank-00000.safetensors").write_bytes(b"12345")
    manifest = Manifest(step=step, files=(FileEntry("rank-00000.safetensors", 5, 0),))
    (folder / "manifest.json").write_bytes(manifest.to_bytes())
    return folder


def train(**more: Any) -> StepRun:
    return StepRun(**{"name": "train", "type": "Training", "title": "train", "arguments": ARGUMENTS} | more)


def test_the_highest_step_by_number(home: Home) -> None:
    for step in (9, 100_000_000, 12):
        save(home, step)
    assert newest_checkpoint(home, train()) == SavedState(training_step=100_000_000, uri=f"{URI}digits/step-100000000/")


def test_the_newest_edition_of_a_step_is_chosen_by_number(home: Home) -> None:
    for edition in ("", ".9", ".101", ".12"):
        save(home, 120, edition=edition)
    for other in (".0", ".02", ".", ".9999999", ".sagemaker-uploading", "x"):  # no names of a checkpoint
        save(home, 130, edition=other)
    assert newest_checkpoint(home, train()) == SavedState(training_step=120, uri=f"{URI}digits/step-00000120.101/")
    (save(home, 120, edition=".102") / "rank-00000.safetensors").unlink()
    found = newest_checkpoint(home, train())
    assert found is not None and found.uri.endswith("/step-00000120.101/")


def test_checkpoint_names_match_the_store(home: Home) -> None:
    """Each of its own folders is found here: of a first save, a second one, and one of a training that took over."""
    place = FolderPlace(home.objects / URI.removeprefix("s3://") / "digits")
    for fence in (None, None, Term(1), Term(1)):
        store = Store(place, fence=fence)
        folder = store.begin(120)
        store.commit(Manifest(step=120, files=(FileEntry("weights", 1, place.write(f"{folder}/weights", b"x")),)))
        found = newest_checkpoint(home, train())
        assert found is not None and found.uri == f"{URI}digits/{store.folder(120)}/"
    assert store.folder(120) == "step-00000120.102"


class Term:
    """A training that took over `term` times."""

    def __init__(self, term: int) -> None:
        self.term = term

    def check(self) -> None: ...


@pytest.mark.parametrize("damage", ["no manifest", "half a manifest", "a file is short", "a file is missing"])
def test_incomplete_checkpoints_are_skipped(home: Home, damage: str) -> None:
    save(home, 40)
    folder = save(home, 80)
    if damage == "no manifest":
        (folder / "manifest.json").unlink()
    elif damage == "half a manifest":
        (folder / "manifest.json").write_bytes((folder / "manifest.json").read_bytes()[:40])
    elif damage == "a file is short":
        (folder / "rank-00000.safetensors").write_bytes(b"123")
    else:
        (folder / "rank-00000.safetensors").unlink()
    found = newest_checkpoint(home, train())
    assert found is not None and found.training_step == 40


def test_several_trainings_in_one_place_give_no_answer(home: Home) -> None:
    save(home, 40)
    save(home, 80, "other-data")
    assert newest_checkpoint(home, train()) is None


def test_nothing_is_read_outside_a_checkpoint(home: Home, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"12345")
    for name in (str(tmp_path / "secret"), "../../../../../../../../secret"):
        folder = home.objects / URI.removeprefix("s3://") / "digits" / "step-00000007"
        folder.mkdir(parents=True, exist_ok=True)
        body = {"manifest": {"files": [{"name": name, "size": 5}]}}
        (folder / "manifest.json").write_text(json.dumps(body))
        assert newest_checkpoint(home, train()) is None


@pytest.mark.parametrize("arguments", [{}, {"CheckpointConfig": None}, {"CheckpointConfig": {"S3Uri": 3}},
                                       {"CheckpointConfig": {"S3Uri": "/a/path"}}, ARGUMENTS])  # fmt: skip
def test_without_checkpoints_there_is_no_answer(home: Home, arguments: dict[str, object]) -> None:
    assert newest_checkpoint(home, train(arguments=arguments)) is None


def test_the_checkpoints_of_a_run_are_those_saved_while_it_ran(home: Home) -> None:
    for step, saved in ((9, 50.0), (20, 150.0), (100, 160.0), (120, 300.0)):
        os.utime(save(home, step) / "manifest.json", (saved, saved))
    (home.objects / URI.removeprefix("s3://") / "digits" / "step-00000100" / "rank-00000.safetensors").unlink()
    found = list(checkpoints_of(home, train(started=100.0, ended=200.0)))
    assert [(one.training_step, one.saved, one.whole) for one in found] == [(20, 150.0, True), (100, 160.0, False)]
    assert found[0].uri == f"{URI}digits/step-00000020/" and found[0].bytes > 5
    assert [one.training_step for one in checkpoints_of(home, train(started=100.0))] == [20, 100, 120]
    page = render(RunFacts(id="a", pipeline="p", status="Succeeded", started=0, ended=1, checkpoints=tuple(found)))
    assert "2 checkpoints" in page and "incomplete" in page and "drivetrain checkpoints show a" in page
    assert list(checkpoints_of(home, train(started=0.0, arguments={}))) == []
