"""Steps and their folders: by number, and the same step again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.manifest import MANIFEST_FILE, DamagedError, FileEntry, Manifest
from drivetrain.training.checkpointing.store.retention import Retention
from drivetrain.training.checkpointing.store.store import Store, folders_of
from tests.unit.training.checkpointing.store.saved import save


def test_steps_are_found_by_number(store: Store, tmp_path: Path) -> None:
    """Neither by the order of names, where 9 comes after 12, nor by the time of a file."""
    for number, step in enumerate((12, 100_000_000, 9, 10)):
        save(store, step)
        os.utime(tmp_path / store.folder(step), (number, number))
    assert store.steps() == [100_000_000, 12, 10, 9]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "step-9",
            "step-00000009x",
            "xstep-00000009",
            "step-00000009.0",
            "step-00000009.01",
            "step-00000009.",
            "step-",
        ),
        *("step--0000009", "step-٠٠٠٠٠٠٠٩", "step-00000009.sagemaker-uploading", "best", "step-0000000000000000009"),
    ],
)
def test_other_folders_are_left_alone(store: Store, tmp_path: Path, name: str) -> None:
    save(store, 9)
    os.rename(tmp_path / "step-00000009", tmp_path / name)
    assert store.steps() == []
    store.clean()
    assert (tmp_path / name / MANIFEST_FILE).exists()


@pytest.mark.parametrize("other", [99, 2])
def test_a_folder_under_another_steps_name_is_damaged(store: Store, tmp_path: Path, other: int) -> None:
    """Somebody copied a checkpoint over to where a newer one, or an older one, is looked for."""
    save(store, 3)
    shutil.copytree(tmp_path / "step-00000003", tmp_path / f"step-{other:08d}")
    with pytest.raises(DamagedError, match=f"step-{other:08d} holds the manifest of step 3") as caught:
        store.verify(other)
    store.quarantine(other, caught.value)
    assert store.steps() == [3]


def test_a_training_that_took_over_writes_to_folders_of_its_own(tmp_path: Path) -> None:
    """The one before it may only sleep, and still write into its folder."""

    class Third:
        term = 3

        def check(self) -> None:
            pass

    store = Store(FolderPlace(tmp_path), fence=Third())
    assert save(store, 5) == "step-00000005.301"
    assert save(store, 5) == "step-00000005.302"


def test_a_step_saved_again_replaces_the_first_only_when_it_is_committed(store: Store, tmp_path: Path) -> None:
    """A peer's bug: the old copy was pruned before the new one was good."""
    first = save(store, 5, {"finished": False})
    second = store.begin(5)
    assert second != first and store.folder(5) == first
    entry = FileEntry("weights", 1, store.place.write(f"{second}/weights", b"x"))
    store.verify(5)
    store.commit(Manifest(step=5, files=(entry,), values={"finished": True}))
    assert store.folder(5) == second and store.manifest(5).values == {"finished": True}
    assert store.steps() == [5]
    store.verify(5)
    store.retain(Retention(last=1))
    assert [path.name for path in tmp_path.iterdir()] == [second]


def test_a_step_saved_again_that_is_damaged_leaves_the_first(store: Store, tmp_path: Path) -> None:
    save(store, 5, {"finished": False})
    second = save(store, 5, {"finished": True})
    (tmp_path / second / "weights").write_bytes(b"")
    with pytest.raises(DamagedError) as caught:
        store.verify(5)
    store.quarantine(5, caught.value)
    store.verify(5)
    assert store.manifest(5).values == {"finished": False}


def test_editions_are_ordered_by_number(store: Store) -> None:
    folders = [save(store, 5, {"edition": number}) for number in range(12)]
    assert folders[0] == "step-00000005" and folders[-1] == "step-00000005.12"
    assert store.folder(5) == folders[-1] and store.manifest(5).values == {"edition": 11}
    cleaned = store.clean()
    assert {name.partition("/")[0] for name in cleaned} == set(folders[:-1])


def test_one_name_of_those_that_several_hosts_gave(store: Store, tmp_path: Path) -> None:
    """Nothing of an earlier saving that was never committed lies under any of them."""
    (tmp_path / "step-00000005.3").mkdir()
    (tmp_path / "step-00000005.3/weights").write_bytes(b"of another saving")
    assert store.begin(5) == "step-00000005"
    assert not (tmp_path / "step-00000005.3").exists()
    assert store.agree(5, ["step-00000005.3", "step-00000005", "step-00000005.12"]) == "step-00000005.12"
    store.place.write("step-00000005.12/weights", b"x")
    store.abandon(5)
    assert list(tmp_path.iterdir()) == []
    # Another rank than the first of a folder begins nothing.
    assert store.agree(6, ["step-00000006.2"]) == "step-00000006.2"
    store.abandon(6)


def test_folders_of_a_step_come_in_the_order_of_their_numbers() -> None:
    """A host that lacks the manifest takes the last one, which is that of the highest number, and not .9 of .101."""
    folders = ["step-00000005", "step-00000005.9", "step-00000005.12", "step-00000005.101"]
    others = ["step-00000050.9/weights", "step-00000005.0/weights", "step-00000005.200", "quarantine/step-00000005.3/w"]
    assert folders_of(5, [*(f"{folder}/{file}" for folder in reversed(folders) for file in "ab"), *others]) == folders
