"""Lists of metrics as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.metric import load_metrics
from drivetrain.training.task import Task

OWN = """
from dataclasses import dataclass
from typing import ClassVar
@dataclass(frozen=True)
class Metric:
    share: float = 0.5
    names: tuple[str, ...] = ()
    strict: bool = False
    kinds: ClassVar = ("values", "binary")
    higher_is_better: ClassVar = True
    def tallies(self, task): return {}
    def compute(self, task, counted): return {}
"""
VALUES = Task("values")


@pytest.fixture(autouse=True)
def own_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_of_tests").mkdir()
    (tmp_path / "own_of_tests/fair.py").write_text(OWN)
    (tmp_path / "own_of_tests/fare.py").write_text(OWN)
    (tmp_path / "own_of_tests/plain.py").write_text("Metric = 3")
    (tmp_path / "own_of_tests/half.py").write_text(OWN.replace("def compute", "def other").replace("higher", "x"))
    monkeypatch.syspath_prepend(tmp_path)


def test_options_as_in_json_and_in_python() -> None:
    given = "own_of_tests.fair(share=0.25, strict=true,\n names=['a', 'b'])"
    (metric,) = load_metrics(given, VALUES).values()
    assert (metric.share, metric.strict, metric.names) == (0.25, True, ("a", "b"))  # type: ignore[attr-defined]


def test_results_are_called_after_the_file() -> None:
    found = load_metrics("own_of_tests.fair, own_of_tests.fair", VALUES)
    assert list(found) == ["fair"]
    found = load_metrics("own_of_tests.fair, own_of_tests.fair(share=1), own_of_tests.fare", VALUES)
    assert list(found) == ["fair", "fair_share_1", "fare"]


@pytest.mark.parametrize(
    "text",
    [
        "fair(",
        "1",
        "fair(0.5)",
        "fair(share=x)",
        "fair(**{'share': 1})",
        "fair share",
        "a.b().c",
        "[",
        "], [fair",
        "x;y",
        "(" * 300 + "x" + ")" * 300,
        "fair(share=f())",
        "fair(share={1, 2})",
        "fair(share=b'x')",
        "\0",
    ],
)
def test_invalid_metric_lists_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"is no list of metrics\. Allowed are names with options, such as"):
        load_metrics(text, VALUES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("own_of_tests.fair(shore=1)", r"metric 'own_of_tests.fair' has no option 'shore'\. Did you mean 'share'\?"),
        ("own_of_tests.fair(share='1')", r"share=\"1\"; allowed is a number"),
        ("own_of_tests.fare.fair", "no metric 'own_of_tests.fare.fair'"),
        ("own_of_tests.plain", "has no dataclass named Metric"),
        ("own_of_tests.half", "lacks higher_is_better, compute"),
        ("own_of_tests.fare(share=1), own_of_tests.fare(share=1.0, strict=false)", None),
    ],
)
def test_invalid_metric_options_are_refused(text: str, message: str | None) -> None:
    if message is None:
        assert len(load_metrics(text, VALUES)) == 2
        return
    with pytest.raises(InputError, match=message):
        load_metrics(text, VALUES)


def test_two_metrics_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "more_of_tests").mkdir()
    (tmp_path / "more_of_tests/fair.py").write_text(OWN)
    with pytest.raises(InputError, match="two different metrics would be called 'fair'"):
        load_metrics("own_of_tests.fair, more_of_tests.fair", VALUES)


def test_a_metric_of_another_task() -> None:
    with pytest.raises(InputError, match="is for values and binary tasks, and the recipe's is regression"):
        load_metrics("own_of_tests.fair", Task("regression", 1))
