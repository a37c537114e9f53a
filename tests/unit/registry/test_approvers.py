"""Who approved: the people whom the backend knows, each once, and how many of them a group asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.register_model import register_model
from drivetrain.registry.approvers import approvals, ask_for, person_of
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
def test_sessions_of_a_role_are_one_person_except_sso_sessions(arn: str, person: str) -> None:
    assert person_of(arn) == person


def test_two_approvals_need_two_people(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_for(registry, "digits", 2)
    for who in ("role/ci", "role/ci"):
        monkeypatch.setattr(type(registry), "caller", who)
        (waits,) = make_champion(registry, "digits", 1, by="whoever")
        assert waits.status == "PendingManualApproval"
    monkeypatch.setattr(type(registry), "caller", "user/ann")
    assert make_champion(registry, "digits", 1, by="whoever")[0].status == "Approved"
    given = approvals(registry, "digits")
    assert [(each.version, each.by, each.verified) for each in given] == [(1, "role/ci", True), (1, "user/ann", True)]


def test_without_identities_in_the_backend_names_are_unverified(registry: Registry) -> None:
    make_champion(registry, "digits", 1, by="Ada Lovelace (login ci)")
    make_champion(registry, "digits", 1, by="Ada Lovelace (login ci)")
    (given,) = approvals(registry, "digits")
    assert (given.version, given.by, given.verified) == (1, "Ada_Lovelace_login_ci", False)


@pytest.mark.parametrize(
    ("one", "other", "are_two"),
    [
        ("李", "王", True),
        ("Özil", "Äzil", True),
        ("Özil", "Ozil", True),
        ("Anna", "anna", False),
        ("Zoe\u0308", "ZOË", False),
        ("a b", "a_b", True),
        ("x" * 120 + "1", "y" + "x" * 119 + "1", True),
    ],
)
def test_approver_names_ignore_case(one: str, other: str, are_two: bool, registry: Registry) -> None:
    ask_for(registry, "digits", 2)
    make_champion(registry, "digits", 1, by=one)
    assert (make_champion(registry, "digits", 1, by=other)[0].status == "Approved") == are_two


def test_a_name_is_reduced_to_what_a_tag_can_hold(registry: Registry) -> None:
    for name in ("Özil", "李", "eve+0a1b2c3d4e5f"):
        make_champion(registry, "digits", 1, by=name)
    first, second, third = approvals(registry, "digits")
    assert first.by == "Ozil" and second.by == f"person-{second.person}" and third.by == "eve+0a1b2c3d4e5f"
    assert len({first.person, second.person, third.person, "0a1b2c3d4e5f"}) == 4


def test_a_rejection_voids_the_approvals_before_it(registry: Registry) -> None:
    ask_for(registry, "digits", 2)
    make_champion(registry, "digits", 1, by="root")
    registry.set_status("digits", 1, "Rejected")
    (waits,) = make_champion(registry, "digits", 1, by="anna")
    assert waits.status == "PendingManualApproval"
    assert [each.by for each in approvals(registry, "digits")] == ["anna"]
    assert make_champion(registry, "digits", 1, by="root")[0].status == "Approved"


def test_five_long_names_fit_after_any_earlier_approvals(registry: Registry) -> None:
    for number in range(20):
        make_champion(registry, "digits", 1, by=f"somebody-with-a-long-name-{number}")
    assert len(approvals(registry, "digits")) >= 3
    registry.register("digits", "2" * 64, ModelRecord())
    ask_for(registry, "digits", 5)
    *first, last = [f"{number} " + "x" * 87 for number in range(5)]
    for by in first * 2:
        assert make_champion(registry, "digits", 2, by=by)[0].status == "PendingManualApproval"
    assert make_champion(registry, "digits", 2, by=last)[0].status == "Approved"
    assert [each.version for each in approvals(registry, "digits")] == [2] * 5


def test_an_approval_without_room_in_the_tag_is_refused(registry: Registry) -> None:
    ask_for(registry, "digits", 5)
    registry.register("digits", "2" * 64, ModelRecord())
    for person in "abcd":
        make_champion(registry, "digits", 1, by=person * 89)
    make_champion(registry, "digits", 2, by="a")
    with pytest.raises(
        InputError, match=r"no room for another approval beside those of other versions that wait \(1\)"
    ):
        make_champion(registry, "digits", 2, by="b" * 89)
    registry.set_status("digits", 1, "Rejected")
    make_champion(registry, "digits", 2, by="b" * 89)
    assert {each.by for each in approvals(registry, "digits") if each.version == 2} == {"a", "b" * 89}


def test_a_model_that_needs_approvers_is_not_registered_as_approved(registry: Registry, tmp_path: Path) -> None:
    ask_for(registry, "digits", 2)
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights").write_text("new")
    register_model(model, group="digits", registry=f"local:{tmp_path}/ledger.db", approval="Approved")
    assert registry.version("digits", 2).status == "PendingManualApproval"


@pytest.mark.parametrize("people", [0, 6])
def test_an_invalid_number_of_approvers_is_refused(people: int, registry: Registry) -> None:
    with pytest.raises(InputError, match="Allowed: 1 to 5 different people"):
        ask_for(registry, "digits", people)
