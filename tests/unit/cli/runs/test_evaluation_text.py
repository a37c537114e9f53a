"""Evaluations and decisions in the terminal: at the end of a run, and all of them."""

from __future__ import annotations

from typing import Any

from drivetrain.cli.outcome import as_json as run_as_json
from drivetrain.cli.outcome import summary
from drivetrain.cli.runs.evaluation_text import (
    as_json,
    decision_lines,
    evaluation_lines,
    evaluation_text,
    per_class_lines,
)
from drivetrain.telling.content import Measured, RunFacts
from drivetrain.telling.content.decision import decision
from drivetrain.telling.content.evaluation import EvaluationFacts, evaluation


def test_the_end_of_a_run_has_the_main_metrics_and_the_worst_slice(evaluation_json: dict[str, Any]) -> None:
    assert evaluation_lines(evaluation("evaluate", evaluation_json, {})) == [
        "evaluate: accuracy 0.9000 (0.8900 to 0.9100), f1_macro 0.8800 (0.8700 to 0.8900), auroc_macro 0.9700 ± 2e-06 "
        "(0.9600 to 0.9800), mae 12,346 (12,246 to 12,446), 1 more on 360 samples",
        "  auroc_macro: the scores are saturated: use mode=exact",
        "  worst of 3 slices: site=south accuracy 0.7100 (0.6800 to 0.7400), 40 samples",
    ]


def test_the_verdict_and_its_reasons(decision_json: dict[str, Any]) -> None:
    assert decision_lines(decision("compare", decision_json)) == [
        "compare: Register",
        "  accuracy is 0.9000 against 0.8500 of version 2.",
    ]
    decision_json["why"] = [f"reason {place}" for place in range(9)]
    assert decision_lines(decision("", decision_json))[-2:] == ["  reason 5", "  and 3 more reasons"]
    decision_json["why"] = []
    assert decision_lines(decision("", decision_json)) == [
        "Register: accuracy 0.9000 against 0.8500 of version 2, +0.05 (95 % interval +0.02 to +0.08)."
    ]


def test_missing_facts_are_not_shown() -> None:
    assert evaluation_lines(evaluation("e", {}, {})) == ["e: nothing measured"]
    broken = EvaluationFacts(step="e", problem="evaluation.json is no JSON")
    assert evaluation_lines(broken) == ["e: cannot be shown, its evaluation.json is no JSON"]
    assert evaluation_text(broken) == "e: cannot be shown, its evaluation.json is no JSON"
    assert evaluation_text(evaluation("e", {}, {})) == ""


def test_terminal_commands_are_escaped(evaluation_json: dict[str, Any], decision_json: dict[str, Any]) -> None:
    bad = "\x1b[31mred\x07"
    evaluation_json["metrics"] = {bad: {"value": 1, "advice": bad}}
    evaluation_json |= {"slices": [{"column": bad, "value": bad, "metrics": {bad: 1}}], "undefined": {bad: bad}}
    decision_json |= {"why": [bad], "verdict": bad, "metric": bad}
    found, decided = evaluation(bad, evaluation_json, {}), decision(bad, decision_json)
    for text in (*evaluation_lines(found), evaluation_text(found), *decision_lines(decided)):
        assert "\x1b" not in text and "\x07" not in text
    assert "[31mred" in evaluation_text(found)


def test_all_of_it(evaluation_json: dict[str, Any]) -> None:
    blocks = evaluation_text(evaluation("evaluate", evaluation_json, {})).split("\n\n")
    assert blocks[0].startswith("360 samples, each counted once;")
    lines = [block.splitlines() for block in blocks]
    assert lines[1][0].split() == ["METRIC", "VALUE", "95", "%", "INTERVAL", "BETTER", "ADVICE"]
    assert lines[1][-1].split() == ["loss", "0.2500", "0.2000", "to", "0.3000", "lower"]
    assert lines[2][1].split() == ["cat", "0.8500", "0.9900", "±", "2e-06"]
    assert lines[3][0].split() == ["SLICE", "SAMPLES", "ACCURACY", "LOSS"]
    assert lines[3][1].startswith("site=south  40       0.7100 (0.6800 to 0.7400)")
    assert lines[4] == ["not defined on these samples", "  auroc_class_7: no sample of class 7"]


def test_many_slices_are_cut(evaluation_json: dict[str, Any]) -> None:
    one = evaluation_json["slices"][0]
    evaluation_json["slices"] = [{**one, "value": str(place)} for place in range(100)]
    assert "… 40 more (--json has them)" in evaluation_text(evaluation("e", evaluation_json, {}))


def test_classes_are_summed_up() -> None:
    assert list(per_class_lines({"accuracy": 1.0, "f1_class_a": 0.5, "f1_class_b": 0.25})) == [
        "f1 of 2 classes: 0.2500 (b) to 0.5000 (a)"
    ]


def test_the_summary_of_a_run(evaluation_json: dict[str, Any], decision_json: dict[str, Any]) -> None:
    run = RunFacts(
        id="e-1", pipeline="nightly", status="Succeeded", started=1.0, ended=2.0,
        measured=(Measured(step="evaluate", numbers={"accuracy_bound": 0.0}), Measured(step="other", numbers={"n": 3})),
        evaluations=(evaluation("evaluate", evaluation_json, {"c": {"x": [1], "y": [1]}}),),
        decisions=(decision("compare", decision_json),),
    )  # fmt: skip
    lines = summary(run, None).splitlines()
    starts = [line.split(":")[0] for line in lines if line and not line.startswith(" ")]
    assert starts[1:] == ["evaluate", "compare", "other"]
    said = run_as_json(run)
    assert said["decisions"][0]["verdict"] == "register"
    assert said["evaluations"][0]["measures"]["accuracy"]["low"] == 0.89
    assert said["evaluations"][0]["curves"] == () and as_json(run.evaluations[0]) == said["evaluations"][0]
