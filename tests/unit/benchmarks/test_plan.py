from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks import plan
from tests.benchmarks.harness.bench import Bench


class Deployer:
    """`drivetrain` in an account where each write leaves what it is told to."""

    def __init__(self, written: list[str], versions: int = 1) -> None:
        self.written, self.versions = written, versions
        self.commands: list[tuple[str, str]] = []

    def __call__(self, command: str, *more: str, seed: str = "0") -> Any:
        self.commands.append((command, seed))

    def definition(self) -> str:
        return self.written.pop(0)

    def num_versions(self) -> int:
        return self.versions


@pytest.mark.parametrize(
    ("written", "versions", "same"),
    [
        (["a", "a", "a"], 1, True),
        (["a", "b", "a"], 1, False),
        (["a", "a", "b"], 1, False),
        (["a", "a", "a"], 2, False),
    ],
)
def test_the_same_bytes_are_those_of_all_three_writes(written: list[str], versions: int, same: bool) -> None:
    drivetrain = Deployer(written, versions)
    assert plan.same_bytes(drivetrain) is same  # type: ignore[arg-type]
    assert drivetrain.commands == [("apply", "1"), ("apply", "2"), ("destroy", "0"), ("apply", "2")]


def test_a_plan_is_held_to_a_second_of_the_process_itself(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def medians(rivals: dict[str, Any], *, rounds: int) -> dict[str, float]:
        return {"drivetrain": 1.01, "one call": 0.25}

    monkeypatch.setattr(plan, "in_turn", medians)
    row = plan._planned(Bench(tmp_path), Deployer([]), "nothing changes")  # type: ignore[arg-type]
    assert (row.ours, row.limit, row.target, row.met, row.unit) == (1.01, 0.25, 1.0, False, "s")
    assert set(plan.PLANS) == {"nothing is deployed", "nothing changes", "a setting changes"}
