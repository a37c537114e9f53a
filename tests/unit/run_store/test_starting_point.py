"""What a training says once of where it starts."""

from __future__ import annotations

from pathlib import Path

from drivetrain.run_store.starting_point import StartingPoint


def test_the_starting_point_is_reported_once_its_line_is_complete(tmp_path: Path) -> None:
    log = tmp_path / "algo-1.log"
    point = StartingPoint(log)
    assert point.read() is None and point.text is None
    log.write_text("loading\nstarts from: step 8 of")
    assert point.read() is None
    log.write_text("loading\nstarts from: step 8 of this training\nepoch 1\n")
    assert point.read() == "starts from step 8 of this training" == point.text
    for line in ("epoch 2\n", "starts from: nothing\n"):
        with log.open("a") as file:
            file.write(line)
        assert point.read() is None
    assert point.text == "starts from step 8 of this training"
