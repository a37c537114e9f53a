from __future__ import annotations

import errno
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from drivetrain.training.checkpointing.attempts import (
    KEPT_SAVES,
    Attempt,
    Record,
    exposure,
    interrupted_in_a_row,
    process_age,
    read_attempts,
)


class Folder:
    """The least of a place."""

    def __init__(self, folder: Path, uri: str = "") -> None:
        self.folder, self.uri = folder, uri or str(folder)
        self.replaced = 0
        self.have_been_read: list[str] = []

    def names(self, below: str = "") -> dict[str, int]:
        files = (path for path in (self.folder / below).rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path.stat().st_size for path in files}

    def create(self, name: str, data: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data)

    def replace(self, name: str, data: bytes) -> None:
        self.replaced += 1
        (self.folder / name).write_bytes(data)

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            (self.folder / name).unlink(missing_ok=True)

    def read(self, name: str) -> bytes:
        self.have_been_read.append(name)
        return (self.folder / name).read_bytes()


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_start_from_its_first_to_its_last_word(place: Folder, tmp_path: Path) -> None:
    steady = Clock()
    record = Record(place, first_step=40, restart_seconds=7.5, clock=lambda: 1_000_000.0, steady=steady)
    assert [path.name for path in (tmp_path / "attempts").iterdir()] == ["00001.json"]
    steady.now += 0.5
    record.reached(45)
    assert read_attempts(place)[0].step == 40  # at most once a second
    steady.now += 0.5
    record.reached(50)
    (found,) = read_attempts(place)
    assert (found.step, found.seconds, found.ended) == (50, 8.5, None)
    steady.now += 10
    record.saved(60, 0.25, 1.5)
    record.saved(70, 0.5, 2.5, of_step=65)
    assert place.replaced == 0  # and not synced
    record.end("stopped")
    assert place.replaced == 1
    (found,) = read_attempts(place)
    assert found == Attempt(
        1, 999_992.5, 40, 70, 1_000_011.0, 2, 0.75, 4.0, 7.5, "stopped", ((60, 1_000_009.5), (65, 1_000_008.5))
    )
    assert [path.name for path in (tmp_path / "attempts").iterdir()] == ["00001.json"]


def test_attempt_numbers_continue_despite_gaps(place: Folder) -> None:
    for number in (1, 2, 12):
        place.create(f"attempts/{number:05d}.json", json.dumps({"number": number}).encode())
    record = Record(place)
    assert record.attempt.number == 13
    assert [attempt.number for attempt in record.earlier] == [1, 2, 12]


def test_the_last_of_many_starts_are_kept(place: Folder, tmp_path: Path) -> None:
    for number in range(1, 8):
        place.create(f"attempts/{number:05d}.json", json.dumps({"number": number}).encode())
    place.create("attempts/notes.txt", b"")
    record = Record(place, keep=3)
    assert [attempt.number for attempt in record.earlier] == [5, 6, 7]
    assert len(place.have_been_read) == 3  # an object store is asked for each of them
    left = sorted(path.name for path in (tmp_path / "attempts").iterdir())
    assert left == ["00005.json", "00006.json", "00007.json", "00008.json", "notes.txt"]
    assert len(Record(place).earlier) == 4


@pytest.mark.slow
def test_the_longer_it_runs_the_more_seldom_it_is_written(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    steady, times = Clock(), list[float]()
    real = Path.write_bytes

    def noted(path: Path, data: bytes) -> int:
        times.append(steady.now)
        return real(path, data)

    record = Record(place, steady=steady)
    monkeypatch.setattr(Path, "write_bytes", noted)
    for step in range(24 * 3600):
        steady.now += 1
        record.reached(step)
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses[0] == 1 and pauses[-1] == 60 and pauses == sorted(pauses)
    assert len(times) < 1800  # a day's
    assert all(pause <= max(1.0, 0.02 * (now - 100) + 1) for pause, now in zip(pauses, times[1:], strict=True))


def test_two_starts_at_once_get_two_numbers(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    Record(place)
    monkeypatch.setattr(place, "names", lambda below="": {})
    assert Record(place).attempt.number == 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b'{"started": "now"}',
        b'{"ended": 3}',
        b'{"saved": 3}',
        b'{"saved": [[1]]}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_a_damaged_file_is_an_unknown_start(data: bytes, place: Folder) -> None:
    place.create("attempts/00002.json", data)
    place.create("attempts/notes.txt", b"")
    place.create("attempts/00003.partial", b"")
    assert read_attempts(place) == [Attempt(2)]


def test_records_of_later_versions_are_ignored(place: Folder) -> None:
    place.create("attempts/00002.json", b'{"number": 7, "step": 5, "colour": "red", "time": 3.5, "started": 1}')
    assert read_attempts(place) == [Attempt(2, started=1, step=5, time=3.5)]


def test_the_last_saves_are_told_one_by_one(place: Folder) -> None:
    record = Record(place, steady=Clock())
    for step in range(1, KEPT_SAVES + 11):
        record.saved(step, 0.0, 0.0)
    (found,) = read_attempts(place)
    assert found.saves == KEPT_SAVES + 10
    assert [step for step, _ in found.saved] == list(range(11, KEPT_SAVES + 11))


def test_interruptions() -> None:
    endings = ["finished", None, "stopped", "failed", None, "stopped", None]
    attempts = [Attempt(number, 10.0, time=30.0, ended=ended) for number, ended in enumerate(endings)]
    assert exposure(attempts) == (140.0, 5)
    assert interrupted_in_a_row(attempts) == 3
    assert interrupted_in_a_row(attempts[:4]) == 0
    assert interrupted_in_a_row([]) == 0


def test_a_full_disk_is_reported_once_and_ends_nothing(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    steady = Clock()
    record = Record(place, say=said.append, steady=steady)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    for _ in range(3):
        steady.now += 5
        record.reached(5)
    record.end("finished")
    assert len(said) == 1 and "No space left on device" in said[0]


def test_an_object_store_is_written_to_more_seldom(tmp_path: Path) -> None:
    place, steady = Folder(tmp_path, uri="s3://bucket/key"), Clock()
    record = Record(place, steady=steady)
    for _ in range(59):
        steady.now += 1
        record.reached(5)
    assert place.replaced == 0
    steady.now += 1
    record.reached(6)
    assert place.replaced == 1


def test_the_age_of_a_process() -> None:
    first = process_age()
    assert 0 < first <= process_age()


def test_what_cannot_be_read_ends_nothing(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> NoReturn:
        raise OSError(errno.EIO, "Input/output error")

    said: list[str] = []
    place.create("attempts/00002.json", b"{}")
    with monkeypatch.context() as patch:
        patch.setattr(place, "read", broken)
        assert Record(place, say=said.append).attempt.number == 3
    assert said == []
    monkeypatch.setattr(place, "names", broken)
    record = Record(place, say=said.append)
    record.end("finished")
    assert record.earlier == []
    assert len(said) == 1 and "attempts cannot be read ([Errno 5] Input/output error)" in said[0]
