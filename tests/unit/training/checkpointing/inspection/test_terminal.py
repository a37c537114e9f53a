from __future__ import annotations

import pytest

from drivetrain.training.checkpointing.inspection.terminal import table


def test_a_table_has_straight_columns_and_tells_all_of_its_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    why = "rank-00001-of-00002.safetensors: its checksum is not that of the manifest"
    lines = table(("step", "state", "note"), [("120", "良い", ""), ("7", "damaged\n", why)]).splitlines()
    assert lines == ["STEP  STATE     NOTE", "120   良い", f"7     damaged   {why}"]


def test_styles_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    _, row = table(("step", "note"), [("7", "gone")], [("bold", "dim")]).splitlines()
    assert row == "\x1b[1m7\x1b[0m     \x1b[2mgone\x1b[0m"
