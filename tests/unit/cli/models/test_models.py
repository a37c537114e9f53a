from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from drivetrain.components.register_model import register_model
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.registry.card_sections import sections
from drivetrain.registry.model_card import model_card
from drivetrain.registry.package_mapping import record_of
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import ModelVersion, RegistryError, open_registry


@pytest.fixture
def models(drivetrain):
    """`drivetrain models` on a registry with two versions of `digits`."""
    registry = LocalRegistry(drivetrain.home / "ledger.db")
    package = {"InferenceSpecification": {"Containers": [{"ModelDataUrl": "s3://bucket/model.tar.gz"}]}}
    for number, digit in enumerate("ab", 1):
        registry.register(
            "digits", digit * 64, record_of(package), metrics={"accuracy": 0.9 + number / 100, "accuracy_class_0": 1.0},
            execution=f"run-{number}",
        )  # fmt: skip

    def call(*arguments: str, code: int = 0) -> str:
        return drivetrain("models", *arguments, "--home", drivetrain.home, code=code)

    return call


def test_list(models) -> None:
    lines = models("list").splitlines()
    assert lines[0].split() == ["GROUP", "VERSIONS", "LATEST", "APPROVED", "REGISTERED"]
    assert lines[1].startswith("digits  2         2 (waiting for approval)  –")
    (group,) = json.loads(models("list", "--json"))
    assert group["versions"] == 2 and group["approved"] is None and group["latest"]["version"] == 2


def test_list_of_a_group(models) -> None:
    lines = models("list", "digits").splitlines()
    assert lines[1].startswith("2        waiting for approval") and lines[1].endswith("run-2      accuracy 0.9200")
    assert [version["version"] for version in json.loads(models("list", "digits", "--json"))] == [2, 1]


def test_show(models) -> None:
    shown = models("show", "digits", "1")
    assert shown.startswith("digits version 1\n")
    for fact in ("waiting for approval", "run-1", "s3://bucket/model.tar.gz", "a" * 64, "0.9100"):
        assert fact in shown
    assert "drivetrain models approve digits 1" in shown
    assert json.loads(models("show", "digits", "--json"))["content_hash"] == "b" * 64


def test_approve_and_reject(models) -> None:
    assert models("approve", "digits", "1", "-m", "good") == (
        "digits version 1 is approved (was waiting for approval)\n"
    )
    assert models("approve", "digits", "1", "-m", "good") == "digits version 1 is approved already\n"
    shown = json.loads(models("show", "digits", "approved", "--json"))
    assert shown["version"] == 1 and shown["reason"] == "good"
    assert models("reject", "digits") == "digits version 2 is rejected (was waiting for approval)\n"
    assert "drivetrain models approve" not in models("show", "digits", "2")


def test_two_people_approve(models) -> None:
    assert models("approvals", "digits") == "digits asks for one person\n"
    assert models("approvals", "digits", "2") == "digits asks for 2 different people\n"
    waits = models("approve", "digits", "2", "--by", "ada").splitlines()
    assert waits[0] == "digits version 2 is waiting for approval still"
    assert waits[1].startswith("approved by 1 of 2 different people: ada_login_") and "(not verified)" in waits[1]
    assert models("approve", "digits", "2", "--by", "bob").startswith("digits version 2 is approved (was waiting for")
    found = json.loads(models("approvals", "digits", "--json"))
    assert found["people"] == 2 and [each["version"] for each in found["approvals"]] == [2, 2]


def test_approvals_of_a_missing_group(models, drivetrain) -> None:
    told = drivetrain.error("models", "approvals", "digitz", "--home", drivetrain.home)
    assert "has no group 'digitz'. Did you mean 'digits'?" in told


def test_an_approval_against_the_decision_needs_a_reason(drivetrain, decision_json: dict[str, Any]) -> None:
    registered(drivetrain.home / "ledger.db", decision_json | {"verdict": "keep champion"})
    given = ("models", "approve", "digits", "--home", drivetrain.home)
    assert 'the decision on it says "keep champion"' in drivetrain.error(*given)
    # With a reason it comes to the files, which are gone here.
    assert "/models/2: no such file" in drivetrain.error(*given, "--against-decision", "the data was wrong")


