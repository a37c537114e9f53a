"""Increments go on from the accepted version of the sets, which is never removed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from drivetrain.base.errors import InputError
from drivetrain.cli.main import run
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data.accepted import ACCEPTED_FILE, accept, accepted_set
from drivetrain.data.manifest import Manifest
from drivetrain.data.profile import profile_of
from drivetrain.data.versions import versions

SIDES = ("train", "validation", "test")


def night(raw: Path, name: str, keys: range, value: float) -> None:
    raw.mkdir(exist_ok=True)
    (raw / name).write_text("id,x\n" + "".join(f"{key},{value}\n" for key in keys))


def prepare(raw: Path, sets: Path, **given: Any) -> None:
    train, validation, test = (sets / side for side in SIDES)
    previous = sets if (sets / "train").exists() else None
    prepare_data(raw, train, validation, test, previous, key="id", incremental=True, **given)


def hashes(sets: Path) -> list[str]:
    return [Manifest.read(sets / side).content_hash for side in SIDES]


@pytest.fixture(scope="module")
def two_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An accepted night, and a second one that was merged and not accepted."""
    place = tmp_path_factory.mktemp("nights")
    night(place / "raw", "1.csv", range(300), 1.5)
    prepare(place / "raw", place / "sets")
    accept(place / "sets", who="ann", why="the first one")
    night(place / "raw", "2.csv", range(300, 400), 1500.0)
    prepare(place / "raw", place / "sets", keep_versions=0)
    return place


@pytest.fixture
def place(two_nights: Path, tmp_path: Path) -> Path:
    shutil.copytree(two_nights, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize("second", ["gone", "replaced", "the same"])
def test_the_third_night_goes_on_from_the_accepted_first(
    place: Path, second: str, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = place / "raw"
    if second == "gone":
        (raw / "2.csv").unlink()
    elif second == "replaced":
        night(raw, "2.csv", range(300, 390), 1.5)
    night(raw, "3.csv", range(400, 450), 2.5)
    capsys.readouterr()
    prepare(raw, place / "sets")
    says = {
        "gone": "is gone: its rows are passed over",
        "replaced": "was replaced, and is read",
        "the same": "is read again",
    }
    assert f"warning: 2.csv of a run that was not accepted {says[second]}\n" in capsys.readouterr().out
    # A chain in which the second night never was: the first, then all that is there now.
    night(place / "chain", "1.csv", range(300), 1.5)
    prepare(place / "chain", place / "other")
    shutil.copytree(raw, place / "chain", dirs_exist_ok=True)
    prepare(place / "chain", place / "other")
    assert hashes(place / "sets") == hashes(place / "other")
    assert sum(profile_of(place / "sets" / side).rows for side in SIDES) == {"gone": 50, "replaced": 140}.get(
        second, 150
    )


def test_the_accepted_version_is_never_removed(place: Path) -> None:
    for number in range(3, 6):
        night(place / "raw", f"{number}.csv", range(1000 * number, 1000 * number + 5), 1.5)
        prepare(place / "raw", place / "sets", keep_versions=1)
    for side in SIDES:
        folder = accepted_set(place / "sets", side)
        assert folder and sum(pq.read_metadata(folder / each.file).num_rows for each in Manifest.read(folder).shards)
        assert len(versions(place / "sets" / side)) == 3  # the current one, the one before, and the accepted one


def test_accepting_the_current_night_goes_on_from_it(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")  # a table shortens its last column to the width
    before = hashes(place / "sets")
    assert run(["data", "accept", str(place / "sets"), "--why", "a new sensor"]) == 0
    said = capsys.readouterr().out
    assert "accepted.json: test " in said and "train " in said
    assert json.loads((place / "sets" / ACCEPTED_FILE).read_bytes())["why"] == "a new sensor"
    prepare(place / "raw", place / "sets")
    assert "not accepted" not in capsys.readouterr().out and hashes(place / "sets") == before
    first = versions(place / "sets" / "train")[-1]
    assert run(["data", "accept", str(place / "sets"), "--at", first.name]) == 0
    assert accepted_set(place / "sets", "train") == first.path
    capsys.readouterr()
    assert run(["data", "list", str(place / "sets" / "train")]) == 0
    assert [line.endswith(first.name) for line in capsys.readouterr().out.splitlines() if "(accepted)" in line] == [
        True
    ]


def test_a_pointer_that_is_damaged_or_leads_nowhere_is_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = accepted_set(place / "sets", "test")
    assert folder
    shutil.rmtree(folder)
    with pytest.raises(InputError, match=r"accepted\.json names \S+, which is gone\. Accept another one"):
        prepare(place / "raw", place / "sets")
    path = place / "sets" / ACCEPTED_FILE
    path.write_text(path.read_text()[:-20])
    with pytest.raises(InputError, match=r"accepted\.json is damaged .* or remove the file"):
        prepare(place / "raw", place / "sets")
    before = versions(place / "sets" / "train")
    train, validation, test = (place / "sets" / side for side in SIDES)
    prepare_data(place / "raw", train, validation, test, key="id", salt="new", keep_versions=0)
    assert "no earlier version is removed" in capsys.readouterr().out
    assert len(versions(place / "sets" / "train")) == len(before) + 1


def test_what_is_no_run_is_not_accepted(place: Path) -> None:
    with pytest.raises(InputError, match="holds no data set"):
        accept(place / "raw", who="ann")
    night(place / "other", "1.csv", range(50), 1.0)
    train = place / "sets" / "train"
    prepare_data(place / "other", train, place / "v", place / "t", key="id")
    with pytest.raises(InputError, match="are of different runs"):
        accept(place / "sets", who="ann")
