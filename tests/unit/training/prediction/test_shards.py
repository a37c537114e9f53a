from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.prediction import shards


@pytest.mark.parametrize(
    ("code", "advice"),
    [(errno.ENOSPC, "Free some space, or give another folder."), (errno.EACCES, "Give another folder.")],
)
def test_only_a_full_disk_asks_for_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, advice: str
) -> None:
    def fails(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(shards.os, "fsync", fails)
    path = tmp_path / "part-00000.parquet"
    said = f"{path} cannot be written: {os.strerror(code)}. {advice}"
    with pytest.raises(InputError, match=f"^{re.escape(said)}$"):
        shards._write(path, b"rows")
