"""A training waits at a step for the signal that somebody rehearses."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.loop.saving import FILE, STEP, Rehearsal


def test_without_a_rehearsal_nothing_happens() -> None:
    assert Rehearsal({}).step == 0


@pytest.mark.parametrize("given", [{STEP: "two", FILE: "f"}, {STEP: "12"}, {STEP: "-1", FILE: "f"}])
def test_invalid_rehearsals_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(InputError, match="give the number of a step, and a file to make"):
        Rehearsal(given)


def test_it_waits_once(tmp_path: Path) -> None:
    file = tmp_path / "reached"
    rehearsal = Rehearsal({STEP: "12", FILE: str(file)})
    assert rehearsal.step == 12
    seen: list[bool] = []

    def is_told() -> bool:
        seen.append(file.is_file())
        return len(seen) == 3

    rehearsal.wait(is_told)
    assert seen == [True, True, True]
    rehearsal.wait(is_told)  # the file is there: not again
    assert len(seen) == 3


def test_its_patience_ends(tmp_path: Path) -> None:
    rehearsal = Rehearsal({STEP: "12", FILE: str(tmp_path / "reached")})
    rehearsal.wait(lambda: False, patience=0.02)
    assert rehearsal.file.is_file()
