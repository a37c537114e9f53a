"""The component around the decision: what it asks, fetches and runs, and what it says when that fails."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain.components.compare import compare
from drivetrain.data.manifest import Column, Manifest, Shard
from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.registry import open_registry
from tests.fixtures.compared_models import DATA, Place, accurate, stand_in, write_model, write_report


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What evaluate is called with; it finds an accuracy of 0.8."""
    return accurate(monkeypatch)


def test_the_declaration() -> None:
    assert compare.job == "processing" and not compare.cached
    assert set(compare.inputs) == {"evaluation", "model", "data", "champion_evaluation"} and set(compare.outputs) == {
        "decision"
    }
    assert {name for name, parameter in compare.parameters.items() if parameter.required} == {"group"}
    assert compare.metrics is not None and compare.texts == (
        *("verdict", "why", "champion", "report_hash", "content_hash", "data_hash", "test_data_hash"),
        *("config_hash", "code_hash"),
    )
    assert {"register", "floors_met", "better", "already_registered"} <= set(compare.metrics)
    assert "difference" not in compare.metrics, "without a champion there is none"


def test_without_a_champion_the_floors_decide_in_the_step(
    place: Place, evaluations: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    found = place.compare(floors='{"accuracy": 0.85}')
    assert (found["register"], found["floors_met"], found["has_champion"], found["champion_version"]) == (1, 1, 0, 0)
    assert found["content_hash"] == content_hash(place.model) and found["test_data_hash"] == DATA
    assert (found["data_hash"], found["config_hash"], found["code_hash"]) == ("f" * 64, "unknown", "unknown")
    assert "difference" not in found and evaluations == []
    assert (place.decided["verdict"], place.decided["champion"]) == ("register", None)
    assert "there is no champion yet" in (place.folder / "decision" / "decision.md").read_text()
    assert "No version of digits in the registry local is approved yet" in found["why"]
    assert f"champion of digits in {place.registry}: none\n" in capsys.readouterr().out
    assert str(place.folder) not in json.dumps(place.decided), "no path of this machine is on record"
    assert not any((place.folder / "home").iterdir()), "asking registers nothing"


def test_unapproved_versions_are_no_champion(place: Place, evaluations: list[dict[str, Any]]) -> None:
    place.register(write_model(place.folder / "old", "old"))
    assert place.compare()["register"] == 1 and evaluations == []
    assert place.compare(floors='{"accuracy": 0.95}')["register"] == 0
    assert place.decided["verdict"] == "below floors"


def test_the_champion_is_evaluated_like_the_candidate(place: Place, evaluations: list[dict[str, Any]]) -> None:
    old = write_model(place.folder / "old", "old")
    version = place.register(old, approved=True)
    found = place.compare()
    assert evaluations == [
        {
            **{"model": old, "data": place.data, "scoring": "accuracy, f1", "mode": "exact", "slices": "site,device"},
            **{"batch_size": 64, "strategy": "tp", "strategy_options": '{"tensor": 2}', "processes": 2},
            **{"bootstrap": 100, "seed": 5, "confidence": 0.9, "predictions": False},
        }
    ]
    assert (found["register"], found["better"], found["champion_version"]) == (1, 1, version)
    assert found["difference"] == pytest.approx(0.1) and 0.08 < found["low"] < 0.1 < found["high"] < 0.122
    assert found["verdict"] == "register" and "0.9000 against 0.8000 of version 1" in found["why"]
    assert place.decided["champion"]["content_hash"] == content_hash(old)
    assert place.decided["champion"]["metrics"]["accuracy"]["value"] == 0.8
    place.compare(processes=1)
    assert evaluations[-1]["processes"] == 1


def test_the_champion_stays(place: Place, evaluations: list[dict[str, Any]]) -> None:
    place.register(write_model(place.folder / "old", "old"), approved=True)
    write_report(place.report, 0.7, content_hash(place.model))
    found = place.compare()
    assert (found["register"], found["better"], found["floors_met"]) == (0, 0, 1)
    assert found["difference"] == pytest.approx(-0.1)
    assert place.decided["verdict"] == "keep champion"


def test_a_candidate_must_not_be_worse_than_the_best_approved_version(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here 0.95, approved before the champion, which has 0.9."""
    values: dict[str, float] = {}

    def evaluate(model: Path, data: Path, report: Path, **_: Any) -> None:
        write_report(report, values[(model / "weights").read_text()], content_hash(model))

    stand_in(monkeypatch, evaluate)
    rule: dict[str, Any] = {"rule": "not_worse", "margin": 0.04}
    for number, accuracy in enumerate((0.95, 0.9)):
        values[f"model {number}"] = accuracy
        best = write_model(place.folder / f"old {number}", f"model {number}")
        place.register(best, approved=True)
        assert place.compare(**rule)["champion_version"] == number + 1
    found = place.compare(**rule)
    assert (found["register"], found["better"]) == (0, 0) and "version 1, the best approved one" in found["why"]
    assert place.decided["anchor"]["version"] == 1
    assert place.decided["anchor"]["difference"]["value"] == pytest.approx(-0.05)
    assert "Best approved version: 1, content " in (place.folder / "decision" / "decision.md").read_text()
    assert place.compare(**rule, margin_from="champion")["register"] == 1
    shutil.rmtree(place.folder / "old 0")
    shutil.rmtree(place.folder / "decision")
    message = place.refused(**rule)
    assert message.startswith("the best approved version, version 1 of digits, cannot be compared with: ")
    assert message.endswith("reject that version: then an approved one before it is the best approved version.")


def test_comparisons_on_a_test_set_are_counted(place: Place, evaluations: list[dict[str, Any]]) -> None:
    place.register(write_model(place.folder / "old", "old"), approved=True)
    found = []
    for night in range(3):
        (place.model / "weights").write_text(f"night {night}")
        write_report(place.report, 0.9, content_hash(place.model))
        found.append(place.compare(nights="bonferroni", horizon=2))
    assert [(each["comparison"], each["register"]) for each in found] == [(1, 1), (2, 1), (3, 0)]
    assert place.compare(nights="bonferroni", horizon=2)["comparison"] == 3, "the step that is repeated"
    assert "Use a new test set" in place.decided["why"][-1] and place.decided["comparison"] == 3
    assert "comparison 3 on it" in (place.folder / "decision" / "decision.md").read_text()
    assert "comparison" not in place.compare(nights="bonferroni", horizon=1), "which corrects for nothing"


def test_registered_content_is_not_compared_again(place: Place, evaluations: list[dict[str, Any]]) -> None:
    place.register(write_model(place.folder / "old", "old"), approved=True)
    version = place.register(place.model)
    found = place.compare()
    assert (found["register"], found["already_registered"], found["verdict"]) == (0, version, "already registered")
    assert evaluations == [] and place.decided["already_registered"] == version
    assert found["champion_version"] == 1


def test_a_registered_version_whose_files_are_damaged_is_registered_again(
    place: Place, evaluations: list[dict[str, Any]]
) -> None:
    copy = place.folder / "copy"
    shutil.copytree(place.model, copy)
    version = place.register(copy)
    assert place.compare()["register"] == 0
    (copy / "weights").write_text("changed")
    found = place.compare()
    assert (found["register"], found["already_registered"]) == (1, version)


def test_auto_is_the_registry_of_the_platform(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    version = place.register(place.model)
    monkeypatch.setenv("DRIVETRAIN_REGISTRY", place.registry)
    assert place.compare(registry="auto")["already_registered"] == version
    assert place.decided["registry"] == "local", "and no path of this machine"


def test_a_registry_s_password_is_not_recorded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "mlflow:https://ada:secret@registry.example/path"
    local = open_registry(place.registry)
    monkeypatch.setattr("drivetrain.registry.registry.open_registry", lambda _: local)
    place.compare(registry=url)
    assert place.decided["registry"] == "mlflow:https://registry.example/path"
    assert "secret" not in (place.folder / "decision" / "decision.md").read_text()


def test_an_unavailable_registry_is_an_error(place: Place, evaluations: list[dict[str, Any]]) -> None:
    assert str(place.folder) in place.refused(registry=f"local:{place.folder}")
    (place.folder / "no database").write_text("x" * 4096)
    assert "is damaged or no SQLite file" in place.refused(registry=f"local:{place.folder}/no database")
    assert "unknown kind 'lokal'. Did you mean 'local'?" in place.refused(registry="lokal:x")


def test_a_champion_with_missing_or_changed_files(place: Place, evaluations: list[dict[str, Any]]) -> None:
    old = write_model(place.folder / "old", "old")
    place.register(old, approved=True)
    (old / "weights").write_text("changed")
    message = place.refused()
    assert message.startswith("the champion, version 1 of digits, cannot be compared with: ")
    assert "does not hold the files that were registered" in message and "reject that version" in message
    old.rename(place.folder / "moved")
    message = place.refused()
    assert "there is nothing at file://" in message and message.count("Restore it") == 1
    assert evaluations == []


def test_a_champion_that_cannot_be_loaded_any_more(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.register(write_model(place.folder / "old", "old"), approved=True)
    own = place.folder / "failure"
    monkeypatch.setenv("DRIVETRAIN_FAILURE_FILE", str(own))

    def evaluate(*_: Any, **__: Any) -> None:
        Path(os.environ["DRIVETRAIN_FAILURE_FILE"]).write_text("rank 0 failed: no recipe 'gone'.\n")
        sys.exit(2)

    stand_in(monkeypatch, evaluate)
    message = place.refused()
    assert "version 1 of digits, cannot be compared with: rank 0 failed: no recipe 'gone'. Restore it" in message
    assert not own.exists(), "the step's own reason is not the champion's"
    assert os.environ["DRIVETRAIN_FAILURE_FILE"] == str(own)


def test_a_champion_measured_on_other_data(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.register(write_model(place.folder / "old", "old"), approved=True)

    def evaluate(model: Path, data: Path, report: Path, **_: Any) -> None:
        write_report(report, 0.8, content_hash(model), data_hash="e" * 64)

    stand_in(monkeypatch, evaluate)
    message = place.refused()
    assert f"different test sets: {DATA}, and {'e' * 64}." in message
    assert "the champion (version 1 of digits)" in message


def test_the_evaluation_on_other_data(place: Place) -> None:
    """Without a champion, too."""
    prepared = Manifest(
        key="id", label=None, schema=(Column("id", "int64"),), shards=(Shard("0.parquet", 1, 1, "0" * 64),)
    )
    (place.data / "0.parquet").write_bytes(b"x")
    prepared.write(place.data / "manifest.json")
    manifest = prepared.content_hash
    message = place.refused()
    assert "is the evaluation on other data" in message and manifest[:12] in message and DATA[:12] in message
    write_report(place.report, 0.9, content_hash(place.model), data_hash=manifest)
    assert place.compare()["register"] == 1
    (place.data / "manifest.json").write_text("[]")  # another format's
    assert place.compare()["register"] == 1


def test_two_hosts_would_write_the_same_files(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIVETRAIN_HOSTS", "algo-1,algo-2")
    assert "this step has 2 (algo-1, algo-2). Give it one." in place.refused()


def test_the_evaluation_of_another_model(place: Place) -> None:
    other = write_model(place.folder / "other", "other")
    message = place.refused(model=other)
    assert "is the evaluation of another model" in message and content_hash(other)[:12] in message


def test_undecidable_inputs_are_refused_before_any_request(place: Place) -> None:
    nowhere = {"registry": f"local:{place.folder}"}
    assert "has no 'f1'" in place.refused(metric="f1", **nowhere)
    assert "has no slice 'site=north'" in place.refused(floors='{"accuracy@site=north": 0.9}', **nowhere)
    assert "is not a legal name" in place.refused(group="no group", **nowhere)
    assert "has no evaluation.json" in place.refused(evaluation=place.data, **nowhere)


def test_as_a_command(place: Place) -> None:
    arguments = {
        **{"evaluation": place.report, "model": place.model, "data": place.data, "group": "digits"},
        **{"decision": place.folder / "decision", "metrics": place.folder / "metrics", "registry": place.registry},
        "first": "true",
    }
    compare.main([f"--{name}={value}" for name, value in arguments.items()])
    found = json.loads((place.folder / "metrics" / "metrics.json").read_bytes())
    assert found["verdict"] == "register" and found["register"] == 1