def test_rollback(models, drivetrain) -> None:
    at_home = ("--home", drivetrain.home)
    assert "no champion to go back from" in drivetrain.error("models", "rollback", "digits", *at_home)
    models("approve", "digits", "1")
    assert "the only approved version" in drivetrain.error("models", "rollback", "digits", *at_home)
    models("approve", "digits", "2")
    assert "approved before it are: 1." in drivetrain.error("models", "rollback", "digits", "--to", "2", *at_home)
    again = f"drivetrain models approve digits VERSION --home {drivetrain.home}"
    assert again in drivetrain.error("models", "rollback", "digits", "--to", "2", *at_home)
    assert f"drivetrain models card digits 2 --home {drivetrain.home}" in models("show", "digits", "2")
    assert "has no version '99'" in drivetrain.error("models", "rollback", "digits", "--to", "99", *at_home)
    assert models("rollback", "digits", "-m", "wrong at night") == (
        "digits version 1 is approved already\nversion 2, which was approved, is rejected\n"
    )
    assert json.loads(models("show", "digits", "approved", "--json"))["version"] == 1
    assert json.loads(models("show", "digits", "2", "--json"))["reason"] == (
        "version 1 is the champion: wrong at night"
    )


def test_an_approved_older_version_becomes_the_champion(models) -> None:
    models("approve", "digits", "2")
    assert models("approve", "digits", "1").splitlines() == [
        "digits version 1 is approved (was waiting for approval)",
        "version 2, which was approved, is rejected",
    ]
    assert json.loads(models("show", "digits", "approved", "--json"))["version"] == 1
    lines = models("list", "digits").splitlines()
    assert lines[1].startswith("2        rejected  ") and lines[2].startswith("1        approved, champion  ")
    models("approve", "digits", "2")  # version 1 stays approved
    assert models("list", "digits").count("champion") == 1
    assert [each["champion"] for each in json.loads(models("list", "digits", "--json"))] == [True, False]


def test_only_a_version_with_its_own_files_is_approved(drivetrain, tmp_path, capsys) -> None:
    registry = LocalRegistry(drivetrain.home / "ledger.db")
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_text("1")
    first, second = tmp_path / "first", tmp_path / "second"
    register_model(first, group="digits", registry=f"local:{registry.path}")
    at_home = ("digits", "1", "--home", drivetrain.home)
    (first / "weights").write_text("2")
    error = drivetrain.error("models", "approve", *at_home)
    assert "digits version 1 cannot be approved: its files have changed. " in error and "train again" in error
    assert "train again" in drivetrain.error("models", "fetch", *at_home)
    drivetrain("models", "reject", *at_home)
    (first / "weights").unlink()
    assert "cannot be approved: " in drivetrain.error("models", "approve", *at_home)
    register_model(second, group="digits", registry=f"local:{registry.path}")
    assert "1 (already registered; its files were damaged, and it names the new ones now)" in capsys.readouterr().out
    drivetrain("models", "approve", *at_home)
    drivetrain("models", "fetch", *at_home)
    found = registry.version("digits")
    assert (found.version, found.artifact) == (1, second.as_uri())
    assert found.card and found.card["model_overview"]["model_artifact"] == [second.as_uri()]
    register_model(second, group="digits", registry=f"local:{registry.path}", artifact="file:///none")
    assert registry.version("digits").artifact == second.as_uri(), "an intact version is left as it is"


def test_decisions_as_json(models) -> None:
    approved = json.loads(models("approve", "digits", "2", "-m", "good", "--json"))
    assert (approved["version"], approved["status"], approved["reason"]) == (2, "Approved", "good")
    assert approved["rejected_versions"] == []
    assert json.loads(models("approve", "digits", "1", "--json"))["rejected_versions"] == [2]
    assert json.loads(models("reject", "digits", "2", "--json"))["status"] == "Rejected"


