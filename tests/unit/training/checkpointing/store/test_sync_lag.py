from __future__ import annotations

import pytest

from drivetrain.training.checkpointing.store.sync_lag import SyncWatch, arrival_lag, behind

FILES = ["step-00000010/rank-00000.safetensors", "step-00000010/manifest.json"]
UPLOADED = [f"{name}.sagemaker-uploaded" for name in FILES]
LATER = ["step-00000020/rank-00000.safetensors", "step-00000020/manifest.json"]


def watched(limit_s: float = 60) -> SyncWatch:
    watch = SyncWatch(limit_s)
    watch.committed(10, FILES, now=1000)
    return watch


def test_it_warns_once_when_files_stay_behind() -> None:
    watch = watched()
    assert watch.look({*FILES, UPLOADED[0]}, now=1060) is None  # not longer than the limit
    warning = watch.look({*FILES, UPLOADED[0]}, now=1000 + 11 * 60)
    assert warning is not None
    assert "1 of 2 files of the checkpoint of step 10 (step-00000010/manifest.json, ...)" in warning
    assert "11 minutes after it was saved" in warning
    assert watch.look({*FILES, UPLOADED[0]}, now=9999) is None


def test_without_an_agent_there_is_no_warning() -> None:
    """A folder on a laptop, a shared volume; or an agent that removes its marks."""
    watch = watched()
    assert watch.look({*FILES, FILES[0] + ".sagemaker-uploading"}, now=99999) is None
    assert behind({10: FILES}, dict.fromkeys(FILES, 5)) == []


def test_uploaded_or_removed_files_are_not_waited_for() -> None:
    watch = watched()
    watch.committed(20, LATER, now=1100)
    assert watch.look({*FILES, *UPLOADED, *LATER}, now=1150) is None
    # Retention has removed step 10 with its marks; step 20 never gets away.
    warning = watch.look(set(LATER), now=1161)
    assert warning is not None and "2 of 2 files of the checkpoint of step 20" in warning
    assert "lose 1 checkpoint." in warning


def test_the_oldest_is_named_and_all_are_counted() -> None:
    watch = watched()
    watch.committed(20, LATER, now=1010)
    warning = watch.look({*FILES, *LATER, "other.sagemaker-uploaded"}, now=1100)
    assert warning is not None and "step 10" in warning and "lose 2 checkpoints." in warning


def test_an_agent_that_was_seen_at_work_and_stopped() -> None:
    watch = watched()
    assert watch.look({*FILES, *UPLOADED}, now=1010) is None
    watch.committed(20, LATER, now=1020)
    assert watch.look({*LATER}, now=1081) is not None


def test_behind_counts_files_and_bytes() -> None:
    sizes = {FILES[0]: 1000, FILES[1]: 10, UPLOADED[1]: 0, LATER[0]: 1, LATER[1]: 2}
    newest, older = behind({10: FILES, 20: LATER}, sizes)
    assert (newest.step, newest.num_files, newest.num_bytes) == (20, 2, 3)
    assert (older.step, older.waiting, older.num_bytes) == (10, (FILES[0],), 1000)
    assert behind({10: FILES}, {**sizes, UPLOADED[0]: 0}) == []


@pytest.mark.parametrize(("arrived", "lag"), [([105.0, 130.0], 30.0), ([], None), ([90.0], 0.0)])
def test_lag_of_an_object_store(arrived: list[float], lag: float | None) -> None:
    assert arrival_lag(100.0, arrived) == lag
