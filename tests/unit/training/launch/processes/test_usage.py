"""A script that argparse ends says what was wrong, without the traceback of SystemExit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drivetrain.training.launch.processes.failure import report_exit


@pytest.mark.parametrize(
    ("words", "code", "has_traceback"),
    [
        ("usage: fit.py [-h]\nfit.py: error: unrecognized arguments: --lr 0.1\n", 2, False),
        ("usage: fit.py [-h]\n", 3, True),
        ("no such thing\n", 2, True),
    ],
)
def test_the_reason_is_the_error_of_argparse(
    words: str, code: int, has_traceback: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(code)
    report_exit(ended.value, words)
    found = json.loads((tmp_path / "error.json").read_text())["drivetrain"]
    assert found["summary"].endswith(f"and said: {words.splitlines()[-1]}")
    assert ("SystemExit" in found["details"]) == has_traceback