def test_bad_input(models, drivetrain) -> None:
    at_home = ("--home", drivetrain.home)
    assert "Did you mean 'digits'?" in drivetrain.error("models", "show", "digts", *at_home)
    assert "1 to 2" in drivetrain.error("models", "approve", "digits", "9", *at_home)
    assert "no version of 'digits' is approved" in drivetrain.error("models", "show", "digits", "approved", *at_home)


def test_no_models(drivetrain) -> None:
    said = drivetrain("models", "list", "--home", drivetrain.home)
    assert said.startswith(f"No model has been registered yet. There is no folder {drivetrain.home}.")
    assert "ledger.db (there is no such file)" in drivetrain.error("models", "show", "a", "--home", drivetrain.home)
    assert json.loads(drivetrain("models", "list", "--json", "--home", drivetrain.home)) == []
    assert not drivetrain.home.exists()


def registered(path: Path, decision: dict[str, Any], card: dict[str, Any] | None = None) -> LocalRegistry:
    """`digits` with version 1, approved, and version 2, on which `decision` was taken against it."""
    registry = LocalRegistry(path)
    lineage = {"drivetrain-lineage-data": "e" * 64, "drivetrain-lineage-code": "c" * 64}
    registry.register(
        "digits", "b" * 64, record_of({"SourceUri": "file:///models/1"}), metrics={"accuracy": 0.85, "loss": 0.2}
    )
    registry.set_status("digits", 1, "Approved", reason="the first", by="ada")
    record = json.dumps(decision)
    details = {f"drivetrain_decision_{at // 1000}": record[at : at + 1000] for at in range(0, len(record), 1000)}
    card = {**(card or {}), "additional_information": {"custom_details": details}}
    package = {
        "SourceUri": "file:///models/2",
        "CustomerMetadataProperties": lineage,
        "ModelCard": {"ModelCardContent": json.dumps(card)},
    }
    metrics = {"accuracy": 0.9, "loss": 0.25, "auroc_macro": 0.97, "auroc_macro_bound": 2e-6}
    metrics |= {f"f1_class_{place}": 0.85 + 0.03 * place for place in range(3)}
    registry.register("digits", "a" * 64, record_of(package), metrics=metrics, execution="e-7")
    return registry


def test_show_has_metrics_decision_lineage_and_card(drivetrain, decision_json: dict[str, Any]) -> None:
    registered(drivetrain.home / "ledger.db", decision_json, {"intended_uses": {"purpose_of_model": "read digits"}})
    shown = drivetrain("models", "show", "digits", "--home", drivetrain.home)
    blocks = dict(zip(("facts", "metrics", "decision", "lineage", "card", "history", "next"), shown.split("\n\n"),
                      strict=True))  # fmt: skip
    for fact in ("waiting for approval", "file:///models/2", "e-7", "a" * 64):
        assert fact in blocks["facts"]
    lines = blocks["metrics"].splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["METRIC", "accuracy", "auroc_macro", "loss"]
    # The interval is the record's, the bound the one that is registered.
    assert lines[1].split()[1:] == ["0.9000", "0.8900", "to", "0.9100", "higher"]
    assert "0.9700 ± 2e-06" in lines[2] and "auroc_macro_bound" not in blocks["metrics"]
    assert lines[4] == "f1 of 3 classes: 0.8500 (0) to 0.9100 (2)"
    assert blocks["decision"].splitlines()[1:] == ["  Register", "    accuracy is 0.9000 against 0.8500 of version 2."]
    assert blocks["lineage"].split() == ["lineage", "data", "e" * 64, "code", "c" * 64]
    assert "intended uses, additional information (--card prints it)" in blocks["card"]
    assert blocks["history"].splitlines()[1].endswith("  registered")
    assert blocks["next"].startswith(f"Decide: drivetrain models approve digits 2 --home {drivetrain.home}")
    approved = drivetrain("models", "show", "digits", "approved", "--home", drivetrain.home)
    assert re.search(r"approved by ada: the first\n$", approved)
    said = json.loads(drivetrain("models", "show", "digits", "--json", "--home", drivetrain.home))
    assert said["artifact"] == "file:///models/2" and said["decision"]["verdict"] == "register"
    assert said["lineage"] == {"execution": "e-7", "data": "e" * 64, "code": "c" * 64}


