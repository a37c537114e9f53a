from __future__ import annotations

import json

import pytest

from drivetrain.components.registries.local import LocalRegistry


@pytest.fixture
def models(drivetrain):
    """`drivetrain models` on a registry with two versions of `digits`."""
    registry = LocalRegistry(drivetrain.home / "ledger.db")
    package = {"InferenceSpecification": {"Containers": [{"ModelDataUrl": "s3://bucket/model.tar.gz"}]}}
    for number, digit in enumerate("ab", 1):
        registry.register(
            "digits", digit * 64, package, metrics={"accuracy": 0.9 + number / 100, "accuracy_class_0": 1.0},
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


def test_decisions_as_json(models) -> None:
    approved = json.loads(models("approve", "digits", "2", "-m", "good", "--json"))
    assert (approved["version"], approved["status"], approved["reason"]) == (2, "Approved", "good")
    assert json.loads(models("reject", "digits", "2", "--json"))["status"] == "Rejected"


def test_bad_input(models, drivetrain) -> None:
    at_home = ("--home", drivetrain.home)
    assert "Did you mean 'digits'?" in drivetrain.error("models", "show", "digts", *at_home)
    assert "1 to 2" in drivetrain.error("models", "approve", "digits", "9", *at_home)
    assert "no version of 'digits' is approved" in drivetrain.error("models", "show", "digits", "approved", *at_home)


def test_no_models(drivetrain) -> None:
    assert drivetrain("models", "list", "--home", drivetrain.home).startswith("No model has been registered yet.")
    assert json.loads(drivetrain("models", "list", "--json", "--home", drivetrain.home)) == []
    assert not drivetrain.home.exists()
