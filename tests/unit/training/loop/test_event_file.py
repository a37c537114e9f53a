"""Event files as TensorBoard itself reads them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training.loop.event_file import EventFile, _checksum
from tests.unit.training.loop.small_disk import room_up_to

# Longer than seven bits of a length, and beyond ASCII.
NAMES = ("train_loss", "a" * 200, "précision")


def read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    # `size_guidance` 0: no sampling.
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return found


def scalars(folder: Path, name: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in read(folder).Scalars(name)]


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    file = EventFile(tmp_path / "made", step=1)
    for step in (1, 127, 128, 70_000, 2**40):
        file.add(step, {name: step % 64 / 8 + place for place, name in enumerate(NAMES)})
    file.close()
    assert set(read(tmp_path / "made").Tags()["scalars"]) == set(NAMES)
    for place, name in enumerate(NAMES):
        expected = [(step, step % 64 / 8 + place) for step in (1, 127, 128, 70_000, 2**40)]
        assert scalars(tmp_path / "made", name) == expected


def test_records_repeated_by_a_later_session_are_dropped(tmp_path: Path) -> None:
    first = EventFile(tmp_path, step=1)
    for step in (10, 20, 30):
        first.add(step, {"loss": float(step)})
    first.close()
    second = EventFile(tmp_path, step=21)
    second.add(30, {"loss": -1.0})
    second.close()
    assert scalars(tmp_path, "loss") == [(10, 10.0), (20, 20.0), (30, -1.0)]


def test_each_record_is_there_before_the_file_is_closed(tmp_path: Path) -> None:
    file = EventFile(tmp_path, step=1)
    file.add(1, {"loss": 0.5})
    assert scalars(tmp_path, "loss") == [(1, 0.5)]
    file.close()


def test_a_record_without_room_leaves_nothing(tmp_path: Path) -> None:
    file = EventFile(tmp_path, step=1)
    file.add(1, {"loss": 0.5})
    (path,) = tmp_path.iterdir()
    with room_up_to(path.stat().st_size + 10), pytest.raises(OSError, match="File too large"):
        file.add(2, {"loss": 0.5})
    file.add(3, {"loss": 0.25})
    file.close()
    assert scalars(tmp_path, "loss") == [(1, 0.5), (3, 0.25)]


def test_values_that_are_no_numbers(tmp_path: Path) -> None:
    file = EventFile(tmp_path, step=1)
    file.add(1, {"loss": float("inf")})
    file.close()
    assert scalars(tmp_path, "loss") == [(1, float("inf"))]


@pytest.mark.parametrize(
    ("data", "crc"),
    # RFC 3720, appendix B.4; and the check value of the catalogue of CRCs.
    [(bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E), (b"123456789", 0xE3069283)],
)
def test_the_checksum(data: bytes, crc: int) -> None:
    rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
    assert struct.unpack("<I", _checksum(data)) == ((rotated + 0xA282EAD8) % 2**32,)
