"""What comes of a rule that fires: in TensorBoard, in a step's metric and a gate's condition, on a version's card."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Cluster, Pipeline, fail, step, when
from drivetrain.components.train import train
from drivetrain.registry.model_card import model_card
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.training.health.cadence import Cadence
from drivetrain.training.health.flight import FlightRecorder
from drivetrain.training.health.record import Record
from drivetrain.training.health.rule import Finding, load_rules, see
from drivetrain.training.health.summary import Summary
from tests.fixtures import tiny_data
from tests.fixtures.faulty_recipe import config_of, run


@pytest.fixture(scope="module")
def unhealthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training with dead layers, whose rule is to fail it."""
    folder = tmp_path_factory.mktemp("unhealthy")
    data = tiny_data.write("prepared", folder / "data", rows=64)
    rules = '{"dead_activations": {"action": "fail"}}'
    assert run(config_of("dead_activations", health_rules=rules, max_steps=6), data, folder) == ""
    return folder


def test_tensorboard_has_a_tag_a_rule_and_what_is_watched(unhealthy: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(unhealthy / "output/tensorboard"), size_guidance={"scalars": 0})
    found.Reload()
    tags = set(found.Tags()["scalars"])
    assert {"health/dead_activations", "health/healthy", "health/gradient_norm", "health/most_zeros"} <= tags
    assert [event.step for event in found.Scalars("health/dead_activations")] == [3]
    assert [event.value for event in found.Scalars("health/healthy")][-1] == 0.0


def test_the_card_of_a_version_says_which_rule_failed_the_training(unhealthy: Path) -> None:
    model = json.loads((unhealthy / "model/model.json").read_text())
    said = model_card(model=model)["training_details"]["training_observations"]
    assert re.search(r" Health rule dead_activations: 100% of the outputs of ", said), said


def test_the_cost_of_health_rules_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the flight recorder takes a millisecond; as much again is for the marks of a step."""
    told, add, recorded = list[float](), FlightRecorder.add, Cadence.recorded

    def slowly(recorder: FlightRecorder, *row: float) -> None:
        end = time.perf_counter() + 1e-3
        while time.perf_counter() < end:
            pass
        add(recorder, *row)

    def noted(cadence: Cadence, *given: Any, **named: Any) -> None:
        told.append(named["idle"])
        recorded(cadence, *given, **named)

    monkeypatch.setattr(FlightRecorder, "add", slowly)
    monkeypatch.setattr(Cadence, "recorded", noted)
    data = tiny_data.write("prepared", tmp_path / "data", rows=64)
    assert run(config_of("", max_steps=6), data, tmp_path) == ""
    assert len(told) == 6 and min(told) >= 2e-3


@pytest.mark.parametrize(("action", "healthy"), [("warn", "1"), ("fail", "0"), ("stop", "0")])
def test_the_metric_is_read_from_what_the_training_prints(action: str, healthy: str) -> None:
    summary = Summary([])
    summary.add(Finding("overfitting", 3, action, "it does", last_step=3))  # type: ignore[arg-type]
    pattern = dict(step(train, train="s3://bucket/a", cluster=Cluster(instance_type="ml.m5.large")).logs)["healthy"]
    found = re.search(pattern, summary.describe(0.01))
    assert found is not None and found[1] == healthy


@pytest.mark.parametrize(("now", "found"), [('{"action": "fail"}', "fail"), ('"off"', None), ('{"steps": 9}', "fail")])
def test_a_later_start_judges_what_was_found_before_by_the_actions_of_now(now: str, found: str | None) -> None:
    before, later = Summary([]), Summary(load_rules(f'{{"loss_not_decreasing": {now}}}'))
    before.add(Finding("loss_not_decreasing", 30, "warn", "it does not"))
    later.load_state(json.loads(json.dumps(before.state())))
    kept = later.findings.get("loss_not_decreasing")
    assert later.is_healthy is (found is None)
    assert (kept and (kept.action, kept.step, kept.text)) == (found and (found, 30, "it does not"))


def test_a_later_start_knows_how_the_training_began() -> None:
    """By way of a checkpoint's state.json; one that is not what a rule writes changes nothing."""
    before, later = ({rule.name: rule for rule in load_rules("{}")} for _ in range(2))
    for taken in range(1, 60):
        see([before["loss_not_decreasing"]], Record(step=taken, steps=1, loss=2.0 if taken < 40 else 1.0))
    saved = json.loads(json.dumps(Summary(list(before.values())).state(), allow_nan=False))
    summary = Summary(list(later.values()))
    summary.load_state(saved | {"health_rules": saved["health_rules"] | {"overfitting": {"_best": "no"}, "gone": {}}})
    for taken in range(60, 400):
        see([later["loss_not_decreasing"]], Record(step=taken, steps=1, loss=1.0))
    assert summary.state() == saved
    assert saved["health_rules"]["loss_not_decreasing"]["_first"] == [2.0, 20]


def test_a_gate_asks_for_the_metric() -> None:
    trained = step(train, name="train", train="s3://bucket/a", cluster=Cluster(instance_type="ml.m5.large"))
    gate = when(trained.logged("healthy").equals(1), then=[], otherwise=[fail("not healthy")], name="gate")
    compiled = compile_pipeline(Pipeline(name="gated", steps=[trained, gate]))
    _, condition = compiled.definition["Steps"]
    (asked,) = condition["Arguments"]["Conditions"]
    assert asked == {
        "Type": "Equals",
        "LeftValue": {"Get": "Steps.train.FinalMetricDataList['healthy'].Value"},
        "RightValue": 1,
    }
