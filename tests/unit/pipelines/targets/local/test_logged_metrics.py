"""Metrics found in a growing log."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.pipelines.errors import UserError
from drivetrain.pipelines.targets.local.logged_metrics import Logged, MetricReader

LOSS = {"Name": "loss", "Regex": r"loss=(-?[0-9.e+-]+|nan|inf)"}


def test_lines_are_read_once_when_they_are_whole(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    reader = MetricReader([LOSS], [log])
    assert reader.read(0.0) == []
    log.write_text("loss=1.5\nloss=0.")
    assert reader.read(1.0) == [Logged("loss", 1.0, 1.5)]
    assert reader.read(2.0) == []
    with log.open("a") as file:
        file.write("5 and loss=0.25\r loss=0.125")
    assert reader.read(3.0) == [Logged("loss", 3.0, 0.5), Logged("loss", 3.0, 0.25)]
    assert reader.read(4.0, final=True) == [Logged("loss", 4.0, 0.125)]
    assert reader.last == {"loss": 0.125}


def test_several_logs_and_definitions_and_what_is_no_number(tmp_path: Path) -> None:
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    logs[0].write_text("loss=nan\nloss=inf\nloss=1e-3\nloss=1.2.3\n")
    logs[1].write_bytes(b"\xff\xfe epoch 7 of 9\n")
    reader = MetricReader(
        [LOSS, {"Name": "epoch", "Regex": "epoch [0-9]+"}, {"Name": "all", "Regex": r"\d of (\d)"}], logs
    )
    assert reader.read(0.0) == [Logged("loss", 0.0, 0.001), Logged("all", 0.0, 9.0)]


def test_a_line_without_end_is_cut(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    reader = MetricReader([LOSS], [log])
    for _ in range(4):
        with log.open("a") as file:
            file.write("." * 100_000)
        assert reader.read(0.0) == []
    with log.open("a") as file:
        file.write("loss=1\n")
    assert [one.value for one in reader.read(0.0)] == [1.0]


def test_a_regex_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(UserError, match="'loss' cannot be read"):
        MetricReader([{"Name": "loss", "Regex": "("}], [])
    with pytest.raises(UserError, match="Name and Regex"):
        MetricReader([{"Name": "loss"}], [])
