"""Who approved: the people whom the backend knows, each once, and how many of them a group asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.register_model import register_model
from drivetrain.registry.approvers import Approval, approvals, ask_for, person_of
from drivetrain.registry.approving import make_champion
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import Registry, open_registry

ACCOUNT = "123456789012"


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    registry = open_registry(f"local:{tmp_path}/ledger.db")
    registry.register("digits", "1" * 64, ModelRecord())
    return registry


@pytest.mark.parametrize(
    ("arn", "person"),
    [
        (f"arn:aws:iam::{ACCOUNT}:user/ann", f"{ACCOUNT}/user/ann"),
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/ci/build-1", f"{ACCOUNT}/role/ci"),
        (f"arn:aws-cn:sts::{ACCOUNT}:assumed-role/ci/build-2", f"{ACCOUNT}/role/ci"),
        (
            f"arn:aws:sts::{ACCOUNT}:assumed-role/AWSReservedSSO_Admin_1/ann@corp",
            f"{ACCOUNT}/role/AWSReservedSSO_Admin_1/ann@corp",
        ),
        ("something else", "something else"),
    ],
)
def test_sessions_of_a_role_are_one_person_but_for_those_of_people(arn: str, person: str) -> None:
    assert person_of(arn) == person


def test_two_approvals_are_of_two_people(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_for(registry, "digits", 2)
    for who in ("role/ci", "role/ci"):
        monkeypatch.setattr(type(registry), "caller", who)
        (waits,) = make_champion(registry, "digits", 1, by="whoever")
        assert waits.status == "PendingManualApproval"
    monkeypatch.setattr(type(registry), "caller", "user/ann")
    assert make_champion(registry, "digits", 1, by="whoever")[0].status == "Approved"
    given = approvals(registry, "digits")
    assert [(each.version, each.by, each.verified) for each in given] == [
        (1, "role/ci", True),
        (1, "role/ci", True),
        (1, "user/ann", True),
    ]


def test_where_the_backend_knows_nobody_names_are_not_verified(registry: Registry) -> None:
    make_champion(registry, "digits", 1, by="Ada Lovelace (login ci)")
    make_champion(registry, "digits", 1, by="Ada Lovelace (login ci)")  # repeated, and kept
    first, second = approvals(registry, "digits")
    assert first == second._replace(at=first.at) == Approval(1, first.at, "Ada_Lovelace_login_ci", False)


def test_the_newest_approvals_are_kept_as_far_as_a_tag_goes(registry: Registry) -> None:
    for number in range(20):
        make_champion(registry, "digits", 1, by=f"somebody-with-a-long-name-{number}")
    given = approvals(registry, "digits")
    assert 3 <= len(given) < 20 and given[-1].by == "somebody-with-a-long-name-19"


def test_a_model_is_not_registered_as_approved_where_people_are_asked_for(registry: Registry, tmp_path: Path) -> None:
    ask_for(registry, "digits", 2)
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights").write_text("new")
    register_model(model, group="digits", registry=f"local:{tmp_path}/ledger.db", approval="Approved")
    assert registry.version("digits", 2).status == "PendingManualApproval"


@pytest.mark.parametrize("people", [0, 6])
def test_a_number_of_people_that_cannot_be(people: int, registry: Registry) -> None:
    with pytest.raises(InputError, match="Allowed: 1 to 5 different people"):
        ask_for(registry, "digits", people)
