from __future__ import annotations

import json

import pytest

from drivetrain.base.errors import UserError
from drivetrain.deploying.plan import read_plan
from drivetrain.targets.sagemaker.deploy.applying.applying import apply
from tests.unit.targets.sagemaker.deploy.conftest import Place, definition


def test_account_facts_in_a_plan_file_are_not_trusted(place: Place) -> None:
    place.apply(place.wanted())
    place.edit(Parameters=[])
    wanted = place.wanted(definition=definition("ml.m5.2xlarge"))
    said = json.loads(place.plan(wanted).text())
    before = place.state()
    forged = read_plan(json.dumps({**said, "overwritten": [], "drift": [], "refusal": None}), "plan.json")
    assert forged.refusal is None
    with pytest.raises(UserError, match=r"applying would undo it: parameters\.MinAccuracy"):
        apply(place.account, wanted, forged)
    assert place.state() == before
    # An action that is not the case: what differs is looked at anew.
    given_up = json.loads(place.plan(wanted, discarded=["parameters"]).text())
    idle = read_plan(json.dumps({**given_up, "action": "none", "changes": []}), "plan.json")
    assert apply(place.account, wanted, idle).version is not None
    assert place.plan(wanted).is_empty


def test_a_file_that_says_that_nothing_is_to_be_done_of_what_is_not_there(place: Place) -> None:
    wanted = place.wanted()
    said = json.loads(place.plan(wanted).text())
    apply(place.account, wanted, read_plan(json.dumps({**said, "action": "none"}), "plan.json"))
    assert place.plan(wanted).is_empty
