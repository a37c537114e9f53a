"""Hashes of code that are kept: an edit is noticed, whatever it leaves as it was."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drivetrain.assets import assets
from drivetrain.assets.assets import CodeArchive, keep_hash, known_hash, stamp_of
from drivetrain.base.errors import UserError
from tests.fixtures.used_files import used_files

HASH = "0123456789abcdef" * 4
ROOMS = ("aws", "base", "components", "data", "decision", "registry", "steps", "training", "training_scripts")


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where hashes are kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "drivetrain" / "code"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of few files; this process has not used it yet."""
    for room in ROOMS:
        (tmp_path / "package" / room).mkdir(parents=True)
    (tmp_path / "package" / "steps" / "inert.py").write_text("x = 1\n")
    (tmp_path / "package" / "base" / "code.py").write_text("y = 1\n")
    monkeypatch.setattr(assets, "package_folder", lambda: tmp_path / "package")
    another_process()
    yield tmp_path / "package"
    another_process()


def another_process() -> None:
    assets._own_stamp.cache_clear()
    assets._own_parts.cache_clear()


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of now count as settled."""
    monkeypatch.setattr(assets, "SETTLED_S", -60.0)


def refuse_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str) -> bytes:
        raise AssertionError(path)

    monkeypatch.setattr(assets, "_content", refused)


def test_an_unchanged_package_is_not_read_again(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later(monkeypatch)
    first = CodeArchive()
    sha256, content = first.sha256, first.content
    another_process()
    again = CodeArchive()
    with monkeypatch.context() as patch:
        refuse_reading(patch)
        assert again.sha256 == sha256
    assert again.content == content


def test_an_edit_of_equal_size_and_time_is_noticed(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = package / "base" / "code.py"
    before = file.stat()
    later(monkeypatch)
    first = CodeArchive().sha256
    time.sleep(0.02)  # ticks of the clock that stamps files
    file.write_text("y = 2\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size and file.stat().st_mtime_ns == before.st_mtime_ns
    another_process()
    assert CodeArchive().sha256 != first


def test_no_hash_is_kept_of_a_file_that_could_change_within_its_tick(package: Path, kept: Path) -> None:
    assert CodeArchive().sha256
    assert not kept.exists()


def test_no_hash_is_kept_of_a_package_that_changes_while_it_is_read(
    package: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later(monkeypatch)
    read = assets._content

    def edited(path: str) -> bytes:
        time.sleep(0.02)
        (package / "base" / "code.py").write_text("y = 3\n")
        return read(path)

    monkeypatch.setattr(assets, "_content", edited)
    assert CodeArchive().sha256
    assert not kept.exists()


def test_a_source_file_is_read_each_time(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "source" / "own.py"
    file.parent.mkdir()
    file.write_text("z = 1\n")
    later(monkeypatch)
    first = CodeArchive(used_files(file.parent)).sha256
    before = file.stat()
    file.write_text("z = 2\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert CodeArchive(used_files(file.parent)).sha256 != first


def test_code_that_has_changed_since_its_hash_was_found_is_refused(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later(monkeypatch)
    assert CodeArchive().sha256
    another_process()
    archive = CodeArchive()
    assert archive.sha256
    (package / "base" / "code.py").write_text("y = 2\n")
    with pytest.raises(UserError, match="has changed while this process used it"):
        _ = archive.content


@pytest.mark.parametrize("written", ["", "\0" * 64, HASH[:-1], HASH + "0", HASH.upper(), "größe"])
def test_a_damaged_cache_entry_is_ignored(written: str, kept: Path) -> None:
    keep_hash("key", HASH)
    assert known_hash("key") == HASH
    (kept / "key").write_text(written, encoding="utf-8")
    assert known_hash("key") is None


def test_without_a_cache_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for place in (str(tmp_path / "file"), "/proc"):
        monkeypatch.setenv("XDG_CACHE_HOME", place)
        keep_hash("key", HASH)
        assert known_hash("key") is None
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    keep_hash("key", HASH)
    assert (tmp_path / ".cache" / "drivetrain" / "code" / "key").read_text() == HASH


def test_the_newest_entries_stay(kept: Path) -> None:
    kept.mkdir(parents=True)
    for number in range(assets.MOST_KEPT + 5):
        (kept / f"old-{number}").write_text(HASH)
        os.utime(kept / f"old-{number}", (number, number))
    keep_hash("new", HASH)
    left = {path.name for path in kept.iterdir()}
    assert len(left) == assets.MOST_KEPT
    assert "new" in left and "old-0" not in left


def test_a_stamp_says_which_file_has_which_name(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.touch()
    assert stamp_of([("a", str(file))]).digest == stamp_of([("a", str(file))]).digest
    assert stamp_of([("a", str(file))]).digest != stamp_of([("b", str(file))]).digest
    with pytest.raises(FileNotFoundError):
        stamp_of([("gone", str(tmp_path / "gone"))])
