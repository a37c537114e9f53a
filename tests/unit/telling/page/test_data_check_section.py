"""The page's section on a night's data, from the file that check_data writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from drivetrain.run_store.reader import Ledger
from drivetrain.telling.content.data_check import read_data_check, read_served_check, sentence
from drivetrain.telling.content.from_ledger import run_facts
from drivetrain.telling.page import render
from drivetrain.telling.page.data_check_section import draw
from tests.fixtures.local_runs import LocalRuns

FOUND: dict[str, Any] = {
    "format": 1,
    "verdict": "failed",
    "why": ["1 column failed: age.", "share of empty cells of age: 40 % tonight; the last 60 nights had 1 % to 2 %"],
    "night": "2026-11-30",
    "rows": 12034,
    "nights": 60,
    "alarms": [
        {"column": "age", "verdict": "failed", "sentence": "nulls <b>of age</b>", "since": "2026-11-28"},
        {"column": "price", "verdict": "warned", "sentence": "mean of price", "since": "2026-11-30"},
    ],
    "map": {
        "days": ["2026-11-28", "2026-11-29", "2026-11-30"],
        "columns": [
            {"column": "age", "verdict": "failed", "distances": [0.2, None, 31.0]},
            {"column": "price", "verdict": "warned", "distances": [1.1, 0.4, 5.0]},
        ],
    },
    "distributions": [
        {
            "column": "age",
            "names": ["0 to 10", "10 to 20"],
            "tonight": [0.9, 0.1],
            "other": [0.5, 0.5],
            "other_name": "version 3",
        }
    ],
    "method": ["60 statistics of 5 columns have bounds."],
}


def written(folder: Path, content: object) -> Path:
    (folder / "data_check.json").write_text(json.dumps(content))
    return folder


def test_alarms_nights_and_distributions_are_shown(tmp_path: Path) -> None:
    facts = read_data_check("check-data", written(tmp_path, FOUND))
    assert facts is not None and facts.tone == "bad" and sentence(facts) == "Data failed: 1 column failed: age."
    (page,) = draw([facts])
    for text in ("Night 2026-11-30, 12,034 rows, judged by 60 accepted nights before it.", "2026-11-28", "version 3"):
        assert text in page
    assert "nulls &lt;b&gt;of age&lt;/b&gt;" in page
    assert "age, 2026-11-29: not judged" in page and "price, 2026-11-30: 5.0 standard deviations" in page
    assert "0 to 10: 90.0 % tonight, 50.0 % version 3" in page


def test_a_file_of_another_form_is_left_out_or_said_to_be_unreadable(tmp_path: Path) -> None:
    assert read_data_check("check-data", written(tmp_path, {"verdict": "failed"})) is None
    (tmp_path / "data_check.json").write_text("{")
    facts = read_data_check("check-data", tmp_path)
    assert facts is not None and facts.tone == "bad" and "cannot be read" in draw([facts])[0]
    torn = {**FOUND, "map": 7, "distributions": [{"column": "age", "names": ["a"], "tonight": [1], "other": []}]}
    torn["alarms"] = [3, {"column": 5}]
    facts = read_data_check("check-data", written(tmp_path, torn))
    assert facts is not None and facts.columns == () and facts.distributions == () and len(draw([facts])) == 1


def test_the_report_that_a_failed_step_left_is_shown(tmp_path: Path) -> None:
    runs = LocalRuns(tmp_path)
    program = f"""
        import pathlib
        pathlib.Path("/opt/ml/processing/output/report/data_check.json").write_text({json.dumps(FOUND)!r})
        raise SystemExit("the data failed")
    """
    summary = runs.start([runs.processing("check", program, outputs=["report"])])
    with Ledger(runs.home) as ledger:
        facts = run_facts(ledger, summary.execution)
    assert summary.status == "Failed" and not facts.artifacts[1:], "only the code was read, and nothing written"
    assert [(one.step, one.verdict, one.night) for one in facts.data_checks] == [("check", "failed", "2026-11-30")]
    assert "judged by 60 accepted nights before it" in render(facts)


def test_served_rows_have_the_metric_of_each_look_beside_the_promise(tmp_path: Path) -> None:
    looks = [
        {
            "day": f"2026-11-{day}",
            "metric": "auroc",
            "value": 0.9 - day / 1000,
            "low": 0.8,
            "high": 0.95,
            "promised": 0.91,
        }
        for day in (28, 29, 30)
    ]
    found = {**FOUND, "verdict": "quality drop", "why": ["auroc dropped."], "map": {}, "looks": [{"day": "x"}, *looks]}
    (tmp_path / "served_check.json").write_text(json.dumps(found))
    facts = read_served_check("check-served", tmp_path)
    assert facts is not None and facts.tone == "bad" and sentence(facts) == "Served rows: quality drop. auroc dropped."
    (page,) = draw([facts])
    assert "Served rows" in page and "2026-11-30, 12,034 rows." in page and "accepted night" not in page
    assert "auroc by look: auroc from 0.8720 to 0.8700; promised from 0.9100 to 0.9100; at least from 0.8000" in page
    assert "0 to 10: 90.0 % served, 50.0 % version 3" in page
