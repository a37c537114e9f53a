"""Versions of a data set are listed, and named by hash or by date."""

import itertools
import json
import os
import shutil
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from drivetrain.base.errors import InputError
from drivetrain.cli.main import run
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.transform_data import transform_data
from drivetrain.data.manifest import Manifest
from drivetrain.data.version_folder import VersionFolder, publish
from drivetrain.data.versions import version_at, versions

SIDES = ("train", "validation", "test")
DAYS = ("2026-11-23", "2026-11-24", "2026-11-26")


def date(folder: Path, seconds: float) -> None:
    """Have the current version of a set become so at this time since 1970."""
    for manifest in (folder / "manifest.json", folder / Manifest.read(folder).version / "manifest.json"):
        os.utime(manifest, (seconds, seconds))


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three versions of each set, of 100, 101 and 102 rows in all, written at noon."""
    tmp_path = tmp_path_factory.mktemp("versions")
    for number, day in enumerate(DAYS):
        raw = tmp_path / f"raw{number}.csv"
        raw.write_text("id,x\n" + "".join(f"{key},{key}.5\n" for key in range(100 + number)))
        sets = [tmp_path / "build" / side for side in SIDES]
        prepare_data(raw, *sets, key="id", validation_percent=0, test_percent=0, keep_versions=9)
        date(sets[0], datetime.fromisoformat(f"{day}T12:00").timestamp())
    return tmp_path / "build"


@pytest.mark.parametrize(
    ("wanted", "rows"),
    [
        ("2026-11-23", 100),
        ("2026-11-24T11:59", 100),
        ("2026-11-24T12:01", 101),
        ("2026-11-25", 101),
        ("2026-11-26", 102),
        ("2027-01-01", 102),
    ],
)
def test_a_date_selects_the_last_version_of_that_day_or_before(build: Path, wanted: str, rows: int) -> None:
    assert version_at(versions(build / "train"), wanted).manifest.rows == rows


def test_a_hash_selects_a_version_that_reads_as_data(build: Path) -> None:
    newest, _, oldest = versions(build / "train")
    assert newest.is_current and not oldest.is_current
    found = version_at([newest, oldest], oldest.manifest.content_hash[:6])
    assert found == oldest
    (shard,) = Manifest.read(found.path).shards
    assert pq.read_metadata(found.path / shard.file).num_rows == 100


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("2026-11-22", "no version of 2026-11-22 or before"),
        ("soon", "no version 'soon'. Allowed"),
        ("490", "no version '490'. Allowed: the beginning of a hash, 4 digits or more, or a time"),
    ],
)
def test_an_unknown_version_is_refused_with_the_known_ones(build: Path, wanted: str, says: str) -> None:
    with pytest.raises(InputError, match=f"{says}.* There are: [0-9a-f]{{12}} of 2026-11-26 12:00, "):
        version_at(versions(build / "train"), wanted)


def test_the_versions_command_lists_versions(build: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> Any:
        assert run(["data", *words]) == 0
        return capsys.readouterr().out

    lines = said("list", str(build)).splitlines()
    assert len([line for line in lines if "/train " in line]) == 3
    assert any("2026-11-26 12:00:00 (current)" in line and " 102 " in line for line in lines)
    path = said("path", str(build / "train"), "--at", "2026-11-24").strip()
    facts = json.loads(said("path", path, "--json"))
    assert facts["rows"] == 101 and Path(path).name == facts["version"]
    assert json.loads(said("list", path, "--json")) == [facts]

    def refused(*words: str) -> str:
        assert run(["data", *words]) == 2
        return capsys.readouterr().err

    assert f"holds 3 data sets. Give one: {build / 'test'}" in refused("path", str(build))
    assert "there is no such folder" in refused("list", str(build / "nowhere"))
    assert "holds no data set" in refused("list", str(tmp_path))


@pytest.mark.parametrize("step", ["prepare_data", "transform_data"])
def test_a_step_checks_the_shards_of_a_version_against_the_manifest(build: Path, tmp_path: Path, step: str) -> None:
    shutil.copytree(versions(build / "train")[0].path, tmp_path / "raw")
    (shard,) = (tmp_path / "raw").glob("*.parquet")
    data = bytearray(shard.read_bytes())
    data[len(data) // 3] ^= 1
    shard.write_bytes(data)
    with pytest.raises(InputError, match=r"part-00000\.parquet was altered: its SHA-256 is "):
        if step == "prepare_data":
            prepare_data(tmp_path / "raw", *(tmp_path / "out" / side for side in SIDES), key="id")
        else:
            transform_data(tmp_path / "raw", tmp_path / "out", plan='[{"select": ["id"]}]')
    assert not list((tmp_path / "out").rglob("*.parquet"))


def test_a_data_set_in_format_1_has_one_version(build: Path, tmp_path: Path) -> None:
    newest = versions(build / "train")[0]
    (shard,) = newest.manifest.shards
    shutil.copy(newest.path / shard.file, tmp_path)
    content = json.loads((newest.path / "manifest.json").read_bytes())
    (tmp_path / "manifest.json").write_text(json.dumps({**content, "format": 1}))
    (only,) = versions(tmp_path)
    assert only.is_current and only.path == tmp_path and only.manifest.rows == 102


def test_a_night_without_new_rows_leaves_the_date_of_the_version(tmp_path: Path) -> None:
    """Or a moment between the two nights would name the version before. One that comes back is new again."""
    sets = [tmp_path / "build" / side for side in SIDES]

    def prepared(rows: int) -> Path:
        raw = tmp_path / "raw.csv"
        raw.write_text("id,x\n" + "".join(f"{key},{key}.5\n" for key in range(rows)))
        prepare_data(raw, *sets, key="id", validation_percent=0, test_percent=0, keep_versions=9)
        return sets[0] / Manifest.read(sets[0]).version / "manifest.json"

    manifest = prepared(100)
    date(sets[0], 1.0)
    assert prepared(100) == manifest and manifest.stat().st_mtime == 1.0
    prepared(101)
    date(sets[0], 2.0)
    assert prepared(100) == manifest and manifest.stat().st_mtime > 2.0
    assert version_at(versions(sets[0]), "2027-01-01").is_current
    date(sets[0], 3.0)
    found = versions(sets[0])
    assert [(each.written, each.earlier) for each in found] == [(3.0, (1.0,)), (2.0, ())]
    moments = {1.5: 100, 2.5: 101, 3.5: 100}
    at = {time: version_at(found, datetime.fromtimestamp(time).isoformat()).manifest.rows for time in moments}
    assert at == moments


def test_different_transforms_of_equal_rows_make_a_new_version(tmp_path: Path) -> None:
    sets = [tmp_path / "build" / side for side in SIDES]
    (tmp_path / "raw.csv").write_text("id,x\n" + "".join(f"{key},{key}.5\n" for key in range(100)))

    def prepared(fit: str | None) -> tuple[str, Manifest]:
        prepare_data(tmp_path / "raw.csv", *sets, key="id", fit=fit, validation_percent=0, keep_versions=9)
        return Manifest.read(sets[0]).version, Manifest.read(sets[0])

    plain, first = prepared(None)
    assert plain == first.content_hash[:12]
    scale = [
        prepared(json.dumps([{"scale": {"columns": ["x"], "method": method}}])) for method in ("standard", "min_max")
    ]
    names = [name for name, _ in scale]
    assert len({plain, *names}) == 3 and {each.content_hash for _, each in scale} == {first.content_hash}
    for name, manifest in scale:
        kept = Manifest.read(sets[0] / name)
        assert kept.version == name and kept.fitted == manifest.fitted
        assert version_at(versions(sets[0]), name[:6]).name == name
    with pytest.raises(InputError, match="several versions"):
        version_at(versions(sets[0]), first.content_hash[:14])


# What changes names and dates, or reads them: a process that is killed between two of these has not done the second.
CALLS = {"open", "os.rename", "os.utime", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.listdir", "os.scandir"}


class Killed(BaseException):
    pass


class Kill:
    """Ends what runs at its call of this number; audit hooks stay, so there is one for all tests."""

    def __init__(self) -> None:
        self.calls_left = -1
        sys.addaudithook(self)

    def __call__(self, event: str, _: object) -> None:
        if event in CALLS and self.calls_left >= 0:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise Killed


def test_a_kill_at_any_call_leaves_no_version_without_its_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the dear part of a hundred runs
    kill, began = Kill(), time.time() - 1

    def publish_one(folder: Path, label: str, calls: int = -1) -> bool:
        """Make a set with this label the current one; whether it came to its end."""
        writer = VersionFolder(folder)
        manifest = Manifest(key="id", label=label, schema=(), shards=())
        writer.start()
        manifest.write(writer.staging / "manifest.json")
        writer.staged(manifest)
        try:
            kill.calls_left = calls
            publish([writer], keep=9)
        except Killed:
            os.close(cast("int", writer._lock))  # as the end of a process does
            return False
        finally:
            kill.calls_left = -1
        writer.discard()
        return True

    def dates(folder: Path) -> dict[str | None, tuple[float, ...]]:
        """By label; "now" is said of what became current in this test."""
        found = {each.manifest.label: (*each.earlier, each.written) for each in versions(folder)}
        assert versions(folder)[0].is_current
        return {label: tuple(9.0 if each > began else each for each in times) for label, times in found.items()}

    publish_one(tmp_path / "given", "a")
    date(tmp_path / "given", 1.0)
    publish_one(tmp_path / "given", "b")
    date(tmp_path / "given", 2.0)
    before = {"a": (1.0,), "b": (2.0,)}
    nights = {"b": before, "c": {**before, "c": (9.0,)}, "a": {"a": (1.0, 9.0), "b": (2.0,)}}
    for label, after in nights.items():
        calls = 0
        for calls in itertools.count():
            folder = tmp_path / f"{label}{calls}"
            shutil.copytree(tmp_path / "given", folder)
            if publish_one(folder, label, calls):
                break
            # (a time that was noted, of a version that has not come back yet, is there twice)
            expected = after if Manifest.read(folder).label == label else before
            assert {name: tuple(dict.fromkeys(times)) for name, times in dates(folder).items()} == expected, calls
            # The next run finds the same version, or yet another one.
            if calls % 2:
                assert publish_one(folder, label) and dates(folder) == after, calls
            else:
                assert publish_one(folder, "d")
                found = {name: tuple(dict.fromkeys(times)) for name, times in dates(folder).items()}
                assert found == {**expected, "d": (9.0,)}, calls
            assert not list(folder.glob(".drivetrain*")), calls
        assert calls > 10
