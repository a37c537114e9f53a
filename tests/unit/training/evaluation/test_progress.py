from __future__ import annotations

import io

from drivetrain.training.evaluation.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_log_gets_a_line_now_and_then() -> None:
    clock, log, bar = Clock(), io.StringIO(), io.StringIO()
    progress = Progress(1000, bar=bar, lines=log, clock=clock)
    for _ in range(4):
        clock.now += 4
        progress.add(200)
    assert log.getvalue() == "evaluated 600 of 1,000 samples, 50 a second, 0:00:08 left\n"
    progress.add(200)
    assert progress.end() == "1,000 samples in 16.0 s, 62 a second"
    assert bar.getvalue() == ""


def test_a_terminal_gets_a_bar_that_goes_away() -> None:
    clock, log, bar = Clock(), io.StringIO(), Terminal()
    progress = Progress(100, bar=bar, lines=log, clock=clock)
    clock.now += 1
    progress.add(50)
    assert bar.getvalue() == "\r\x1b[K[############............] 50 of 100 samples, 50 a second, 0:00:01 left"
    progress.end()
    assert bar.getvalue().endswith("\r\x1b[K")
    assert log.getvalue() == ""


def test_time_after_counting_is_not_time_per_sample() -> None:
    clock = Clock()
    progress = Progress(100, bar=io.StringIO(), lines=io.StringIO(), clock=clock)
    clock.now += 2
    progress.add(100)
    progress.stop()
    clock.now += 50
    assert progress.end() == "100 samples in 2.0 s, 50 a second"


def test_more_than_all_is_all() -> None:
    """The last round may have fewer samples than batches have."""
    progress = Progress(10, bar=io.StringIO(), lines=io.StringIO(), clock=(clock := Clock()))
    progress.add(16)
    clock.now += 2
    assert progress.end() == "10 samples in 2.0 s, 5 a second"


def test_only_one_rank_prints() -> None:
    clock, log, bar = Clock(), io.StringIO(), Terminal()
    progress = Progress(100, shows=False, bar=bar, lines=log, clock=clock)
    clock.now += 100
    progress.add(50)
    progress.end()
    assert log.getvalue() == bar.getvalue() == ""
