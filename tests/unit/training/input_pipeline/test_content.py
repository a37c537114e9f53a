from __future__ import annotations

from pathlib import Path

import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline import content
from drivetrain.training.input_pipeline.content import content_hash
from drivetrain.training.process import Process

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))


def write(folder: Path, **files: bytes) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return sorted(folder.iterdir())


def test_the_hash_depends_on_names_and_bytes_only(tmp_path: Path) -> None:
    kinds = {
        "same": {"a": b"1", "b": b"2"},
        "elsewhere/same": {"a": b"1", "b": b"2"},
        "swapped": {"a": b"2", "b": b"1"},
        "renamed": {"a": b"1", "c": b"2"},
        "moved": {"a": b"12", "b": b""},
        "fewer": {"a": b"1"},
    }
    found = {
        name: content_hash(tmp_path / name, write(tmp_path / name, **files), ALONE) for name, files in kinds.items()
    }
    assert found["same"] == found.pop("elsewhere/same")
    assert len(set(found.values())) == len(found)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    files = write(tmp_path, a=b"1")
    files[0].unlink()
    with pytest.raises(InputError, match=rf"{files[0]} cannot be read \(No such file or directory\)"):
        content_hash(tmp_path, files, ALONE)


def test_a_long_check_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = iter(float(number) for number in range(100))
    content_hash(tmp_path, write(tmp_path, **{f"file{n}": b"x" for n in range(12)}), ALONE, clock=lambda: next(times))
    lines = capsys.readouterr().out.splitlines()
    assert lines and all(line.startswith(f"checking {tmp_path}: 0.0 GiB") for line in lines)
    assert len(lines) < 12 / (content.SECONDS_BETWEEN_LINES - 2)
