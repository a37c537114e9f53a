"""The ready pipeline `monitoring` watches the approved model of churn: clean rows find nothing, shifted ones a drift,
labels that say worse a drop of quality, and the same look again tells nothing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import drivetrain as dt
from drivetrain.client.runs import Run
from drivetrain.decision.served_findings import DATA_DRIFT, QUALITY_DROP, Served, kept_findings
from drivetrain.pipelines.data.churn import table
from drivetrain.registry.registry import open_registry
from drivetrain.run_store.home import Home

pytestmark = pytest.mark.slow


def test_what_the_approved_model_serves_is_watched(tmp_path: Path) -> None:
    home = tmp_path / "home"
    registry = open_registry(f"local:{Home(home).ledger}")
    assert dt.run("churn", home=home, quiet=True, rounds=10).status == "Succeeded"

    def watch(**settings: Any) -> tuple[Run, Served]:
        run = dt.run("monitoring", home=home, quiet=True, **settings)
        return run, kept_findings(registry, "churn")

    unapproved, kept = watch()
    assert unapproved.status == "Failed" and "no version of churn is approved" in str(unapproved.reason)
    registry.set_status("churn", 1, "Approved")

    clean, kept = watch()
    assert clean.status == "Succeeded", clean.reason
    assert (clean.metrics["drift"], clean.metrics["check-served.rows"]) == (0, 3000)
    assert kept.findings == () and len(kept.looks) == 1

    served, labels = tmp_path / "served.csv", tmp_path / "labels.csv"
    names, *rows = [list(map(str, row)) for row in table()]
    draw = random.Random(1)
    for row in rows:
        row[names.index("complaints")] = str(int(row[names.index("complaints")]) + 2)
    served.write_text("\n".join(",".join(row[:-1]) for row in (names, *rows)))
    labels.write_text("\n".join(["customer,left", *(f"{row[0]},{draw.choice(('no', 'yes'))}" for row in rows[:900])]))
    shifted = {"served": str(served), "labels": str(labels), "label": "left"}
    bad, kept = watch(**shifted)
    assert bad.status == "Succeeded", bad.reason
    assert (bad.metrics["drift"], bad.metrics["quality_drop"], bad.metrics["labelled_share"]) == (1, 1, 0.3)
    assert bad.metrics["metric"] < 0.6 < 0.8 < bad.metrics["promised"]
    drift, drop = kept.findings
    assert (drift.kind, drift.version, drift.is_open) == (DATA_DRIFT, 1, True)
    assert set(drift.columns) == {"complaints", "predicted"} and drift.value is not None and drift.value > 0.5
    assert (drop.kind, drop.metric, drop.is_open) == (QUALITY_DROP, "auroc", True)
    assert drop.value == pytest.approx(bad.metrics["metric"]) and "surely worse by" in drop.why

    again, after = watch(**shifted)
    assert again.metrics["quality_drop"] == 1 and after == kept
