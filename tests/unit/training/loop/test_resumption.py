"""Which of the trainings beside it a training goes on from."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.places import open_place
from drivetrain.training.checkpointing.store.manifest import Manifest
from drivetrain.training.checkpointing.store.store import Store
from drivetrain.training.config import Config
from drivetrain.training.loop.identity import Identity
from drivetrain.training.loop.resumption import (
    SET_ASIDE_FILE,
    Choice,
    Found,
    changes,
    choose,
    find_training,
    found_beside,
    refuse_other,
)
from drivetrain.training.process import Process

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
CONFIG = Config(recipe="digits_cnn", epochs=12)
CODE = {"digits_cnn": "aaaa", "parts": "bbbb"}


def identity(config: Config = CONFIG, code: dict[str, str] = CODE, weights: str = "", data: str = "d1") -> Identity:
    return Identity(data, asdict(config), code, weights)


def found(one: Identity, step: int, *, finished: bool = False, folder: str = "", aside: bool = False) -> Found:
    return Found(folder or one.name, step, finished, json.loads(json.dumps(one.saved)), aside)


def chosen(beside: list[Found], one: Identity, total: int = 120, on_change: str = "refuse") -> Choice:
    return choose(beside, one, on_change, total, "/kept")


def test_the_first_start_and_the_next() -> None:
    assert chosen([], identity()) == Choice(identity().name)
    assert chosen([found(identity(), 40)], identity()) == Choice(identity().name)
    assert identity().name.startswith("d1-")


@pytest.mark.parametrize(
    "changed",
    [{"epochs": 60}, {"max_steps": 7}, {"strategy": "fsdp"}, {"log_every": 1}, {"keep_last": 9}, {"workers": 2}],
)
def test_what_may_change_keeps_the_folder(changed: dict[str, Any]) -> None:
    other = identity(replace(CONFIG, **changed))
    assert other.name == identity().name
    assert chosen([found(identity(), 40)], other) == Choice(identity().name)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (identity(replace(CONFIG, learning_rate=0.5, seed=3)), "learning_rate 0.003 -> 0.5, seed 0 -> 3"),
        (identity(replace(CONFIG, accumulation=2)), "accumulation 1 -> 2"),
        (identity(replace(CONFIG, recipe_options='{"channels": 4}')), "recipe_options '{}' -> '{\"channels\": 4}'"),
        (identity(code={**CODE, "parts": "cccc"}), "code of parts edited"),
        (identity(code={"digits_cnn": "aaaa", "blocks": "x"}), "code of blocks new, code of parts gone"),
        (identity(weights="w"), "weights to start from"),
    ],
)
def test_an_unfinished_training_by_others_is_refused_with_what_changed(other: Identity, said: str) -> None:
    assert other.name != identity().name
    assert ", ".join(changes(identity().saved, other.saved)) == said
    beside = [found(identity(), 40)]
    with pytest.raises(InputError) as refused:
        chosen(beside, other)
    assert str(refused.value) == (
        f"an unfinished training of the same data lies in /kept/{identity().name} at step 40, and these changed since: "
        f"{said}. Undo that, or give on_change=resume to resume it anyway, on_change=fresh to start fresh "
        "beside it."
    )
    resumed = chosen(beside, other, on_change="resume")
    assert resumed == Choice(identity().name, (f"going on although these changed since: {said}",))
    assert chosen(beside, other, on_change="fresh") == Choice(other.name, set_aside=(identity().name,))
    # A restart after each of the two goes on from what it then finds, by itself.
    assert chosen([found(other, 41, folder=identity().name)], other) == Choice(identity().name)
    assert chosen([*beside, found(other, 5)], other) == Choice(other.name)
    # A finished one, and one that was set aside, do not stand in the way.
    assert chosen([found(identity(), 40, finished=True)], other) == Choice(other.name)
    assert chosen([found(identity(), 40, aside=True)], other) == Choice(other.name)


@pytest.mark.parametrize("changed", [{"global_batch": 64}, {"drop_last": True}])
def test_another_number_of_samples_a_step_cannot_be_gone_on_with(changed: dict[str, Any]) -> None:
    """The schedule counts steps and the cursor samples: the training would end before its last step, or its data."""
    other = replace(CONFIG, **changed)
    for on_change in ("refuse", "resume"):
        told = r"its steps have a different number of samples\. Undo that, or give on_change=fresh to start fresh"
        with pytest.raises(InputError, match=told):
            chosen([found(identity(), 40)], identity(other), on_change=on_change)
        with pytest.raises(InputError, match="its steps have a different number of samples"):
            refuse_other(identity().saved, 40, identity(other), replace(other, on_change=on_change), 120, "/kept")
    assert chosen([found(identity(), 40)], identity(other), on_change="fresh").folder == identity(other).name


def test_a_shorter_training_is_refused_by_an_unfinished_longer_one_and_not_by_a_finished_one() -> None:
    beside = [found(identity(), 100)]
    shorter = identity(replace(CONFIG, epochs=5))
    with pytest.raises(InputError, match=r"this training ends at step 50: epochs or max_steps are fewer.*on_change=fr"):
        chosen(beside, shorter, 50)
    with pytest.raises(InputError, match="on_change=fresh"):  # there is no going back
        chosen(beside, shorter, 50, on_change="resume")
    fresh = Choice(f"{identity().name}-2", set_aside=(identity().name,))
    assert chosen(beside, shorter, 50, on_change="fresh") == fresh
    folder, line = chosen([found(identity(), 120, finished=True)], shorter, 50)[:2]
    assert folder == f"{identity().name}-2"
    assert line == (
        f"starting fresh in {folder}: the finished training in {identity().name} has taken 120 steps, and this "
        "training ends at step 50: epochs or max_steps are fewer than they were",
    )
    both = [found(identity(), 120, finished=True), found(shorter, 20, folder=f"{identity().name}-2")]
    assert chosen(both, shorter, 50) == Choice(f"{identity().name}-2")


def test_a_finished_training_grows() -> None:
    beside = [found(identity(), 120, finished=True)]
    assert chosen(beside, identity(replace(CONFIG, epochs=60)), 600) == Choice(identity().name)
    assert chosen(beside, identity(), 120) == Choice(identity().name)  # and is told again
    early = found(identity(replace(CONFIG, early_stopping=3)), 80, finished=True)
    assert chosen([early], identity(replace(CONFIG, early_stopping=9)), 120) == Choice(identity().name)


def test_a_finished_training_by_another_strategy_is_not_told_as_this_one() -> None:
    beside = [found(identity(), 120, finished=True)]
    other = identity(replace(CONFIG, strategy="fsdp"))
    folder, line = chosen(beside, other)[:2]
    assert folder == f"{identity().name}-2"
    assert line == (
        f"starting fresh in {folder}: the finished training in {identity().name} differs: strategy "
        f"{CONFIG.strategy!r} -> 'fsdp'",
    )
    assert chosen([found(identity(), 60)], other) == Choice(identity().name)


def test_the_unfinished_one_comes_before_the_finished_and_the_later_before_the_earlier() -> None:
    beside = [
        found(identity(), 120, finished=True, folder="d1-a"),
        found(identity(), 30, folder="d1-b"),
        found(identity(), 50, folder="d1-c"),
    ]
    assert chosen(beside, identity()) == Choice("d1-c")


def test_a_field_that_an_older_version_did_not_know_had_its_default() -> None:
    saved = {name: value for name, value in identity().saved.items() if name != "ema_decay"}
    assert changes(saved, identity().saved) == []
    assert changes(saved, identity(replace(CONFIG, ema_decay=0.5)).saved) == ["ema_decay 0.0 -> 0.5"]


def keep(root: Path, one: Identity, step: int, *, finished: bool = False) -> Path:
    place = open_place(root / one.name)
    store = Store(place)
    store.begin(step)
    store.commit(Manifest(step=step, files=(), values={"config": one.saved, "finished": finished}))
    return root / one.name


def test_from_what_lies_in_a_folder(tmp_path: Path) -> None:
    other = identity(replace(CONFIG, seed=1))
    folder = keep(tmp_path, identity(), 40)
    keep(tmp_path, identity(), 50)
    keep(tmp_path, identity(data="d2"), 70)
    (tmp_path / "d1-notes.txt").write_text("no folder")
    assert [(one.folder, one.step, one.finished) for one in found_beside(open_place(tmp_path), "d1")] == [
        (folder.name, 50, False)
    ]

    def place(one: Identity, config: Config) -> str:
        training = find_training(tmp_path, one, config, 120, ALONE)
        assert training.place is not None and training.lines == ()
        return training.place.uri

    changed = replace(CONFIG, seed=1)
    assert place(identity(), CONFIG) == str(folder)
    # The newest is damaged: the one before it tells what the training was.
    manifest = next((folder / "step-00000050").rglob("manifest.json"))
    manifest.write_bytes(manifest.read_bytes()[:-9])
    with pytest.raises(InputError, match="at step 40, and these changed since: seed 0 -> 1"):
        place(other, changed)
    assert place(other, replace(changed, on_change="fresh")) == str(tmp_path / other.name)
    assert (folder / SET_ASIDE_FILE).is_file()
    # From now on nothing has to be said any more, and who goes back to what it was goes on from it.
    assert place(other, changed) == str(tmp_path / other.name)
    assert place(identity(), CONFIG) == str(folder)


def test_that_it_is_of_other_data_is_said(tmp_path: Path) -> None:
    """Who adds a file to the data and starts again has lost nothing, and begins at the first step."""
    folder = keep(tmp_path, identity(), 40)
    keep(tmp_path, identity(data="d3"), 120, finished=True)
    keep(tmp_path, identity(replace(CONFIG, seed=1), data="d4"), 40)
    training = find_training(tmp_path, identity(data="d2"), CONFIG, 120, ALONE)
    assert training.lines == (f"starting fresh: the unfinished training in {folder.name} at step 40 has other data",)
    keep(tmp_path, identity(data="d2"), 10)
    assert find_training(tmp_path, identity(data="d2"), CONFIG, 120, ALONE).lines == ()


def test_a_place_that_cannot_be_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "roots own").mkdir()
    scan = os.scandir

    def guarded(path: Any) -> Any:
        if Path(path).name == "roots own":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", guarded)
    with pytest.raises(
        InputError, match=r"cannot look for checkpoints in .*: \[Errno 13\] Permission denied: '.*roots own'\. Fix"
    ):
        find_training(tmp_path, identity(), CONFIG, 120, ALONE)


def test_where_nothing_is_kept_nothing_is_looked_for() -> None:
    training = find_training(None, identity(), CONFIG, 120, ALONE)
    assert (training.place, training.lines) == (None, ())


def test_a_checkpoint_before_the_newest_may_be_of_what_was_before() -> None:
    refuse_other(identity().saved, 40, identity(), CONFIG, 120, "/kept")
    other = replace(CONFIG, seed=1)
    with pytest.raises(InputError, match="/kept at step 40, and these changed since: seed 0 -> 1"):
        refuse_other(identity().saved, 40, identity(other), other, 120, "/kept")
    refuse_other(identity().saved, 40, identity(other), replace(other, on_change="resume"), 120, "/kept")
    with pytest.raises(InputError, match="this training ends at step 30"):
        refuse_other(identity().saved, 40, identity(other), replace(other, on_change="resume"), 30, "/kept")
