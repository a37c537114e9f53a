"""The sections of the page that tell of evaluations and decisions."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from drivetrain.telling.content.decision import decision
from drivetrain.telling.content.evaluation import EvaluationFacts, evaluation
from drivetrain.telling.page.decision_section import decision_section, verdict
from drivetrain.telling.page.evaluation_section import evaluation_page, evaluation_section

CANARY = '<script>alert("canary")</script>'


def parsed(markup: str) -> ElementTree.Element:
    return ElementTree.fromstring(markup)


def said(element: ElementTree.Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def of_class(element: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [one for one in element.iter() if name in (one.get("class") or "").split()]


def rows(table: ElementTree.Element) -> list[str]:
    return [said(row) for row in table.iter("tr")]


def section(found: dict[str, Any], curves: dict[str, Any] | None = None, lead: str = "") -> ElementTree.Element:
    return parsed(evaluation_section(evaluation("evaluate", found, curves or {}), lead))


def test_metrics_stand_with_bounds_intervals_and_advice(evaluation_json: dict[str, Any]) -> None:
    found = section(evaluation_json)
    table = of_class(found, "metrics")[0]
    assert rows(table)[0] == "metric value 95 % interval"
    assert rows(table)[1] == "Higher is better 0.85 to 1.00"
    assert [row.split(" 0.")[0] for row in rows(table)[2:5]] == [
        "accuracy",
        "f1 macro",
        "auroc macro the scores are saturated: use mode=exact",
    ]
    assert "0.9700 ± 2e-06 0.9600 to 0.9800" in rows(table)[4]
    assert rows(table)[5] == "Lower is better each from 0"
    assert rows(table)[6].startswith("mae 12,346 12,246 to 12,446")
    assert len(of_class(table, "interval")) == 5
    values = {cell.text: cell.get("title") for cell in of_class(table, "right")}
    assert values["12,346"] == "12345.678", "the pointer shows all digits"


def test_metrics_are_grouped_by_their_own_direction(evaluation_json: dict[str, Any]) -> None:
    """An area whose interval leaves [0, 1], or whose evaluation does not say which way it is better."""
    evaluation_json["metrics"]["auroc_macro"]["high"] = 1.01
    evaluation_json["metrics"]["f1_macro"].pop("higher_is_better")
    groups: dict[str, list[str]] = {}
    for row in rows(of_class(section(evaluation_json), "metrics")[0])[1:]:
        if " is better" in row or row.startswith("No direction"):
            name = row.partition(" each from")[0].partition(" 0.")[0]
            groups[name] = []
        else:
            groups[name].append(row.split()[0])
    assert groups == {
        "Higher is better": ["accuracy"],
        "Higher is better, each on a scale of its own": ["auroc"],
        "Lower is better": ["mae", "loss"],
        "No direction is known to be better": ["f1"],
    }


def test_bars_of_intervals_lie_on_one_scale(evaluation_json: dict[str, Any]) -> None:
    table = of_class(section(evaluation_json), "metrics")[0]
    marks = [float(mark.attrib["cx"]) for mark in of_class(table, "mark")]
    spans = [float(bar.attrib["width"]) for bar in of_class(table, "span")]
    # accuracy 0.90, f1 0.88 and auroc 0.97 on a scale from 0.85 to 1, all intervals 0.02 wide.
    assert marks[1] < marks[0] < marks[2] and spans[0] == pytest.approx(spans[2], abs=0.2)


def test_without_a_bootstrap_there_is_no_interval(evaluation_json: dict[str, Any]) -> None:
    evaluation_json["bootstrap"] = None
    for entry in evaluation_json["metrics"].values():
        del entry["low"], entry["high"]
    table = of_class(section(evaluation_json), "metrics")[0]
    assert rows(table)[0] == "metric value" and of_class(table, "interval") == []


def test_slices_are_sorted_by_their_gap(evaluation_json: dict[str, Any]) -> None:
    found = section(evaluation_json)
    plots = {said(one.find("figcaption/b")): one for one in of_class(found, "curve") if of_class(one, "dots")}  # type: ignore[arg-type]
    assert list(plots) == ["f1 by class", "accuracy by site"]
    assert [one.text for one in of_class(plots["accuracy by site"], "label")] == ["south", "east", "north"]
    assert [one.text for one in of_class(plots["f1 by class"], "label")] == ["cat", "dog", "owl"]
    by_loss = section(evaluation_json, lead="loss")
    assert any(said(one) == "loss by site" for one in by_loss.iter("b"))
    (details,) = [one for one in found.iter("details") if "slices with all metrics" in said(one)]
    assert rows(details)[1].startswith("site = south 40 0.7100 –")
    reasons = [cell.get("title") for cell in of_class(details, "right") if cell.text == "–"]
    assert "one class only" in reasons


def test_classes_have_a_table_with_their_names(evaluation_json: dict[str, Any]) -> None:
    (details,) = [one for one in section(evaluation_json).iter("details") if "By class" in said(one)]
    assert rows(details) == ["class f1 auroc", "cat 0.8500 0.9900 ± 2e-06", "dog 0.8800 0.9700 ± 2e-06",
                             "owl 0.9100 0.9500 ± 2e-06"]  # fmt: skip


def test_undefined_metrics_are_shown_with_their_reason(evaluation_json: dict[str, Any]) -> None:
    (table,) = of_class(section(evaluation_json), "undefined")
    assert said(table) == "Not defined on these samples auroc class 7 no sample of class 7"
    evaluation_json["undefined"] = {f"auroc_class_{place}": "no sample" for place in range(40)}
    folded = [said(one) for one in section(evaluation_json).iter("summary")]
    assert "40 metrics are not defined on these samples" in folded


def test_curves_show_the_worst_classes_first(evaluation_json: dict[str, Any], curves_json: dict[str, Any]) -> None:
    found = section(evaluation_json, curves_json)
    legends = [[said(key) for key in of_class(figure, "legend")] for figure in of_class(found, "square")]
    assert legends == [["owl 0.9500", "dog 0.9700", "cat 0.9900"], ["calibration error"]]
    (sizes,) = [[float(dot.attrib["r"]) for dot in of_class(figure, "dot")]
                for figure in of_class(found, "square")[1:]]  # fmt: skip
    assert sizes == sorted(sizes) and sizes[0] < sizes[2]
    (confusions,) = of_class(found, "spent")
    assert rows(confusions) == [
        "dog taken for cat 5 of 120 4.2 %", "dog taken for owl 5 of 120 4.2 %", "cat taken for dog 2 of 120 1.7 %",
    ]  # fmt: skip
    curves_json |= {f"roc_curve_class_{each}": curves_json["roc_curve_class_0"] for each in range(3, 30)}
    legends = [[said(key) for key in of_class(figure, "legend")] for figure in of_class(
        section(evaluation_json, curves_json), "square")]  # fmt: skip
    assert legends[0] == ["owl 0.9500", "dog 0.9700", "cat 0.9900", "27 other classes"]


def test_plots_are_beside_the_table_when_they_fit(evaluation_json: dict[str, Any]) -> None:
    def plots() -> tuple[int, int]:
        found = section(evaluation_json)
        (beside,) = of_class(found, "beside")
        return len(of_class(beside, "dots")), len(of_class(found, "dots"))

    assert plots() == (1, 2)
    evaluation_json["metrics"] |= {f"m{place}": 0.5 for place in range(12)}
    assert plots() == (2, 2)
    evaluation_json["metrics"] = {"loss": 1.0}
    assert plots() == (1, 1)


def test_requested_options_are_shown(evaluation_json: dict[str, Any]) -> None:
    assert "Asked for" not in said(section(evaluation_json))
    evaluation_json["settings"]["metrics"] = "accuracy, top_k(k=3)"
    assert said(section(evaluation_json)).endswith("Asked for: accuracy, top_k(k=3).")


def test_a_file_that_cannot_be_read_is_one_line() -> None:
    broken = parsed(evaluation_section(EvaluationFacts(step="evaluate", problem="evaluation.json is no JSON")))
    assert broken.tag == "p" and said(broken) == (
        "The evaluation of evaluate cannot be shown: its evaluation.json is no JSON."
    )


def test_an_evaluation_without_anything_is_still_a_section() -> None:
    assert said(section({})) == ""
    assert said(section({"num_samples": 0, "metrics": {}, "slices": [{}], "coverage": {"rows": 0, "counted": 0}})) == (
        "0 samples, each counted once. 1 slice with all metrics slice samples = –"
    )


def poisoned(value: Any) -> Any:
    if isinstance(value, str):
        return CANARY + value
    if isinstance(value, list):
        return [poisoned(item) for item in value]
    if isinstance(value, dict):
        return {name: poisoned(item) for name, item in value.items()}
    return value


def named_badly(entries: dict[str, Any]) -> dict[str, Any]:
    return {CANARY + name: poisoned(entry) for name, entry in entries.items()}


def test_names_are_escaped(
    evaluation_json: dict[str, Any], curves_json: dict[str, Any], decision_json: dict[str, Any]
) -> None:
    bad = poisoned(evaluation_json)
    bad |= {"metrics": named_badly(evaluation_json["metrics"]), "undefined": {CANARY: CANARY}}
    for one in bad["slices"]:
        one["metrics"] = named_badly(one["metrics"])
    choice = poisoned(decision_json)
    choice["candidate"]["metrics"] = choice["champion"]["metrics"] = named_badly(decision_json["candidate"]["metrics"])
    choice["metric"] = CANARY + "accuracy"
    found, decided = evaluation(CANARY, bad, named_badly(curves_json)), decision(CANARY, choice)
    page = evaluation_page(CANARY, [found, found], [decided, decided], written=1.0)
    assert "<script" not in page.lower()
    assert page.count("&lt;script&gt;") > 100
    for part in (evaluation_section(found), decision_section(decided), verdict(decided)):
        assert not any(one.tag == "script" for one in parsed(part).iter())


HOSTILE = {
    "huge": {"value": 1e308, "low": -1e308, "high": 1e308, "higher_is_better": True},
    "tiny": {"value": 5e-324, "low": 0, "high": 5e-324, "higher_is_better": True},
    "text": {"value": "NaN", "low": "Infinity"},
    "integer": {"value": 10**30, "low": 10**29, "high": 10**400},
    "": {"value": 1},
    "x" * 5000: {"value": 0.5, "advice": "y" * 5000},
    "\u202eelif\x00": {"value": 0.5},
}


def test_hostile_numbers_and_names(evaluation_json: dict[str, Any], decision_json: dict[str, Any]) -> None:
    evaluation_json["metrics"] = {**HOSTILE, **{f"{name}_class_{name}": one for name, one in HOSTILE.items()}}
    evaluation_json["slices"] = [{"column": "a", "value": name, "metrics": HOSTILE} for name in HOSTILE]
    curves = {"a": {"x": [1e308, -1e308, 0.5], "y": ["NaN", 1e99, 0.5]}, "b": {"x": [], "y": []},
              "m": {"rows": ["a"], "columns": ["b"], "cells": [[-5]]}}  # fmt: skip
    for lead in HOSTILE:
        found = section(copy.deepcopy(evaluation_json), curves, lead)
        assert not re.search(r"\bnan\b|(?<!by )\binf\b", said(found)), said(found)
        assert "y" * 201 not in said(found) and "x" * 201 not in said(found)
    decision_json |= {"difference": HOSTILE["huge"], "metric": "huge", "differences": [
        {"metric": "huge", "slice": f"s={name}", **one} for name, one in HOSTILE.items()
    ]}  # fmt: skip
    decision_json["candidate"]["metrics"] = decision_json["champion"]["metrics"] = HOSTILE
    assert "huge" in said(parsed(decision_section(decision("c", decision_json))))


@pytest.mark.slow
def test_a_huge_evaluation_is_a_page_of_bounded_size(evaluation_json: dict[str, Any]) -> None:
    one = {"value": 0.5, "low": 0.4, "high": 0.6, "higher_is_better": True, "bound": 0.001}
    measures = {f"m{place}": one for place in range(2_000)}
    measures |= {f"f1_class_{place}": one for place in range(2_000)}
    evaluation_json["metrics"] = measures
    evaluation_json["slices"] = [
        {"column": f"c{place % 50}", "value": str(place), "metrics": {f"m{each}": one for each in range(10)}}
        for place in range(2_000)
    ]
    points = {"x": [place / 5_000 for place in range(5_000)], "y": [(place * 7 % 11) / 11 for place in range(5_000)]}
    curves = {f"c{place}": points for place in range(100)}
    curves["m"] = {"rows": list(range(1_000)), "columns": list(range(1_000)), "cells": [[1] * 1_000] * 1_000}
    markup = evaluation_section(evaluation("e", evaluation_json, curves))
    assert len(markup) < 3_000_000
    text = said(parsed(markup))
    for told in ("the worst 30 of 2,000", "The first 200 of 2,000 classes", "The first 300 of 2,000 slices",
                 "1,000 classes are too many", "1,984 more metrics, the first 300 of them"):  # fmt: skip
        assert told in text, told


def test_the_verdict_is_one_sentence_with_its_reason_in_front(decision_json: dict[str, Any]) -> None:
    found = parsed(verdict(decision("compare", decision_json)))
    assert found.get("class") == "verdict t-good" and said(found).startswith("Register: accuracy 0.9000 against")
    bold = found.find("b")
    assert bold is not None and bold.text == "Register:"


def test_the_champion_stands_beside_the_candidate(decision_json: dict[str, Any]) -> None:
    found = parsed(decision_section(decision("compare", decision_json)))
    tables = {said(table).split()[0]: rows(table) for table in of_class(found, "metrics")}
    assert tables["metric"] == [
        "metric candidate champion difference 95 % interval",
        "accuracy decides 0.9000 0.8500 +0.05 +0.02 to +0.08 better",
        "loss 0.2500 0.2000 +0.05 +0.01 to +0.09 worse",
    ]
    assert tables["Floors"] == ["metric value limit", "accuracy 0.9000 at least 0.8000 ✓ met",
                                "loss 0.2500 at most 0.3000 ✓ met"]  # fmt: skip
    assert tables["Regressions"] == [
        "metric difference worse by at most budget can rule out",
        "accuracy of site=south -0.03 – 0.04000 – ✓ within",
    ]
    assert [one.text for one in of_class(found, "label")] == ["all samples", "site=south", "site=east"]
    assert len(of_class(found, "limit")) == 1
    assert "Candidate against version 2 of digits" in said(found) and "the same 360 samples for both" in said(found)
    assert "accuracy is 0.9000 against 0.8500 of version 2." in said(found)


def test_broken_rules_come_first_and_are_marked(decision_json: dict[str, Any]) -> None:
    decision_json["floors"].append({"metric": "f1", "slice": None, "least": 0.9, "value": 0.8, "met": False})
    decision_json["regressions"][0]["within"] = False
    found = parsed(decision_section(decision("compare", decision_json)))
    assert [said(one) for one in of_class(found, "broken")] == ["✕ not met", "✕ beyond", "worse"]
    assert len(of_class(found, "bad")) == 1


def test_budgets_that_need_proof_are_marked(decision_json: dict[str, Any]) -> None:
    decision_json["regressions"][0] |= {"within": False, "at_most": 0.08, "could_rule_out": 0.1}
    decision_json |= {"rule": {"budget_rule": "proven"}, "anchor": {"version": 1, "difference": {"value": -0.01}}}
    found = parsed(decision_section(decision("compare", decision_json)))
    tables = {said(table).split()[0]: rows(table) for table in of_class(found, "metrics")}
    assert tables["Regressions"][1] == "accuracy of site=south -0.03 0.08000 0.04000 0.1000 ✕ not proven"
    assert "Candidate against version 2 of digits and version 1, the best approved one" in said(found)


def test_a_gain_within_the_error_bounds_is_not_called_better(decision_json: dict[str, Any]) -> None:
    """Of a record whose interval is without them, as earlier versions wrote it."""
    decision_json["difference"]["bound"] = 0.03
    del decision_json["difference"]["method"]
    found = parsed(decision_section(decision("compare", decision_json)))
    assert "accuracy decides 0.9000 0.8500 +0.05 +0.02 to +0.08" in rows(of_class(found, "metrics")[-1])


@pytest.mark.parametrize("verdict", ["keep champion", "below floors"])
def test_improvements_of_a_rejected_model_are_not_green(decision_json: dict[str, Any], verdict: str) -> None:
    promoted = parsed(decision_section(decision("compare", decision_json)))
    assert "better" in [said(one) for one in of_class(promoted, "held")]
    kept = parsed(decision_section(decision("compare", decision_json | {"verdict": verdict})))
    assert "better" not in [said(one) for one in of_class(kept, "held")] and "worse" in said(kept)


def test_a_first_version_has_no_champion_to_stand_beside(decision_json: dict[str, Any]) -> None:
    decision_json |= {"champion": None, "difference": None, "differences": [], "regressions": []}
    found = parsed(decision_section(decision("compare", decision_json)))
    assert rows(of_class(found, "metrics")[-1]) == ["metric candidate", "accuracy decides 0.9000", "loss 0.2500"]
    assert "Candidate against no champion of digits" in said(found) and of_class(found, "dots") == []


def test_the_page_of_an_evaluation_alone(findings: Callable[..., Path]) -> None:
    from drivetrain.telling.content.decision import read_decision
    from drivetrain.telling.content.evaluation import read_evaluation

    folder = findings()
    found, decided = read_evaluation("report", folder / "report"), read_decision("", folder / "decision")
    assert found is not None and decided is not None
    page = evaluation_page("Evaluation of build", [found], [decided], written=0.0)
    assert "default-src &#x27;none&#x27;" in page and page.count("<section") == 2
    assert page.index("Register:") < page.index("Decision</h2>") < page.index("Evaluation</h2>")
