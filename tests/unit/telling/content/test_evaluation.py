"""What is read out of the files of an evaluation."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from drivetrain.telling.content.evaluation import (
    EvaluationFacts,
    evaluation,
    how,
    interval_words,
    measures,
    read_evaluation,
    value_words,
    worst_slices,
)
from drivetrain.telling.content.plotted import PlottedCurve, PlottedMatrix
from drivetrain.telling.page.evaluation_section import evaluation_page, evaluation_section


def test_the_facts_of_the_file_are_read(findings: Callable[..., Path]) -> None:
    found = read_evaluation("evaluate", findings() / "report")
    assert found is not None and found.step == "evaluate" and found.problem == ""
    assert found.num_samples == found.rows == found.counted == 360 and found.collectives == 1
    accuracy = found.measures["accuracy"]
    assert (accuracy.value, accuracy.interval, accuracy.higher_is_better) == (0.9, (0.89, 0.91), True)
    assert found.measures["auroc_macro"].bound == 2e-6 and "mode=exact" in found.measures["auroc_macro"].advice
    assert found.undefined == {"auroc_class_7": "no sample of class 7"}
    assert [one.value for one in found.slices] == ["north", "south", "east"] and found.num_slices == 3
    assert found.slices[0].undefined == {"f1_macro": "one class only"}
    assert [one.name for one in found.curves] == [
        "roc_curve_class_0", "roc_curve_class_1", "roc_curve_class_2", "calibration_error", "confusion_matrix",
    ]  # fmt: skip
    assert isinstance(found.curves[0], PlottedCurve) and isinstance(found.curves[-1], PlottedMatrix)
    assert found.settings["slices"] == "site" and found.model["step"] == "460"


def test_common_metrics_come_first_and_classes_are_separate(evaluation_json: dict[str, Any]) -> None:
    found = evaluation("e", evaluation_json, {})
    assert [one.name for one in found.overall()] == ["accuracy", "f1_macro", "auroc_macro", "mae", "loss"]
    assert list(found.by_class()) == ["f1", "auroc"] and list(found.by_class()["f1"]) == ["0", "1", "2"]
    assert [found.class_name(each) for each in ("0", "2", "7", "owl", "²")] == ["cat", "owl", "7", "owl", "²"]


def test_the_origin_of_an_evaluation_is_one_line(evaluation_json: dict[str, Any]) -> None:
    assert how(evaluation("e", evaluation_json, {})) == (
        "360 samples, each counted once; 1 collective for the metrics on 2 processes (ddp); 95 % intervals, exact or "
        "from 200 bootstrap replicates by id; curves in histogram mode; model digits_cnn of step 460."
    )
    evaluation_json["coverage"]["counted"] = 358
    assert "360 samples of 360, 358 counted;" in how(evaluation("e", evaluation_json, {}))
    assert how(EvaluationFacts(step="e")) == ""


def test_values_are_written_with_their_bounds_and_intervals() -> None:
    found = measures({"a": {"value": 0.5, "bound": 2.1e-6, "low": 0.4, "high": 0.6}, "b": 3})
    assert value_words(found["a"]) == "0.5000 ± 2.1e-06" and interval_words(found["a"]) == "0.4000 to 0.6000"
    assert value_words(found["b"]) == "3.000" and interval_words(found["b"]) == ""


@pytest.mark.parametrize(
    "entry",
    [None, "0.9", {"value": "NaN"}, {"value": None}, {"value": 10**400}, {"value": True}, [], {}, {"bound": 1}],
)
def test_a_metric_without_a_number_is_left_out(entry: object) -> None:
    assert measures({"a": entry, "b": 1}).keys() == {"b"}


def test_invalid_intervals_bounds_and_directions_are_ignored() -> None:
    found = measures(
        {
            "turned": {"value": 1, "low": 2, "high": 0},
            "half": {"value": 1, "low": 0},
            "odd": {"value": 1, "bound": -1, "higher_is_better": "yes", "advice": ["x"], "more": {"of": "it"}},
        }
    )
    assert [one.interval for one in found.values()] == [None, None, None]
    assert found["odd"].bound == 0 and found["odd"].higher_is_better is None and found["odd"].advice == ""


@pytest.mark.parametrize(
    "content",
    [
        '{"regression_metrics": {"mse": {"value": 1}}}',  # the shape of SageMaker's examples
        '{"format": 1}',
        '{"metrics": {"a": 1}}',
        '{"format": "one", "metrics": {}}',
    ],
)
def test_foreign_evaluation_files_are_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / "evaluation.json").write_text(content)
    assert read_evaluation("e", tmp_path) is None
    assert read_evaluation("e", tmp_path / "nowhere") is None


def test_later_formats_and_unknown_fields_are_tolerated(evaluation_json: dict[str, Any]) -> None:
    evaluation_json |= {"format": 9, "novelty": {"x": 1}, "task": "binary", "slices": {"a": 1}, "bootstrap": None}
    evaluation_json |= {"coverage": [1], "settings": {"processes": {"a": 1}}, "undefined": ["x"], "model": None}
    found = evaluation("e", evaluation_json, {"roc": 3, "pr": {"x": 1, "y": 2}, "m": {"cells": [[1], [1, 2]]}})
    assert found.measures["accuracy"].value == 0.9
    assert (found.slices, found.curves, found.replicates, found.rows, found.kind) == ((), (), None, None, "")


def test_a_torn_file_is_a_problem_and_torn_curves_leave_the_rest(findings: Callable[..., Path]) -> None:
    folder = findings() / "report"
    (folder / "curves.json").write_text("{")
    found = read_evaluation("e", folder)
    assert found is not None and found.problem == "curves.json is no JSON" and "accuracy" in found.measures
    (folder / "evaluation.json").write_text('{"format": 1, "metr')
    found = read_evaluation("e", folder)
    assert found is not None and found.problem == "evaluation.json is no JSON" and not found.measures


def test_the_worst_slices_come_first_in_the_direction_that_is_worse(evaluation_json: dict[str, Any]) -> None:
    found = evaluation("e", evaluation_json, {})

    def order(higher: bool | None) -> list[str]:
        entry = {"value": 0.9, "higher_is_better": higher}
        return [one.value for one, _ in worst_slices(found.slices, measures({"accuracy": entry})["accuracy"])]

    assert order(True) == ["south", "east", "north"]
    assert order(False) == ["north", "east", "south"]
    assert order(None) == ["south", "north", "east"]
    assert worst_slices(found.slices, found.measures["f1_macro"]) == []


def test_entries_beyond_the_limit_are_counted(evaluation_json: dict[str, Any]) -> None:
    evaluation_json["slices"] = [{"column": "a", "value": str(place)} for place in range(5_000)]
    evaluation_json["metrics"] = {f"m{place}": 1 for place in range(20_000)}
    found = evaluation("e", evaluation_json, {str(place): {"x": [1], "y": [1]} for place in range(5_000)})
    assert (len(found.slices), found.num_slices, len(found.measures), len(found.curves)) == (1_000, 5_000, 5_000, 1_000)


THRESHOLD = {
    "kind": "threshold",
    "x": [0.0, 0.3, 1.0],
    "y": [0.5, 0.1, "torn"],
    "precision": [0.5, 0.9, 1.0],
    "recall": [1.0, 0.8, 0.0],
    "chosen": {"threshold": 0.3, "cost": 0.1, "false_positive": 1, "false_negative": 5.0, "true_positives": 8,
               "false_positives": 1, "true_negatives": 9, "false_negatives": 2},
    "at_half": {"threshold": 0.5, "cost": -1},
    "other_costs": [{}, None],
}  # fmt: skip


def test_threshold_selection_is_not_listed_among_the_curves(evaluation_json: dict[str, Any]) -> None:
    found = evaluation("e", evaluation_json, {"threshold": THRESHOLD})
    assert found.curves == () and found.threshold is not None
    assert found.threshold.points == ((0.0, 0.5, 0.5, 1.0), (0.3, 0.1, 0.9, 0.8))
    assert (found.threshold.chosen.false_negative_cost, found.threshold.chosen.false_negatives) == (5.0, 2)
    assert found.threshold.at_half is None and found.threshold.other_costs == ()
    page = str(evaluation_section(found))
    assert "Where a false positive costs 1 and a false negative 5, the cheapest threshold is 0.3000: 0.1000" in page
    assert evaluation("e", evaluation_json, {"threshold": {"kind": "threshold"}}).threshold is None


def test_the_worst_samples_are_listed_without_loading_their_files(evaluation_json: dict[str, Any]) -> None:
    picture = "data:image/png;base64,aGk="
    samples: list[Any] = [
        {
            "row": 4,
            "key": "<b>7",
            "loss": 3.5,
            "target": 0,
            "predicted": 2,
            "scores": [[2, 0.9], [0]],
            "image": picture,
        },
        {
            "row": 5,
            "key": "8",
            "loss": 1,
            "target": 9,
            "columns": {"site": "north", "ok": True},
            "image": "https://x/y",
        },
        {"row": -1, "loss": 3},
        {"row": 6, "loss": "much"},
        7,
    ]
    found = evaluation("e", evaluation_json, {}, worst={"key": "id", "samples": samples})
    first, second = found.worst
    assert (first.target, first.predicted, first.scores, first.picture) == ("cat", "owl", (("owl", 0.9),), picture)
    assert (second.target, second.columns, second.picture) == ("9", {"site": "north", "ok": "true"}, "")
    page = str(evaluation_section(found))
    assert "id &lt;b&gt;7" in page and "https://x/y" not in page and f'src="{picture}"' in page
    assert "gallery" not in page and "largest losses" not in str(
        evaluation_section(evaluation("e", evaluation_json, {}))
    )


def test_sliders_of_costs_are_the_only_script_and_the_policy_names_it(evaluation_json: dict[str, Any]) -> None:
    best = {"threshold": [0.9, 0.3, "x"], "true_positives": [1, 8, 9], "false_positives": [0, 1, 5]}
    found = evaluation("e", evaluation_json, {"threshold": {**THRESHOLD, "best_at_some_costs": best}})
    assert found.threshold is not None and found.threshold.corners == ((0.9, 1, 0), (0.3, 8, 1))
    page = evaluation_page("e", [found], [], written=0.0)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src &#x27;sha256-{digest}&#x27;;" in page and "form-action &#x27;none&#x27;" in page
    assert page.count('type="range"') == 2 and "Cheapest threshold 0.3: cost a sample 0.1, precision" in page
    without = evaluation_page("e", [evaluation("e", evaluation_json, {"threshold": THRESHOLD})], [], written=0.0)
    assert "<script" not in without and "script-src" not in without


def test_sentences_about_the_results_are_shown() -> None:
    said = ["demographic parity sex: taken for class 1 are 20.0% of sex=<f>.", 7]
    found = evaluation("e", {"format": 1, "metrics": {}, "notes": said}, {})
    assert found.notes[0] == said[0]
    assert "<p>demographic parity sex: taken for class 1 are 20.0% of sex=&lt;f&gt;.</p>" in str(
        evaluation_section(found)
    )
