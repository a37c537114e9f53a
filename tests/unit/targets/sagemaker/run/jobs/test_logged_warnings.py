"""What a step warns of, found in its logs."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from drivetrain.base.errors import warn
from drivetrain.targets.sagemaker.run.jobs.programs import logged_warnings


def test_lines_that_begin_so_are_told_once_each(tmp_path: Path) -> None:
    assert logged_warnings(tmp_path) is None
    (tmp_path / "host-1.log").write_bytes(b"100 rows\nWARNING: of a library\n  warning: of a compiler\n")
    assert logged_warnings(tmp_path) is None
    (tmp_path / "host-1.log").write_bytes(b"100 rows\nwarning: a leak\nmore\nwarning: \xff\nwarning: a leak\n")
    (tmp_path / "host-2.log").write_bytes(b"warning: a leak\nwarning: cut off")
    assert logged_warnings(tmp_path) == "warning: a leak; \ufffd; cut off"


def test_of_many_and_of_long_ones_the_rest_is_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "host-1.log").write_text("".join(f"warning: {number} {'x' * 500}\n" for number in range(8)))
    told = logged_warnings(tmp_path)
    assert told is not None and told.endswith("xxx...; 3 more in the log") and len(told) < 2200
    assert told.startswith("warning: 0 xxx") and "; 4 xxx" in told and "; 5 xxx" not in told


@pytest.mark.parametrize(
    ("line", "count", "told"),
    [
        (b"warning: " + b"x" * 1000, 20_000, "warning: " + "x" * 400 + "..."),  # 20 MB without a newline
        (b"warning: %07d\n", 100_000, "; 0000004; more than 9995 more in the log"),
    ],
    ids=["one line", "many warnings"],
)
def test_any_output_is_read_in_bounded_memory(line: bytes, count: int, told: str, tmp_path: Path) -> None:
    with (tmp_path / "host-1.log").open("wb") as log:
        log.writelines(line % number if b"%" in line else line for number in range(count))
    tracemalloc.start()
    try:
        found = logged_warnings(tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found is not None and found.endswith(told)
    assert peak < 3e6


def test_warnings_of_a_step_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warn("mind the gap")
    (tmp_path / "host-1.log").write_text(capsys.readouterr().out)
    assert logged_warnings(tmp_path) == "warning: mind the gap"
