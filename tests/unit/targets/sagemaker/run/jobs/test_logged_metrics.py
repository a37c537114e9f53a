"""Metrics found in a growing log."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.run.jobs import logged_metrics
from drivetrain.targets.sagemaker.run.jobs.bounded_matching import Matcher
from drivetrain.targets.sagemaker.run.jobs.logged_metrics import Logged, MetricReader

LOSS = {"Name": "loss", "Regex": r"loss=(-?[0-9.e+-]+|nan|inf)"}


def test_lines_are_read_once_when_they_are_whole(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    reader = MetricReader([LOSS], [log])
    assert list(reader.read(0.0)) == []
    log.write_text("loss=1.5\nloss=0.")
    assert list(reader.read(1.0)) == [Logged("loss", 1.0, 1.5)]
    assert list(reader.read(2.0)) == []
    with log.open("a") as file:
        file.write("5 and loss=0.25\r loss=0.125")
    assert list(reader.read(3.0)) == [Logged("loss", 3.0, 0.5), Logged("loss", 3.0, 0.25)]
    assert list(reader.read(4.0, final=True)) == [Logged("loss", 4.0, 0.125)]
    assert reader.last == {"loss": 0.125}


def test_a_regex_that_takes_exponential_time_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "a.log"
    log.write_text("a" * 64 + "!\nloss=0.5\n")
    reader = MetricReader([{"Name": "bad", "Regex": "(a+)+$"}, LOSS], [log])
    monkeypatch.setattr(reader, "_matcher", Matcher(cpu_s=0.1))
    assert list(reader.read(1.0)) == [Logged("loss", 1.0, 0.5)]
    assert [warning.partition(":")[0] for warning in reader.warnings] == ["metric 'bad' is no longer read"]
    with log.open("a") as file:
        file.write("a" * 64 + "!\nloss=0.25\n")
    assert list(reader.read(2.0, final=True)) == [Logged("loss", 2.0, 0.25)]
    assert len(reader.warnings) == 1


def test_no_more_than_a_piece_of_a_log_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged_metrics, "_PIECE", 10_000)
    log = tmp_path / "a.log"
    log.write_text("".join(f"step {number} loss={number}\n" for number in range(10_000)))
    reader = MetricReader([LOSS], [log])
    tracemalloc.start()
    try:
        values = sum(found.value == number for number, found in enumerate(reader.read(0.0, final=True)))
        assert tracemalloc.get_traced_memory()[1] < 2 * log.stat().st_size
    finally:
        tracemalloc.stop()
    assert values == 10_000


def test_no_process_is_left_after_the_last_line(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("loss=1\n")
    reader = MetricReader([LOSS], [log])
    before = _children()
    assert list(reader.read(0.0))
    assert len(_children()) == len(before) + 1
    assert list(reader.read(0.0, final=True)) == []
    assert _children() == before


def test_several_logs_and_definitions_and_what_is_no_number(tmp_path: Path) -> None:
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    logs[0].write_text("loss=nan\nloss=inf\nloss=1e-3\nloss=1.2.3\n")
    logs[1].write_bytes(b"\xff\xfe epoch 7 of 9\n")
    reader = MetricReader(
        [LOSS, {"Name": "epoch", "Regex": "epoch [0-9]+"}, {"Name": "all", "Regex": r"\d of (\d)"}], logs
    )
    assert list(reader.read(0.0)) == [Logged("loss", 0.0, 0.001), Logged("all", 0.0, 9.0)]


def test_a_metric_that_is_not_finite_is_said_once(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    reader = MetricReader([LOSS, {"Name": "norm", "Regex": "norm=(\\S+)"}], [log])
    log.write_text("loss=1.5\nloss=nan\nnorm=-inf\n")
    assert list(reader.read(0.0)) == [Logged("loss", 0.0, 1.5)]
    with log.open("a") as file:
        file.write("loss=nan\nnorm=-inf\n")
    assert list(reader.read(1.0, final=True)) == []
    assert reader.warnings == [
        "metric 'loss' was nan in the log; such values are left out",
        "metric 'norm' was -inf in the log; such values are left out",
    ]
    assert reader.last == {"loss": 1.5}


@pytest.mark.parametrize(
    ("regex", "line", "cut"),
    [
        ("loss=([0-9.]+)", "loss=4.9e-05", True),
        ("loss=([-+0-9.e]+)", "loss=4.9e-05", False),
        ("loss=([0-9.]+)", "loss=4.9 rate=4.9e-05", False),
    ],
)
def test_a_regex_that_cuts_a_number_is_told_once(regex: str, line: str, cut: bool, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"{line}\n{line}\n")
    reader = MetricReader([{"Name": "loss", "Regex": regex}], [log])
    assert len(list(reader.read(0, final=True))) == 2
    said = [
        "metric 'loss' was read as 4.9 where the log has 4.9e-05. Let the group of its Regex take the exponent, too: "
        "([-+0-9.e]+)"
    ]
    assert reader.warnings == (said if cut else [])


def test_a_line_without_end_is_cut(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    reader = MetricReader([LOSS], [log])
    for _ in range(4):
        with log.open("a") as file:
            file.write("." * 100_000)
        assert list(reader.read(0.0)) == []
    with log.open("a") as file:
        file.write("loss=1\n")
    assert [one.value for one in reader.read(0.0)] == [1.0]


@pytest.mark.parametrize("regex", ["(", "a{99999999999}"])
def test_a_regex_that_cannot_be_read_is_refused(regex: str) -> None:
    with pytest.raises(UserError, match="'loss' cannot be read"):
        MetricReader([{"Name": "loss", "Regex": regex}], [])


def test_a_regex_that_the_service_would_refuse_is_refused() -> None:
    with pytest.raises(UserError, match=r"501 characters\. Allowed: 500"):
        MetricReader([{"Name": "loss", "Regex": "a" * 501}], [])


def test_invalid_metric_definitions_are_refused() -> None:
    with pytest.raises(UserError, match="Name and Regex"):
        MetricReader([{"Name": "loss"}], [])


def _children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def test_values_stand_at_the_step_of_their_line(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(
        "loss=9\nepoch 1/2 step 20 loss=1.5\nvalidating\nloss=1.25\n{'global_step': 30, 'x': 'loss=1'}\nstep=40 "
    )
    reader = MetricReader([LOSS], [log])
    assert [(one.value, one.position) for one in reader.read(1.0)] == [(9, None), (1.5, 20), (1.25, 20), (1, 30)]
    with log.open("a") as file:
        file.write("\n")
    assert list(reader.read(2.0)) == []
    with log.open("a") as file:
        file.write("loss=0.5\n")
    assert [(one.value, one.position) for one in reader.read(3.0, final=True)] == [(0.5, 40)]
