"""What is said before a training of the losses that the rows of a test set can show."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from drivetrain import Pipeline, step
from drivetrain.base.errors import SpecError
from drivetrain.cli.deployed.plan import planned
from drivetrain.components.compare import compare
from drivetrain.components.evaluate import evaluate
from drivetrain.data.manifest import Column, Manifest, Shard
from drivetrain.decision.policy import Policy
from drivetrain.deploying.plan import Origin, Plan
from drivetrain.operations.deployment import DeploymentRequest
from drivetrain.operations.planned_decisions import LOST, WON, level_within, notes, rows_that_find, share_found
from drivetrain.registry.model_card import as_package_card, model_card
from drivetrain.registry.package_mapping import record_of
from drivetrain.registry.registry import open_registry
from drivetrain.spec.deployment import Deployment
from drivetrain.targets.target import AsksRegistry, find_target

SITES = {"north": 50, "south": 3000}


def pipeline(data: str = "s3://bucket/test", **given: Any) -> Pipeline:
    scores = step(evaluate, model="s3://bucket/model", data=data, slices="site")
    compared = step(compare, evaluation=scores["report"], model="s3://bucket/model", data=data, group="digits", **given)
    return Pipeline(name="nightly", steps=[scores, compared])


def prepared(folder: Path) -> None:
    (folder / "0.parquet").write_bytes(b"x")
    values = [{"value": name, "rows": rows} for name, rows in SITES.items()]
    Manifest(
        key="id",
        label="label",
        schema=(Column("id", "int64"),),
        shards=(Shard("0.parquet", sum(SITES.values()), 1, "0" * 64),),
        statistics={"site": {"values": values}, "label": {"values": [{"value": 0, "rows": 5}]}},
    ).write(folder / "manifest.json")


def test_a_pipeline_without_budgets_has_no_notes(tmp_path: Path) -> None:
    assert notes(pipeline(), tmp_path, f"local:{tmp_path}/models.db") == []


def test_budgets_too_small_for_a_local_test_set_are_reported(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    prepared(tmp_path / "test")
    budgets = '{"accuracy@site=*": 0.02, "accuracy@*": 0.05, "auroc@site=north": 0.1}'
    _, first, warning, unknown = notes(pipeline("test", budgets=budgets, budget_rule="proven"), tmp_path, None)
    assert first == (
        "compare: losses that can be ruled out on the test set (test): accuracy (site=north) (50 rows) 0.1001, budget "
        "0.0200; accuracy (site=south) (3,000 rows) 0.0095, budget 0.0200; accuracy (site=north) (50 rows) 0.1001, "
        "budget 0.0500; accuracy (site=south) (3,000 rows) 0.0095, budget 0.0500."
    )
    assert (
        "warning: 2 budgets of 5 can hardly be proven. Of those that are known all hold in 3.6 % of cases for"
        in warning
    )
    assert unknown == "compare: what can be ruled out is not known for auroc (site=north)."
    _, _, warning, _ = notes(pipeline("test", budgets=budgets), tmp_path, None)
    assert "2 budgets of 5 may be exceeded unnoticed" in warning
    _, line = notes(pipeline("test", budgets='{"accuracy@site=south": 0.02}'), tmp_path, None)
    assert "warning" not in line


def test_the_rows_of_the_last_decision_in_the_registry(tmp_path: Path) -> None:
    place = f"local:{tmp_path}/models.db"
    budgets = '{"accuracy@site=north": 0.02, "recall@site=north": 0.02}'
    (line,) = notes(pipeline(budgets=budgets), tmp_path, place)
    assert line.startswith("compare: which losses its slices can show is not known: the test set is not on this")
    decision = {
        "verdict": "register",
        "data": {"rows": 3050, "slices": [{"name": f"site={name}", "samples": rows} for name, rows in SITES.items()]},
        "regressions": [
            {"metric": "recall", "slice": "site=north", "could_rule_out": 0.25, "samples": 20},
            {"metric": "loss", "slice": None, "could_rule_out": None},
        ],
    }
    package = record_of({"ModelCard": as_package_card(model_card(decision=json.loads(json.dumps(decision))))})
    open_registry(place).register("digits", "a" * 64, package)
    _, line, warning = notes(pipeline(budgets=budgets), tmp_path, place)
    assert "(that of version 1 of digits): accuracy (site=north) (50 rows) 0.1001, budget 0.0200;" in line
    assert "recall (site=north) (20 rows) 0.2500, budget 0.0200." in line and "2 budgets of 2" in warning


def test_an_unavailable_registry_is_reported(tmp_path: Path) -> None:
    (tmp_path / "models.db").write_text("x" * 4096)
    (line,) = notes(pipeline(budgets='{"accuracy": 0.02}'), tmp_path, f"local:{tmp_path}/models.db")
    assert "is not known: " in line and "is damaged or no SQLite file" in line


def test_invalid_budgets_are_reported_before_the_training() -> None:
    with pytest.raises(SpecError, match="Allowed: 0 or more"):
        pipeline(budgets='{"accuracy": -1}')


def test_a_plan_has_them_among_its_notes(tmp_path: Path) -> None:
    texts = dict.fromkeys(("target", "pipeline", "place", "state", "code", "definition_sha256", "storage"), "x")
    plan = Plan(**texts, action="none", num_steps=1, num_parameters=0, notes=("before",))
    deployer: Any = SimpleNamespace(plan=lambda *_: plan)
    asked = pipeline(budgets='{"accuracy": 0.02}')
    wanted = DeploymentRequest(deployer, None, Origin(), (), asked, tmp_path, f"local:{tmp_path}/models.db")
    made = planned(wanted, None, adopt=False)
    assert made.notes[0] == "before" and made.notes[1].startswith("compare: which losses its slices can show")
    here = "s3://acme/drivetrain-evidence/GROUP.npz"
    made = planned(DeploymentRequest(deployer, None, Origin(), (), pipeline(), tmp_path, None, here), None, adopt=False)
    assert made.notes[1:] == (f"compare: what the rows of each night say is kept in {here}.",)
    made = planned(DeploymentRequest(deployer, None, Origin()), None, adopt=False)
    assert made.notes == ("before",), "a definition as it came"


def test_targets_name_the_registry_that_steps_ask() -> None:
    deployment = Deployment()
    for name, expected, evidence in (
        ("sagemaker", "sagemaker:us-east-1", "s3://drivetrain-local/pipelines/drivetrain-evidence/GROUP.npz"),
        ("kubeflow", None, "drivetrain-evidence/GROUP.npz in the champion's bucket"),
    ):
        target = find_target(name)
        assert isinstance(target, AsksRegistry) and target.registry(deployment) == expected
        assert target.evidence(deployment) == evidence


def test_the_power_of_a_local_test_set(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    prepared(tmp_path / "test")
    (line,) = notes(pipeline("test"), tmp_path, None)
    assert line == (
        "compare: 3,050 test rows (test) find a gain of two points of accuracy (5 % of the rows won, 3 % lost) within "
        "14 nights in 95 % of cases."
    )
    (alone,) = notes(pipeline("test", nights="bonferroni"), tmp_path, None)
    assert "by a comparison in 61 % of cases; 4,8" in alone
    assert notes(pipeline("test", rule="not_worse"), tmp_path, None) == []


@pytest.mark.parametrize(("rows", "share"), [(357, 0.17), (2000, 0.81), (10_000, 1.0)])
def test_a_gain_of_two_points_is_found_within_14_nights_on_the_same_rows(rows: int, share: float) -> None:
    level = level_within(Policy())
    assert share_found(rows, level) == pytest.approx(share, abs=0.01)
    draws = np.random.default_rng(1).multinomial(rows, (WON, LOST, 1 - WON - LOST), 20_000)
    won, lost = draws[:, 0], draws[:, 1]
    found = (won - lost) / np.sqrt(won + lost) > NormalDist().inv_cdf(1 - level)
    assert found.mean() == pytest.approx(share, abs=0.03)


def test_the_planned_number_of_rows_finds_the_gain() -> None:
    for conditions in (Policy(), Policy(nights="bonferroni"), Policy(lines=12)):
        level = level_within(conditions)
        assert share_found(rows_that_find(level), level) == pytest.approx(0.9, abs=0.001)
