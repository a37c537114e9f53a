"""`drivetrain home verify`, and `run --verify`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from drivetrain.run_store import verifying
from drivetrain.run_store.home import Home
from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.store import Store
from tests.faults.harness.made_checkpoints import save


def damage(file: Path) -> None:
    before = file.stat()
    file.write_bytes(b"X" + file.read_bytes()[1:])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_damage_is_reported_with_what_to_do(drivetrain: Any) -> None:
    drivetrain.run()
    assert drivetrain("home", "verify", "--home", drivetrain.home).startswith("Read 1 file (")
    (file,) = drivetrain.home.rglob("metrics.json")
    damage(file)
    said = drivetrain("home", "verify", "--home", drivetrain.home, code=1)
    assert f"its bytes have changed\n  file:     {file}\n  runs:     " in said
    assert "The next run of the pipeline makes it again (step 'evaluate')" in said and "1 damaged." in said
    found = json.loads(drivetrain("home", "verify", "--json", "--home", drivetrain.home, code=1))
    assert (found["files"], found["checkpoints"], len(found["damages"])) == (1, 0, 1)
    assert set(found["damages"][0]) == {"what", "path", "problem", "runs", "versions", "advice", "superseded"}
    drivetrain.run("--verify")
    assert "its bytes have changed" in drivetrain.err
    assert "1 file (43 B) and 0 checkpoints: all as they were written." in drivetrain(
        "home", "verify", "--home", drivetrain.home
    )


def test_files_remade_by_a_later_run_are_reported_without_error(
    drivetrain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Home(drivetrain.home).create()
    Home(drivetrain.home).ledger.touch()
    old = verifying.Damage(what="s3://b/old", path="/old", problem="it is gone", advice="Not needed.", superseded=True)
    found = verifying.Verified(files=1, bytes=1, unknown=0, damages=(old,))
    monkeypatch.setattr(verifying, "verify", lambda home, told: found)
    said = drivetrain("home", "verify", "--no-checkpoints", "--home", drivetrain.home)
    assert said.startswith("s3://b/old: it is gone\n")
    assert "all as they were written (1 that a later run made again left out)." in said


def test_a_folder_without_a_home_is_refused(drivetrain: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    missing = drivetrain.error("home", "verify", "--home", tmp_path / "mistyped")
    assert f"{tmp_path / 'mistyped'} does not exist. Give the folder of your runs by --home" in missing
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("DRIVETRAIN_HOME", str(tmp_path / "other"))
    assert "is no folder of runs and models" in drivetrain.error("home", "verify")
    Home(tmp_path / "new").create()
    assert drivetrain("home", "verify", "--home", tmp_path / "new").startswith("Nothing has been run in ")


@pytest.mark.slow
def test_checkpoints_are_read_by_the_checkpoint_program(
    drivetrain: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drivetrain.run()
    places = [("s3://bucket/own", tmp_path / "own"), ("s3://bucket/fit", tmp_path / "fit")]
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "last.pt").touch()
    for step in (1, 2):
        save(Store(FolderPlace(tmp_path / "fit")), step, {"weights": b"1234"})
    monkeypatch.setattr(verifying, "checkpoint_places", lambda home: places)
    assert " and 2 checkpoints: all as they were written" in drivetrain("home", "verify", "--home", drivetrain.home)
    damage(sorted((tmp_path / "fit").rglob("weights"))[0])
    said = drivetrain("home", "verify", "--home", drivetrain.home, code=1)
    assert "s3://bucket/fit, checkpoint of step " in said and "1 damaged" in said
    assert f"drivetrain checkpoints verify {tmp_path / 'fit'} --all --quarantine" in said
    assert "checkpoint" not in drivetrain("home", "verify", "--no-checkpoints", "--home", drivetrain.home).split(":")[0]
