from __future__ import annotations

import pytest

from drivetrain.targets.sagemaker.deploy.executions import execution_report
from drivetrain.targets.sagemaker.refusals import ServiceError
from tests.unit.targets.sagemaker.deploy.conftest import Place, definition

LARGER = "ml.m5.4xlarge"


def test_changes_are_shown_with_cost_and_permissions(place: Place) -> None:
    wanted = place.wanted()
    plan = place.plan(wanted, whole=True)
    assert plan.cost is not None and plan.cost["lines"] and plan.cost["total"] > 0
    assert plan.permissions is not None and plan.permissions["roles"]
    assert place.plan(wanted).code == plan.code
    place.apply(wanted)
    plan = place.plan(wanted, whole=True)
    assert plan.is_empty and plan.cost is None and plan.permissions is None


def test_the_times_of_earlier_executions_are_taken(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.apply(place.wanted())
    monkeypatch.setattr(execution_report, "measured_seconds", lambda account, name: {"train": 3600.0})
    plan = place.plan(place.wanted(definition=definition(LARGER)), whole=True)
    assert plan.cost is not None
    assert [line for line in plan.cost["lines"] if line.startswith("train") and "as before" in line]


def test_without_those_times_there_is_a_plan_all_the_same(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(account: object, name: str) -> None:
        raise ServiceError("not allowed to look")

    place.apply(place.wanted())
    monkeypatch.setattr(execution_report, "measured_seconds", refuse)
    plan = place.plan(place.wanted(definition=definition(LARGER)), whole=True)
    assert plan.cost is not None
    assert plan.cost["lines"][-1] == "how long earlier executions took is not known: not allowed to look"
    assert plan.changes
