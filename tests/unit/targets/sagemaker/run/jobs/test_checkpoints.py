"""Checkpoints that are copied the quick way: what the job removes goes from the store when it has succeeded."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.run_store.objects import ObjectStore
from drivetrain.steps.trainings import RECORD
from drivetrain.targets.sagemaker.run.jobs.checkpoints import CheckpointSync, remove_emptied
from tests.fixtures.local_runs import BUCKET, LocalRuns

PLACE = f"{BUCKET}/checkpoints/"
# Keeps the newest alone; the copying sees the first two, and the last one at the end.
PROGRAM = """
import shutil, time
from pathlib import Path
folder = Path("/opt/ml/checkpoints")
for step in range(1, 5):
    (folder / f"step-{step}").mkdir()
    (folder / f"step-{step}/weights").write_text("1")
    (folder / f"step-{step}/manifest.json").write_text("{}")
    if step == 2:
        time.sleep(1.5)
    shutil.rmtree(folder / f"step-{step - 1}", ignore_errors=True)
assert FAILS is False
"""


def names(store: ObjectStore) -> list[str]:
    return [item.name for item in store.find(PLACE)]


def test_checkpoints_of_another_job_are_kept(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "s3")
    store.put(f"{PLACE}earlier/weights", b"1")
    folders = [tmp_path / "a", tmp_path / "b"]
    sync = CheckpointSync(store, PLACE, folders)
    sync.restore()
    for name in ("step-1/manifest.json", "step-1/weights", "kept"):
        (folders[0] / name).parent.mkdir(exist_ok=True)
        (folders[0] / name).write_text("1")
    (folders[1] / "kept").write_text("1")
    sync.copy_back(final=True)
    store.put(f"{PLACE}step-1/of-another", b"1")
    for name in ("earlier/weights", "step-1/manifest.json", "step-1/weights", "kept"):
        (folders[0] / name).unlink()
    (folders[1] / "earlier/weights").unlink()
    sync.finish()
    assert len(names(store)) == 5
    sync.forget_removed()
    assert names(store) == ["kept", "step-1/of-another"]
    store.remove(f"{PLACE}step-1/of-another", below=PLACE)
    assert names(store) == ["kept"] and not store.path(f"{PLACE}step-1").exists()


def test_trainings_that_a_job_has_emptied_go(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "s3")
    for name, content in (("a", b""), ("b", b"{}"), ("a-2", b"{}")):
        store.put(f"{PLACE}{name}/{RECORD}", content)
        store.put(f"{PLACE}{name}/step-00000004/manifest.json", b"")
    remove_emptied(store, PLACE)
    assert {name.partition("/")[0] for name in names(store)} == {"b", "a-2"} and len(names(store)) == 4


@pytest.mark.slow
@pytest.mark.parametrize(("fails", "left"), [(False, ["4"]), (True, ["1", "2", "4"])])
def test_the_disk_is_bounded_by_a_job_that_succeeds(runs: LocalRuns, fails: bool, left: list[str]) -> None:
    summary = runs.start([runs.training("train", PROGRAM.replace("FAILS", str(fails)), checkpoints=PLACE)])
    assert summary.status == ("Failed" if fails else "Succeeded"), summary.reason
    assert names(runs.store) == [f"step-{step}/{name}" for step in left for name in ("manifest.json", "weights")]
