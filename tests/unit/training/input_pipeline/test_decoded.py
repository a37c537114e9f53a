"""Decoded arrays are kept, checked, bounded and thrown away when they are not what was written."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline import decoded
from drivetrain.training.input_pipeline.decoded import Cache, Kept, kept_arrays
from drivetrain.training.input_pipeline.host_memory import HostArrays
from drivetrain.training.process import Process

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
SHAPES = {"small": ((5,), np.uint8), "wide": ((5, 3), np.int64), "none": ((5, 0), np.float32), "yes": ((5,), np.bool_)}
Start = Callable[..., tuple[Kept, int]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(decoded, "LEAST_SECONDS", 0.0)
    monkeypatch.setenv(decoded.FOLDER, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def start() -> Start:
    """What a start of a training comes to, and how often it decoded."""

    def begin(content: str = "a", value: int = 1) -> tuple[Kept, int]:
        times = 0

        def fill(filling: HostArrays) -> dict[str, Any]:
            nonlocal times
            times += 1
            for name in ("small", "wide", "yes"):
                filling[name][...] = value
            return {"vocabulary": ["ä", "b"]}

        return kept_arrays(ALONE, SHAPES, {"content": content}, fill), times

    return begin


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def test_the_second_start_does_not_decode(folder: Path, start: Start) -> None:
    first, decoded_first = start()
    again, decoded_again = start()
    assert (decoded_first, decoded_again) == (1, 0)
    assert again.facts == first.facts == {"vocabulary": ["ä", "b"]}
    for name, (shape, dtype) in SHAPES.items():
        assert again.arrays[name].shape == shape
        assert again.arrays[name].dtype == dtype
        assert np.array_equal(again.arrays[name], first.arrays[name])
    (entry,) = entries(folder)
    assert set(load_file(entry)) == set(SHAPES)  # what others can read
    assert entry.stat().st_mode & 0o777 == 0o600


def test_changes_to_rows_stay_in_the_process(folder: Path, start: Start) -> None:
    start()
    start()[0].arrays["small"][:] = 7
    assert start()[0].arrays["small"].tolist() == [1] * 5


def test_other_content_is_another_entry(folder: Path, start: Start) -> None:
    start("a", 1)
    other, times = start("b", 2)
    assert times == 1
    assert other.arrays["small"][0] == 2
    assert len(entries(folder)) == 2


@pytest.mark.parametrize("place", [0, 9, 60, -1])
def test_a_damaged_entry_is_made_again(
    place: int, folder: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the length of the header, in the header, and in the values."""
    start()
    (entry,) = entries(folder)
    whole = bytearray(entry.read_bytes())
    damaged = whole.copy()
    damaged[place] ^= 1
    entry.write_bytes(damaged)
    kept, times = start()
    assert times == 1
    assert kept.arrays["wide"].tolist() == [[1] * 3] * 5
    assert capsys.readouterr().out.count("is damaged") == 1
    assert entry.read_bytes() == whole


@pytest.mark.parametrize("size", [0, 4, 100, -1])
def test_a_torn_entry_is_made_again(size: int, folder: Path, start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    start()
    (entry,) = entries(folder)
    entry.write_bytes(entry.read_bytes()[:size])
    assert start()[1] == 1
    assert "is damaged" in capsys.readouterr().out
    assert start()[1] == 0


@pytest.mark.slow
def test_no_byte_can_change_unnoticed(folder: Path, start: Start) -> None:
    start()
    (entry,) = entries(folder)
    whole, expected = entry.read_bytes(), start()[0]
    for place in range(len(whole)):
        entry.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        kept, _ = start()
        assert kept.facts == expected.facts, place
        assert all(np.array_equal(kept.arrays[name], expected.arrays[name]) for name in SHAPES), place


def test_the_least_recently_used_entry_is_removed_first(
    folder: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for content in "abc":
        start(content)
    key = {content: Cache(folder, 0).path(f'{{"content": "{content}", "format": 1}}') for content in "abcd"}
    assert set(entries(folder)) == {key[content] for content in "abc"}
    for age, content in enumerate("cab"):
        os.utime(key[content], ns=(0, 10 * (3 - age)))
    start("b")  # used now
    limit = 3 * key["a"].stat().st_size
    monkeypatch.setattr(Cache, "of_environment", lambda: Cache(folder, limit))
    start("d")
    assert set(entries(folder)) == {key[content] for content in "bcd"}


def test_an_entry_that_is_being_read_is_kept(folder: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    start("a")
    (entry,) = entries(folder)
    monkeypatch.setattr(Cache, "of_environment", lambda: Cache(folder, entry.stat().st_size))
    with entry.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)
        start("b")
        assert entries(folder) == [entry]
    start("b")
    assert len(entries(folder)) == 1
    assert entries(folder) != [entry]


def test_entries_above_the_limit_remove_nothing(folder: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    start("a")
    before = entries(folder)
    monkeypatch.setattr(Cache, "of_environment", lambda: Cache(folder, 100))
    assert start("b")[1] == 1
    assert entries(folder) == before


def test_leftovers_of_a_killed_run_are_removed(folder: Path, start: Start) -> None:
    folder.mkdir()
    (folder / "abc.new").write_bytes(b"torn")
    start()
    assert sorted(path.suffix for path in folder.iterdir()) == ["", ".safetensors"]


def test_two_runs_do_not_write_at_once(folder: Path, start: Start) -> None:
    start("a")
    with (folder / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert start("b")[1] == 1
        assert len(entries(folder)) == 1
        assert start("a")[1] == 0
    start("b")
    assert len(entries(folder)) == 2


def test_quickly_decoded_data_are_not_kept(folder: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded, "LEAST_SECONDS", 1e9)
    start()
    assert not folder.exists()


@pytest.mark.parametrize("variables", [{decoded.FOLDER: ""}, {decoded.LIMIT_MIB: "0"}])
def test_it_can_be_switched_off(
    variables: dict[str, str], folder: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert [start()[1], start()[1]] == [1, 1]
    assert not folder.exists()


def test_an_impossible_folder_gives_a_warning(folder: Path, start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    folder.write_text("a file")
    assert start()[1] == 1
    assert f"decoded data is not kept in {folder}" in capsys.readouterr().out


def test_an_invalid_limit_is_refused(folder: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(decoded.LIMIT_MIB, "8 GiB")
    with pytest.raises(InputError, match="DRIVETRAIN_DECODED_CACHE_MIB='8 GiB'; allowed are whole numbers of MiB"):
        start()


def test_an_error_of_decoding_is_raised_and_keeps_nothing(folder: Path) -> None:
    def fill(filling: HostArrays) -> None:
        raise InputError("a torn picture")

    with pytest.raises(InputError, match="a torn picture"):
        kept_arrays(ALONE, SHAPES, {}, fill)
    assert not folder.exists()
