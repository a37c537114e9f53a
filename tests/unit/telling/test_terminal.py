from __future__ import annotations

import io

import pytest

from drivetrain.base.formatting import cut
from drivetrain.telling.terminal import has_color, paint, table


def test_columns_are_aligned_and_the_last_is_cut() -> None:
    made = table(("step", "why"), [["数据", "x"], ["train", "a long reason"]], room=16)
    assert made == "STEP   WHY\n数据   x\ntrain  a long r…"


def test_terminal_commands_in_a_cell_are_escaped() -> None:
    assert "\x1b" not in table(("step",), [["\x1b[2Jgone\nnext"]], room=80)
    assert len(table(("step",), [["\x1b[2Jgone\nnext"]], room=80).splitlines()) == 2


def test_shorten() -> None:
    assert cut("abc", 3) == "abc" and cut("abcd", 3) == "ab…" and cut("数据数据", 5) == "数据…"


def test_colours_only_on_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert has_color(Terminal()) and not has_color(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not has_color(Terminal())
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert has_color(io.StringIO()) and paint("x", "Failed") == "\x1b[31mx\x1b[0m" and paint("x", "unknown") == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_color(Terminal())
