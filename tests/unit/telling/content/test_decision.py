"""What is read out of a decision, and how it is said in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.telling.content.decision import decision, floor_words, read_decision, sentence

AGAINST = "accuracy 0.9000 against 0.8500 of version 2, +0.05 (95 % interval +0.02 to +0.08)"


def test_the_facts_of_the_file_are_read(findings: Callable[..., Path]) -> None:
    found = read_decision("compare", findings() / "decision")
    assert found is not None and (found.verdict, found.group, found.metric) == ("register", "digits", "accuracy")
    assert found.champion_version == "2" and found.champion["accuracy"].value == 0.85 and found.rows == 360
    assert found.difference is not None and found.difference.interval == (0.02, 0.08) and found.method == "t and Hall"
    assert [(one.metric, one.slice) for one in found.differences][2:] == [
        ("accuracy", "site=south"), ("accuracy", "site=east"),
    ]  # fmt: skip
    assert [floor.higher_is_better for floor in found.floors] == [True, False]
    assert found.regressions[0].within and found.tone == "good"


BROKEN = [
    {"metric": "accuracy", "slice": "site=north", "least": 0.95, "value": 0.91, "met": False},
    {"metric": "loss", "slice": None, "least": 0.1, "value": 0.25, "met": False, "higher_is_better": False},
]
BEYOND = {"metric": "accuracy", "slice": "site=south", "difference": -0.1, "budget": 0.01, "within": False}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, f"Register: {AGAINST}."),
        ({"champion": None, "difference": None}, "Register: digits has no champion yet, and every floor is met."),
        ({"champion": None, "difference": None, "floors": []}, "Register: digits has no champion yet."),
        ({"verdict": "keep champion"}, f"Keep the champion: {AGAINST}."),
        (
            {"verdict": "keep champion", "regressions": [BEYOND]},
            f"Keep the champion: {AGAINST}; accuracy of site=south is worse by more than its budget.",
        ),
        (
            {
                "verdict": "keep champion",
                "regressions": [BEYOND],
                "rule": {"budget_rule": "proven"},
                "anchor": {"version": 1, "difference": {"value": -0.01}},
            },
            f"Keep the champion: {AGAINST}; -0.01 to version 1, the best approved one; accuracy of site=south is not "
            "shown to keep its budget.",
        ),
        (
            {"verdict": "below floors", "floors": BROKEN[:1]},
            "Do not register: accuracy of site=north is 0.9100, and must be at least 0.9500.",
        ),
        (
            {"verdict": "below floors", "floors": BROKEN[::-1]},
            "Do not register: loss is 0.2500, and must be at most 0.1000 (and 1 more floor not met).",
        ),
        (
            {"verdict": "already registered", "already_registered": 3},
            "Already registered: the same content is version 3 of digits.",
        ),
        ({"verdict": "already registered"}, "Already registered: the same content is a version of digits."),
        ({"verdict": "ask somebody", "candidate": {}, "difference": None}, "Ask somebody."),
        ({"verdict": "", "candidate": None, "difference": 3}, "No verdict."),
        (
            {"difference": {"value": -0.0021}},
            "Register: accuracy 0.9000 against 0.8500 of version 2, -0.0021.",
        ),
    ],
)
def test_the_verdict_is_one_sentence(decision_json: dict[str, Any], changes: dict[str, Any], said: str) -> None:
    assert sentence(decision("compare", {**decision_json, **changes})) == said


def test_a_floor_on_an_undefined_metric_is_shown() -> None:
    found = decision("c", {"floors": [{"metric": "auroc", "least": 0.9, "met": False}, {"metric": "x"}]})
    assert floor_words(found.floors[0]) == "auroc is not defined, and must be at least 0.9000"
    assert floor_words(found.floors[1]) == "x is not defined" and not found.floors[1].met


def test_other_files_are_ignored() -> None:
    odd = {
        "verdict": "register", "why": "because", "candidate": [1], "champion": {"version": {}}, "difference": [],
        "floors": {"a": 1}, "regressions": [3, None, {"metric": ["x"], "within": "yes"}], "data": 3, "metric": 7,
        "differences": [{"metric": "a"}, {"value": 1}],
    }  # fmt: skip
    found = decision("compare", odd)
    assert (found.why, found.champion_version, found.floors, found.metric) == ((), "?", (), "7")
    assert [one.within for one in found.regressions] == [False] and len(found.differences) == 1
    assert sentence(found) == "Register."


@pytest.mark.parametrize("content", ['{"verdict": "register"}', '{"format": 1, "verdict": 3}', '{"Version": "1"}'])
def test_foreign_decision_files_are_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / "decision.json").write_text(content)
    assert read_decision("c", tmp_path) is None
    assert read_decision("c", tmp_path / "nowhere") is None


def test_a_torn_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "decision.json").write_text("{")
    found = read_decision("compare", tmp_path)
    assert found is not None
    assert sentence(found) == "The decision of compare cannot be shown: its decision.json is no JSON."
