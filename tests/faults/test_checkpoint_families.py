"""That the families about checkpoints would notice: each is given a store with the fault that it looks for."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.faults import checkpoint_power_loss
from tests.faults.harness.families import Trial, family
from tests.faults.harness.lossy_disk import LossyDisk

SEED = 20261121


def given(name: str, number: int, folder: Path) -> Trial:
    folder.mkdir()
    return Trial(number, SEED, folder, family(name).draw(SEED, number))


@pytest.mark.parametrize("forgotten", ["files", "folders", "manifests"])
def test_a_forgotten_fsync_is_noticed(forgotten: str, tmp_path: Path) -> None:
    """A peer's bug: the latest pointer moved before the data was durable."""
    violations: list[str] = []
    for number in range(6):
        trial = given("checkpoint_power_loss", number, tmp_path / f"{number}")
        life = checkpoint_power_loss.Life(LossyDisk(trial.folder / "disk"))
        life.disk.root.mkdir()
        with mock.patch("os.fsync"):
            checkpoint_power_loss.live(trial, life)
            kept = [at for at, call in enumerate(life.disk.calls) if not _is_sync_of(forgotten, call)]
            life.disk.marks = [(sum(at < mark for at in kept), step) for mark, step in life.disk.marks]
            life.disk.calls = [life.disk.calls[at] for at in kept]
            violations += checkpoint_power_loss.lose_power(trial, life).violations
        if violations:
            break
    assert violations


def _is_sync_of(what: str, call: tuple[object, ...]) -> bool:
    if call[0] != "sync":
        return False
    parts = call[1]
    assert isinstance(parts, tuple)
    is_folder = not parts or "." not in parts[-1] or parts[-1].startswith("step-")
    if what == "folders":
        return is_folder
    return not is_folder and (what == "files" or parts[-1].startswith("manifest.json"))