def test_the_card(drivetrain, models, decision_json: dict[str, Any]) -> None:
    card = {"intended_uses": {"purpose_of_model": "read \x1b[31mdigits", "limits": ["a", {"b": 1}], "none": None}}
    registered(drivetrain.folder / "other.db", decision_json, card)
    url = f"local:{drivetrain.folder / 'other.db'}"
    shown = drivetrain("models", "show", "digits", "--card", "--registry", url)
    assert shown.startswith(
        "intended uses:\n  purpose of model: read \ufffd[31mdigits\n  limits:\n    - a\n    - b: 1\n"
    )
    assert "drivetrain_decision" not in shown and "verdict" not in shown
    said = json.loads(drivetrain("models", "show", "digits", "--card", "--json", "--registry", url))
    assert said["intended_uses"]["limits"] == ["a", {"b": 1}]
    assert "has no model card" in drivetrain.error("models", "show", "digits", "--card", "--home", drivetrain.home)


def test_a_decision_kept_as_short_texts_is_shown(drivetrain) -> None:
    registry = LocalRegistry(drivetrain.home / "ledger.db")
    package = {"CustomerMetadataProperties": {"drivetrain-decision-verdict": "register"}}
    registry.register("digits", "a" * 64, record_of(package))
    shown = drivetrain("models", "show", "digits", "--home", drivetrain.home)
    assert "\ndecision\n  verdict  register\n" in shown


def test_two_versions_side_by_side(drivetrain, decision_json: dict[str, Any]) -> None:
    registered(drivetrain.home / "ledger.db", decision_json)
    at_home = ("--home", drivetrain.home)
    shown = drivetrain("models", "compare", "digits", *at_home)
    lines = shown.splitlines()
    assert lines[0] == "digits: version 1 approved, version 2 waiting for approval"
    assert lines[2].split() == ["METRIC", "VERSION", "1", "VERSION", "2", "DIFFERENCE", "INTERVAL"]
    assert lines[3].split() == ["accuracy", "0.8500", "0.9000", "+0.05", "+0.02", "to", "+0.08"]
    assert lines[5].split() == ["auroc_macro", "–", "0.9700", "±", "2e-06"]
    assert f"data: – -> {'e' * 64}" in shown and "f1_class" not in shown
    turned = drivetrain("models", "compare", "digits", "2", "1", *at_home).splitlines()
    assert turned[3].split() == ["accuracy", "0.9000", "0.8500", "-0.05", "-0.08", "to", "-0.02"]
    said = json.loads(drivetrain("models", "compare", "digits", "1", "2", "--json", *at_home))
    assert said["metrics"][0] == {"name": "accuracy", "a": 0.85, "b": 0.9, "difference": pytest.approx(0.05),
                                  "bound": 0.0, "low": 0.02, "high": 0.08}  # fmt: skip
    same = drivetrain("models", "compare", "digits", "2", "2", *at_home)
    assert "Both have the same content." in same


def test_versions_without_a_comparison_have_no_interval(models, drivetrain) -> None:
    shown = drivetrain("models", "compare", "digits", "1", "2", "--home", drivetrain.home)
    assert "accuracy  0.9100     0.9200     +0.01\n" in shown and "INTERVAL" not in shown
    assert "so the differences may be chance" in shown
    assert "no version of 'digits' is approved" in drivetrain.error(
        "models", "compare", "digits", "--home", drivetrain.home
    )


