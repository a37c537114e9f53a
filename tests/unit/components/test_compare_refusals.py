"""On what compare decides nothing: seen data, groups that are not there, reports that were edited."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.report_hash import report_hash
from tests.fixtures.compared_models import Place, accurate, stand_in, write_model, write_report


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What evaluate is called with; it finds an accuracy of 0.8."""
    return accurate(monkeypatch)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"trained_on": True}, "The model was trained on this very test set."),
        ({"shared_keys": {"keys": 1, "compared": 40, "share": 1.0}}, "1 key of the test set is in the training data"),
        (
            {"trained_on": False, "shared_keys": {"keys": 12, "compared": 1512, "share": 0.14}},
            "12 keys of the test set, of the 1,512 that were compared, are in the training data, too.",
        ),
        (
            {"shared_calibration_keys": {"keys": 3, "compared": 9, "share": 1.0}},
            "3 keys of the test set are in the cal",
        ),
        ({"leakage": {"rows": 12, "groups": {}}}, "12 rows of the test set are in the training data, too, but for"),
        (
            {"leakage": {"rows": 0, "groups": {"user": 1}}},
            "1 value of user is in the test set and in the training",
        ),
    ],
)
def test_a_test_set_seen_in_training_is_refused(
    data: dict[str, Any], said: str, place: Place, evaluations: list[dict[str, Any]]
) -> None:
    write_report(place.report, 0.9, content_hash(place.model), **data)
    assert said in place.refused() and "seen_data=report" in place.refused()
    assert "seen_data='ignore'. Allowed: refuse, report." in place.refused(seen_data="ignore")
    assert place.compare(seen_data="report")["register"] == 1
    assert place.decided["why"][0] == place.decided["seen"][0] and said in place.decided["why"][0]
    assert said in (place.folder / "decision" / "decision.md").read_text()
    nothing = {"leakage": {"rows": 0, "groups": {}}, "shared_keys": {"keys": 0, "compared": 9, "share": 1.0}}
    write_report(place.report, 0.9, content_hash(place.model), trained_on=False, **nothing)
    assert place.compare()["register"] == 1 and place.decided["seen"] == []


def test_a_test_set_seen_by_the_champion_is_reported(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate(model: Path, data: Path, report: Path, **settings: Any) -> None:
        write_report(report, 0.8, content_hash(model), trained_on=True)

    stand_in(monkeypatch, evaluate)
    place.register(write_model(place.folder / "old", "old"), approved=True)
    assert "Version 1: The model was trained on this very test set." in place.compare()["why"]


def test_a_mistyped_group_or_registry_is_not_a_first_night(
    place: Place, evaluations: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry that was named has to have the group; the platform's own may be empty."""
    mistyped = f"local:{place.folder}/home/ledgr.db"
    assert "ledgr.db (there is no such file) has no group 'digits'" in place.refused(first=False, registry=mistyped)
    monkeypatch.setenv("DRIVETRAIN_REGISTRY", place.registry)
    assert place.compare(first=False, registry="auto")["register"] == 1, "nothing is registered anywhere"
    place.register(write_model(place.folder / "old", "old"), approved=True)
    shutil.rmtree(place.folder / "decision")
    said = place.refused(first=False, registry="auto", group="digist")
    assert "has no group 'digist'. Did you mean 'digits'? Allowed: digits." in said and "first=true" in said
    assert place.compare(first=True, group="letters")["has_champion"] == 0
    assert place.compare(first=False)["has_champion"] == 1


def test_an_edited_report_is_refused(place: Place, evaluations: list[dict[str, Any]]) -> None:
    file = place.report / "evaluation.json"
    whole = json.loads(file.read_bytes())
    whole |= {"parts": {"bootstrap.json": hashlib.sha256((place.report / "bootstrap.json").read_bytes()).hexdigest()}}
    whole["report_hash"] = report_hash(whole)
    file.write_text(json.dumps(whole))
    found = place.compare()
    assert found["report_hash"] == place.decided["report"] == whole["report_hash"] and found["champion"] == "none"
    shutil.rmtree(place.folder / "decision")
    whole["metrics"]["accuracy"]["value"] = 0.99
    file.write_text(json.dumps(whole))
    assert f"{file} was changed after evaluate wrote it" in place.refused()
    write_report(place.report, 0.9, content_hash(place.model))
    (place.report / "bootstrap.json").write_text(json.dumps({"metrics": {"accuracy": [0.99] * 100}, "slices": []}))
    whole["metrics"]["accuracy"]["value"] = 0.9
    file.write_text(json.dumps(whole))
    assert "bootstrap.json was changed after evaluate wrote it" in place.refused()
