from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from drivetrain.training.loop.journal import METRICS_FILE, EventFile, Journal, Pace, _checksum
from drivetrain.training.process import Process
from tests.unit.training.loop.small_disk import room_up_to

MAIN = Process(0, 2, 0, 2, torch.device("cpu"))
OTHER = Process(1, 2, 1, 2, torch.device("cpu"))
# Longer than seven bits of a length, and beyond ASCII.
NAMES = ("train_loss", "a" * 200, "précision")


def journal(output: Path | None, *, process: Process = MAIN, tensorboard: Path | None = None) -> Journal:
    return Journal(process, output, tensorboard, epochs=3, total_steps=30)


def lines(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output / METRICS_FILE).read_text().splitlines()]


def test_one_record_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with journal(tmp_path) as written:
        written.begin(0, 0, [])
        written.progress(0, 10, 640, {"train_loss": 0.5}, learning_rate=0.25, gradient_norm=None)
        (first,) = lines(tmp_path)  # flushed, while the file is open
        written.progress(2, 30, 1920, {"train_loss": float("nan")}, learning_rate=0.0, gradient_norm=float("inf"))
    assert (first["epoch"], first["step"], first["train_loss"], first["learning_rate"]) == (1, 10, 0.5, 0.25)
    assert first["samples_per_second"] > 0
    assert "gradient_norm" not in first
    last = lines(tmp_path)[-1]
    assert (last["epoch"], last["step"]) == (3, 30)
    assert last["train_loss"] is last["gradient_norm"] is None  # JSON has no infinity and no NaN
    assert last["time"] >= first["time"]

    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("epoch 1/3 step 10 train_loss=0.5 samples_per_second=")
    assert " learning_rate=0.25 time_left=0:00:0" in printed[0]
    assert printed[1].startswith("epoch 3/3 step 30 train_loss=nan samples_per_second=")
    assert printed[1].endswith(" learning_rate=0 gradient_norm=inf")  # nothing is left


def test_only_the_first_rank_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with journal(tmp_path / "output", process=OTHER, tensorboard=tmp_path / "more") as silent:
        silent.begin(0, 0, [])
        silent.progress(0, 10, 640, {"train_loss": 0.5})
        silent.say("nothing")
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


def test_without_an_output_folder_it_speaks_only(capsys: pytest.CaptureFixture[str]) -> None:
    with journal(None) as spoken:
        spoken.begin(0, 0, [])
        spoken.progress(0, 10, 640, {"train_loss": 0.5})
    assert capsys.readouterr().out.startswith("epoch 1/3 step 10 train_loss=0.5 ")


@pytest.mark.parametrize("cut", ["", '{"epoch": 2, "st', "[1]\n", "null\n"])
def test_a_restart_removes_lines_that_will_repeat(cut: str, tmp_path: Path) -> None:
    with journal(tmp_path) as first:
        first.begin(0, 0, [])
        for step in (5, 10, 15, 20):
            first.progress(0, step, step * 64, {"train_loss": float(step)})
    with (tmp_path / METRICS_FILE).open("a") as stream:
        stream.write(cut)  # the attempt was killed while it wrote
    with journal(tmp_path) as second:
        second.begin(10, 640, [{"epoch": 1, "step": 10, "train_loss": 10.0}])
        second.progress(0, 15, 960, {"train_loss": -1.0})
    assert [(line["step"], line["train_loss"]) for line in lines(tmp_path)] == [(5, 5.0), (10, 10.0), (15, -1.0)]


def test_a_restart_on_another_machine_begins_with_the_validations(tmp_path: Path) -> None:
    with journal(tmp_path) as second:
        second.begin(10, 640, [{"epoch": 1, "step": 10, "train_loss": 10.0}])
        second.progress(0, 15, 960, {"train_loss": 1.0})
    assert [line["step"] for line in lines(tmp_path)] == [10, 15]


def test_a_new_training_replaces_the_old_ones_lines(tmp_path: Path) -> None:
    for loss in (1.0, 2.0):
        with journal(tmp_path) as written:
            written.begin(0, 0, [])
            written.progress(0, 5, 320, {"train_loss": loss})
    assert [line["train_loss"] for line in lines(tmp_path)] == [2.0]


def test_tensorboard_in_both_folders(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with journal(tmp_path / "output", tensorboard=tmp_path / "more") as written:
        written.begin(0, 0, [])
        written.progress(0, 10, 640, {"train_loss": 0.5, "validation_loss": 0.75}, learning_rate=0.25)
    for folder in (tmp_path / "output" / "tensorboard", tmp_path / "more"):
        found = EventAccumulator(str(folder))
        found.Reload()
        expected = {"train_loss", "validation_loss", "learning_rate", "samples_per_second"}
        assert set(found.Tags()["scalars"]) == expected
        assert [(event.step, event.value) for event in found.Scalars("validation_loss")] == [(10, 0.75)]


def test_files_are_closed_when_the_training_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), journal(tmp_path) as written:
        written.begin(0, 0, [])
        opened = [written._lines, *(file._file for file in written._event_files)]
        raise RuntimeError
    assert len(opened) == 2
    assert all(file is not None and file.closed for file in opened)


def complaints(printed: str, folder: Path) -> list[str]:
    return [line for line in printed.splitlines() if f"metrics cannot be written to {folder}" in line]


def test_a_full_disk_costs_lines_and_no_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of them stays: those that follow, when there is room again, are read."""
    with journal(tmp_path) as written:
        written.begin(0, 0, [])
        written.progress(0, 5, 320, {"train_loss": 1.0})
        with room_up_to((tmp_path / METRICS_FILE).stat().st_size + 10):
            for step in (10, 15):
                written.progress(0, step, step * 64, {"train_loss": 2.0})
        written.progress(0, 20, 1280, {"train_loss": 3.0})
    printed = capsys.readouterr().out
    assert len(complaints(printed, tmp_path)) == 1
    assert "(File too large): training continues" in printed
    assert [line["step"] for line in lines(tmp_path)] == [5, 20]


def test_a_disk_that_is_full_before_the_first_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with journal(tmp_path) as first:
        first.begin(0, 0, [])
        first.progress(0, 5, 320, {"train_loss": 1.0})
        first.progress(0, 10, 640, {"train_loss": 2.0})
    before = lines(tmp_path)
    with journal(tmp_path) as second:
        with room_up_to(10):
            second.begin(5, 320, [])
        second.progress(0, 10, 640, {"train_loss": 2.5})
    assert lines(tmp_path) == before  # those that come again are not added to those that could not be taken out
    assert len(complaints(capsys.readouterr().out, tmp_path)) == 1


def test_the_pace_of_this_attempt() -> None:
    now = [100.0]
    pace = Pace(step=20, samples=2000, clock=lambda: now[0])
    assert pace.samples_per_second(2000) is None
    assert pace.seconds_left(20, 50) is None
    now[0] = 104.0
    assert pace.samples_per_second(2100) == 25.0
    assert pace.seconds_left(30, 50) == 8.0
    now[0] = 110.0
    pace.mark(2100)  # a validation went by
    now[0] = 111.0
    assert pace.samples_per_second(2140) == 40.0


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