def test_which_registry(drivetrain, models, decision_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    other = drivetrain.folder / "other.db"
    registered(other, decision_json)
    url = f"local:{other}"
    hint = drivetrain("models", "show", "digits", "--registry", url).splitlines()[-1]
    assert hint == f"Decide: drivetrain models approve digits 2 --registry {url}"
    assert drivetrain("models", "list", "--json") == "[]\n", "neither is here"
    monkeypatch.setenv("DRIVETRAIN_REGISTRY", url)
    for options in ((), ("--registry", "auto"), ("--registry", url)):
        assert json.loads(drivetrain("models", "list", "--json", *options))[0]["approved"] == 1
    for options in (("--home", drivetrain.home), ("--home", drivetrain.home, "--registry", "local")):
        assert json.loads(drivetrain("models", "list", "--json", *options))[0]["approved"] is None
    assert drivetrain("models", "reject", "digits", "--registry", url).startswith("digits version 2 is rejected")
    assert "two places" in drivetrain.error("models", "list", "--home", drivetrain.home, "--registry", url)
    assert "Did you mean 'local'?" in drivetrain.error("models", "list", "--registry", "locl:x")


COMMANDS = [("list",), ("list", "g"), ("show", "g"), ("compare", "g"), ("approve", "g"), ("reject", "g", "2")]


@pytest.mark.parametrize("command", [*COMMANDS, ("predict", "g", "--input", "rows.csv")])
@pytest.mark.parametrize("folder", ["there", "mistyped"])
def test_a_mistyped_registry_path_is_refused_and_not_created(
    drivetrain, monkeypatch: pytest.MonkeyPatch, folder: str, command: tuple[str, ...]
) -> None:
    (drivetrain.folder / "there").mkdir()
    drivetrain.write("rows.csv", "x\n1\n")
    path = drivetrain.folder / folder / "leger.db"
    said = f"local:{path}: there is no registry at {path}. Correct the path; the first model that is registered there"
    assert drivetrain.error("models", *command, "--registry", f"local:{path}").startswith(f"error: --registry {said}")
    monkeypatch.setenv("DRIVETRAIN_REGISTRY", f"local:{path}")
    assert drivetrain.error("models", *command).startswith(f"error: $DRIVETRAIN_REGISTRY={said}")
    assert sorted(each.name for each in drivetrain.folder.rglob("*")) == ["rows.csv", "there"]


@pytest.mark.parametrize("options", [(), ("--registry", "local"), ("--registry", "local:"), ("--registry", "auto")])
def test_without_a_registry_path_there_are_no_models_yet(drivetrain, options: tuple[str, ...]) -> None:
    assert drivetrain("models", "list", *options).startswith("No model has been registered yet.")
    assert list(drivetrain.folder.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_registry_that_cannot_be_reached_is_one_line(
    drivetrain, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    class Unreachable:
        keeps_history = False

        def __getattr__(self, name: str) -> Any:
            def refuse(*_: Any, **__: Any) -> Any:
                raise RegistryError("the registry at example answered 503. Try again later.")

            return refuse

    monkeypatch.setattr("drivetrain.registry.backends.local.connect", lambda location: Unreachable())
    said = drivetrain.error("models", *command)
    assert said == "error: the registry at example answered 503. Try again later.\n"


def test_a_foreign_package_is_shown(drivetrain) -> None:
    registry = LocalRegistry(drivetrain.home / "ledger.db")
    package = {"InferenceSpecification": 3, "ModelCard": {"ModelCardContent": "{"}, "CustomerMetadataProperties": [1]}
    registry.register("digits", "a" * 64, record_of(package), execution="\x1b[31m")
    shown = drivetrain("models", "show", "digits", "--home", drivetrain.home)
    assert "artifact    –" in shown and "\x1b" not in shown and "lineage" not in shown


def test_the_whole_card(drivetrain, decision_json: dict[str, Any]) -> None:
    card = {
        "intended_uses": {"purpose_of_model": "read <b>digits", "risk_rating": "Low"},
        "training_details": {
            "training_observations": "Trained by drivetrain: recipe digits_cnn.",
            "training_job_details": {
                "training_datasets": ["rows 1437, content abc"],
                "user_provided_hyper_parameters": [{"name": "epochs", "value": "5"}, {"name": "a|b", "value": "x\ny"}],
            },
        },
        "evaluation_details": [
            {
                "name": "evaluation",
                "metadata": {"data_rows": "360"},
                "metric_groups": [{"metric_data": [{"name": "accuracy", "notes": "confidence interval 0.8 to 1"}]}],
            }
        ],
    }
    registered(drivetrain.home / "ledger.db", decision_json, card)
    at_home = ("--home", drivetrain.home)
    shown = drivetrain("models", "card", "digits", *at_home)
    parts = dict((*part.split("\n\n", 1), "")[:2] for part in shown.rstrip().split("\n\n## "))
    assert list(parts) == ["# digits version 2", "Overview", "Intended use", "Data", "Configuration", "Metrics",
                           "Health", "Decision", "Lineage", "How to use it"]  # fmt: skip
    assert "| Status | waiting for approval |" in parts["Overview"] and "file:///models/2" in parts["Overview"]
    assert "| Purpose of model | read &lt;b>digits |" in parts["Intended use"]
    assert (
        "| Training data | rows 1437, content abc |" in parts["Data"] and "| Test data: rows | 360 |" in parts["Data"]
    )
    assert "| epochs | 5 |\n| a\\|b | x y |" in parts["Configuration"]
    assert (
        "| accuracy | 0.9 | confidence interval 0.8 to 1 |" in parts["Metrics"] and "f1_class" not in parts["Metrics"]
    )
    assert parts["Health"] == "No health rule failed the training."
    assert parts["Decision"].startswith("Register.\n\naccuracy is 0.9000 against 0.8500 of version 2.")
    assert f"| data | {'e' * 64} |" in parts["Lineage"]
    assert "drivetrain models fetch digits 2 --output model" in parts["How to use it"]
    assert drivetrain("models", "card", "digits", "1", *at_home).startswith("# digits version 1\n\n## Overview\n")

    page = drivetrain.folder / "card.html"
    assert "its card is in" in drivetrain("models", "card", "digits", "2", "-o", page, *at_home)
    html = page.read_text()
    assert "<h2" in html and "read &lt;b&gt;digits" in html and "confidence interval 0.8 to 1" in html
    said = json.loads(drivetrain("models", "card", "digits", "2", "--json", *at_home))
    assert [part["title"] for part in said["sections"]] == list(parts)[1:]
    assert "ends in .md or .html" in drivetrain.error("models", "card", "digits", "-o", "card.pdf", *at_home)


def test_the_card_says_which_health_rules_failed() -> None:
    card = model_card(model={"recipe": "r", "health": {"failed": {"overfitting": "loss rose for 3 epochs"}}})
    version = ModelVersion(
        group="digits", version=1, arn="", content_hash="", status="Approved", reason=None,
        record=ModelRecord(card=card), metrics={}, execution=None, created_at=0.0, modified_at=0.0,
    )  # fmt: skip
    health = next(each for each in sections(version) if each.title == "Health")
    assert health.rows == (("overfitting", "loss rose for 3 epochs"),)
    titles = ["Overview", "Configuration", "Health", "Decision", "How to use it"]
    assert [each.title for each in sections(version)] == titles


@pytest.mark.parametrize("code", [False, True])
def test_the_card_of_a_users_model_has_no_empty_sections(tmp_path: Path, code: bool) -> None:
    folder = tmp_path / "model"
    (folder / "code").mkdir(parents=True)
    (folder / "model.json").write_text('{"owner": "team"}')
    (folder / "trees.bin").write_bytes(b"trees")
    if code:
        (folder / "code" / "inference.py").write_text("def predict(rows): return rows")
    register_model(folder, None, None, None, group="trees", registry=f"local:{tmp_path}/ledger.db")
    version = open_registry(f"local:{tmp_path}/ledger.db").version("trees", "1")
    titles = [each.title for each in sections(version)]
    assert titles == ["Overview", "Decision", *(["Lineage"] if code else []), "How to use it"]
    assert code == any("models predict" in command for command in sections(version)[-1].commands)
