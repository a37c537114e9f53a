"""Nights of data, judged before they are trained on, by each target's own runner: a clean one trains; served rows that
have drifted start the next; one whose unit changed is stopped and says why; the next goes on from the accepted
nights; and one with a few bad rows goes on without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivetrain.authoring.loading import load
from drivetrain.decision.data_nights import kept_history
from drivetrain.registry.registry import open_registry
from drivetrain.run_store.events import ignore
from drivetrain.run_store.home import Home
from drivetrain.serve.local_events import Watch
from drivetrain.targets.kubeflow import target as kubeflow
from drivetrain.targets.sagemaker import target as sagemaker
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from drivetrain.triggers.replay import replay
from tests.fixtures.target_results import results

pytestmark = pytest.mark.slow
PIPELINE = """
from drivetrain import DataDrift, Pipeline, register, step
from drivetrain.components.check_data import check_data
from drivetrain.components.check_served import check_served
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train_table import train_table

RULES = {
    "columns": {"price": {"min": {"is": 0, "then": "quarantine", "share": 0.1}}},
    "nights": {"columns": {"price": {"mean": {"fail": "x3"}}}},
}


def nights(rows: str = "0.csv", night: str = "2026-11-01") -> Pipeline:
    data = step(prepare_data, name="prepare", raw=rows, key="id", label="label", rules=RULES)
    sides = {side: data[side] for side in ("train", "validation", "test")}
    checked = step(check_data, name="check", **sides, group="nights", night=night, rules=RULES)
    model = step(
        train_table, name="train", train=data["train"], validation=data["validation"], estimator="xgboost", rounds=2,
        after=[checked],
    )
    made = register(model=model["model"], group="nights", approval="Approved")
    drift = DataDrift(name="drift", group="nights", columns=["price"])
    return Pipeline(name="nights", steps=[data, checked, model, made], triggers=[drift])


def looks(rows: str = "0.csv", night: str = "2026-11-01") -> Pipeline:
    data = step(prepare_data, raw=rows, key="id", label="label", validation_percent=0, test_percent=0)
    return Pipeline(name="looks", steps=[data, step(check_served, data=data["train"], group="nights", day=night)])
"""


def write_night(file: Path, night: int, scale: float = 1.0, shift: float = 0.0, bad: int = 0) -> None:
    random = np.random.default_rng(night)
    price = random.uniform(5, 10, 200) + shift
    label = (price > 7.5).astype(int)
    price = np.where(np.arange(200) < bad, -1, price * scale).round(3)
    rows = [f"{200 * night + row},{price[row]},{label[row]}" for row in range(200)]
    file.write_text("\n".join(["id,price,label", *rows]) + "\n")


@pytest.mark.parametrize("name", ["sagemaker", "kubeflow"])
def test_a_bad_night_is_not_trained_on_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    home = tmp_path / "home"

    def run(night: int, pipeline: str = "nights", **faults: Any) -> dict[str, Any]:
        write_night(tmp_path / f"{night}.csv", night, **faults)
        settings = [f"rows={night}.csv", f"night=2026-11-0{night + 1}"]
        if name == "kubeflow":
            settings.append("deployment.targets.kubeflow.checkpoint_claim=kept")
        loaded = load(f"{tmp_path / 'pipeline.py'}:{pipeline}", overrides=settings)
        target = kubeflow if name == "kubeflow" else sagemaker
        compiled = target.compile(loaded.pipeline, loaded.source, loaded.base, here=True)
        if name == "kubeflow":
            done = kubeflow.run(compiled, {}, home, ignore)
        else:
            done = Runner(Home(home)).start(compiled.text, {}, Options(pipeline=pipeline), assets=compiled.assets)
        return results(home, done.execution)

    clean = run(0)
    assert clean["status"] == "Succeeded" and clean["steps"]["train"][0] == "Succeeded", clean["reason"]
    registry = open_registry(f"local:{Home(home).ledger}")
    watch = Watch(registry, Home(home), ["nights"])
    triggered = load(f"{tmp_path / 'pipeline.py'}:nights").pipeline

    seen = run(1, "looks", shift=1.5)
    assert seen["status"] == "Succeeded" and seen["returned"]["check-served"]["drift"] == 1, seen["reason"]
    verdicts = [verdict for event in watch.events() for verdict in replay(triggered, event)]
    assert [verdict.trigger for verdict in verdicts if verdict.starts] == ["drift"]
    drifted = run(1, shift=1.5)
    assert drifted["status"] == "Succeeded" and drifted["steps"]["train"][0] == "Succeeded", drifted["reason"]
    bad = run(2, scale=1000)
    assert bad["status"] == "Failed" and bad["steps"]["train"][0] == "NotExecuted"
    assert "price failed. mean of price:" in bad["steps"]["check"][3] and "(limit x3 from" in bad["steps"]["check"][3]
    after = run(3, bad=6)
    assert after["status"] == "Succeeded" and after["steps"]["train"][0] == "Succeeded", after["reason"]
    numbers = after["returned"]["check"]
    assert (numbers["nights"], numbers["quarantined_rows"], numbers["rows"]) == (2, 6, 194)
    history = kept_history(registry, "nights")
    assert [day.day for day in history.days] == [1, 2, 4] and history.records[-1]["day"] == "2026-11-03"
