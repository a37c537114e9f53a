"""What is on file: for machines and for people."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.decision.deciding import Champion, Registered, decide
from drivetrain.decision.evaluation import Evaluation, read_evaluation
from drivetrain.decision.formatting import number, percent, signed
from drivetrain.decision.page import About
from drivetrain.decision.policy import Policy
from drivetrain.decision.record import write
from tests.fixtures.reports import hashed

Make = Callable[..., Evaluation]
ABOUT = About(group="digits", registry="local", candidate_hash="c" * 64)
COUNT = 200


def test_the_record_of_a_comparison(evaluation: Make, tmp_path: Path) -> None:
    ours = evaluation(
        {"accuracy": 0.95, "loss": 0.2},
        replicates={"accuracy": [0.95] * COUNT},
        slices={"site=north": {"accuracy": 0.8}, "site=<b>|": {"accuracy": 0.5}},
    )
    theirs = evaluation(
        {"accuracy": 0.9, "loss": 0.1},
        replicates={"accuracy": [0.9] * COUNT},
        slices={"site=north": {"accuracy": 0.7}, "site=<b>|": {"accuracy": 0.6}},
    )
    conditions = Policy(floors='{"accuracy": 0.97}', budgets='{"loss": 0.2}')
    decided = decide(ours, Champion(version=3, content_hash="b" * 64, evaluation=theirs), conditions)
    write(decided, tmp_path / "new" / "decision", ABOUT)
    found = json.loads((tmp_path / "new" / "decision" / "decision.json").read_bytes())
    assert found["format"] == 1 and found["verdict"] == "below floors"
    assert found["candidate"]["metrics"]["accuracy"] == {"value": 0.95, "bound": 0.0, "higher_is_better": True}
    assert (found["champion"]["version"], found["champion"]["metrics"]["loss"]["value"]) == (3, 0.1)
    difference = found["difference"]
    assert [difference[name] for name in ("value", "low", "high")] == pytest.approx([0.05] * 3)
    assert (difference["confidence"], difference["method"]) == (0.95, "t and Hall on replicates")
    assert found["floors"] == [
        {
            **{"metric": "accuracy", "slice": None, "least": 0.97, "value": 0.95, "bound": 0.0},
            **{"higher_is_better": True, "met": False, "sure": None},
        }
    ]
    assert found["regressions"][0] == {
        **{"metric": "loss", "slice": None, "difference": 0.1, "loss": 0.1, "budget": 0.2, "within": True},
        **{"chance": None, "samples": 360, "at_most": None, "could_rule_out": None},
    }
    assert {each["slice"] for each in found["differences"]} == {None, "site=north", "site=<b>|"}
    slices = [{"name": "site=north", "samples": 40}, {"name": "site=<b>|", "samples": 40}]
    assert found["data"] == {"content_hash": "d" * 64, "rows": 360, "slices": slices}
    assert (found["already_registered"], found["anchor"]) == (None, None)
    page = (tmp_path / "new" / "decision" / "decision.md").read_text().splitlines()
    assert page[0] == "# Do not register the candidate in digits: it is below a floor"
    assert page[2] == "- accuracy is 0.9500; at least 0.9700 is required."
    assert "| **accuracy** | 0.9500 | 0.9000 | +0.0500 | +0.0500 to +0.0500 | better |" in page
    assert "| accuracy | at least 0.9700 | 0.9500 | **not met** |" in page
    assert "| loss | 0.2000 | +0.1000 |  | 360 |  |  | kept |" in page
    assert "| site=\\<b\\>\\| | 40 | 0.5000 | 0.6000 | -0.1000 |  |" in page
    assert not any(line.startswith("| site=north") for line in page)  # it got better


def test_titles(evaluation: Make, tmp_path: Path) -> None:
    ours, theirs = evaluation({"accuracy": 0.95}), evaluation({"accuracy": 0.9})
    held = Champion(version=3, content_hash="b" * 64, evaluation=theirs)
    for decided, title in (
        (decide(ours, None, Policy()), "Register the candidate in digits: there is no champion yet"),
        (decide(ours, held, Policy()), "Register the candidate in digits: it beats version 3"),
        (decide(theirs, held, Policy()), "Keep version 3 of digits"),
        (
            decide(theirs, held, Policy(rule="not_worse")),
            "Register the candidate in digits: it is not worse than version 3",
        ),
        (
            decide(ours, None, Policy(), registered=Registered(version=2, status="Approved")),
            "Nothing to register in digits: the candidate is already version 2",
        ),
    ):
        write(decided, tmp_path, ABOUT)
        assert (tmp_path / "decision.md").read_text().splitlines()[0] == f"# {title}"


EVALUATION = {
    "num_samples": 10,
    "task": {"kind": "binary", "num_classes": 2, "class_names": []},
    "data": {"content_hash": "d" * 64, "rows": 10, "key": None},
    "model": {"content_hash": "c" * 64, "recipe": "mine", "step": 3},
    "settings": {"metrics": "accuracy", "mode": "histogram", "slices": ["site"], "batch_size": 5},
    "metrics": {"accuracy": {"value": 0.9, "bound": 0.0, "low": 0.8, "high": 1.0, "higher_is_better": True}},
    "undefined": {"auroc": "one class only"},
    "slices": [
        {"column": "site", "value": "north", "num_samples": 4, "metrics": {"accuracy": {"value": 1.0, "bound": 0}}}
    ],
    "bootstrap": {"replicates": 2, "seed": 5, "confidence": 0.95, "by": "row", "file": "bootstrap.json"},
}
BOOTSTRAP = {
    "metrics": {"accuracy": [0.9, None]},
    "slices": [{"column": "site", "value": "north", "metrics": {"accuracy": [1.0, 0.5]}}],
}


def report(folder: Path, **changes: object) -> Path:
    folder.mkdir()
    content = {**hashed({**EVALUATION, **changes}), **changes}
    (folder / "evaluation.json").write_text(json.dumps(content))
    (folder / "bootstrap.json").write_text(json.dumps(BOOTSTRAP))
    return folder


def test_a_report_is_read(tmp_path: Path) -> None:
    found = read_evaluation(report(tmp_path / "report"))
    assert (found.data_hash, found.rows, found.key, found.model_hash) == ("d" * 64, 10, None, "c" * 64)
    assert found.whole.metrics["accuracy"].low == 0.8
    assert found.whole.replicates == {"accuracy": (0.9, None)}
    assert found.groups["site=north"].replicates == {"accuracy": (1.0, 0.5)}
    assert found.whole.undefined == {"auroc": "one class only"}
    assert found.resampling is not None and (found.resampling.seed, found.resampling.by) == (5, "row")
    assert read_evaluation(report(tmp_path / "plain", bootstrap=None)).resampling is None


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"format": 1}, "has format 1; this version of drivetrain decides on format 2"),
        ({"data": {}}, "'rows' is missing"),
        ({"metrics": {"accuracy": {"value": True}}}, "is no finite number"),
        ({"metrics": {"accuracy": {"value": float("nan")}}}, "is not JSON: NaN is no finite number"),
        ({"bootstrap": {"replicates": 3, "seed": 5, "file": "bootstrap.json"}}, "accuracy has 2 of 3 replicates"),
        ({"bootstrap": {"replicates": 2, "seed": 5, "file": "gone.json"}}, "has no gone.json"),
        ({"bootstrap": {"seed": 5, "file": "bootstrap.json"}}, "'replicates' is missing"),
        ({"slices": [{"column": "site"}]}, "'value' is missing"),
    ],
)
def test_invalid_reports_are_refused(tmp_path: Path, changes: dict[str, object], part: str) -> None:
    with pytest.raises(InputError) as caught:
        read_evaluation(report(tmp_path / "report", **changes))
    assert part in str(caught.value)


def test_the_bounds_of_replicates_are_read(tmp_path: Path) -> None:
    folder = report(tmp_path / "report")
    (north,) = BOOTSTRAP["slices"]
    content = {**BOOTSTRAP, "bounds": {"accuracy": 0.25}, "slices": [{**north, "bounds": {}}]}
    (folder / "bootstrap.json").write_text(json.dumps(content))
    found = read_evaluation(folder)
    assert found.whole.bounds == {"accuracy": 0.25}
    assert found.groups["site=north"].bounds == {}
    (folder / "bootstrap.json").write_text(json.dumps({**content, "bounds": {"accuracy": -0.25}}))
    with pytest.raises(InputError, match=r"accuracy has the bound -0\.25"):
        read_evaluation(folder)


def test_exact_replicates_of_an_earlier_format_are_accepted(tmp_path: Path) -> None:
    assert read_evaluation(report(tmp_path / "exact")).whole.bounds == {}
    binned = {"auroc": {"value": 0.9, "bound": 0.001, "higher_is_better": True}}
    with pytest.raises(InputError, match=r"auroc to within 0\.001, but not how exact .* Evaluate the model again"):
        read_evaluation(report(tmp_path / "binned", metrics=binned))


def test_no_report(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no evaluation\.json\. Give the output `report` of evaluate"):
        read_evaluation(tmp_path)
    (tmp_path / "evaluation.json").write_bytes(b"\xff{")
    with pytest.raises(InputError, match="is not JSON"):
        read_evaluation(tmp_path)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.98611, "0.9861"),
        (0.0, "0"),
        (12.3456, "12.3456"),
        (1797, "1,797"),
        (0.00012, "0.00012"),
        (2e9, "2e+09"),
        (1.0, "1"),
    ],
)
def test_numbers_are_formatted_for_people(value: float, text: str) -> None:
    assert number(value) == text
    assert signed(value) == (f"+{text}" if value else text)
    assert signed(-value) == (f"-{text}" if value else text)


def test_percent() -> None:
    assert [percent(share) for share in (0.95, 0.995, 1.0, 1 / 3)] == ["95 %", "99.5 %", "100 %", "33.33 %"]
