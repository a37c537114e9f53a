"""One writer at a time: who waits, who is told what, and when a lock is taken from whom."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.deploying.applying import HalfDoneError
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy import lock as locking
from drivetrain.targets.sagemaker.deploy.applying.applying import apply
from drivetrain.targets.sagemaker.deploy.applying.destroying import destroy, remains
from drivetrain.targets.sagemaker.deploy.deployed import APPLIED, APPLYING
from drivetrain.targets.sagemaker.deploy.lock import LOOKS_EVERY_S, Lock, alone, lock_uri, look
from drivetrain.targets.sagemaker.deploy.planning.triggers import write
from drivetrain.targets.sagemaker.refusals import AbsentError, DeniedError, ServiceError
from tests.unit.targets.sagemaker.deploy.conftest import NAME, Place, definition


def held(place: Place, **options: Any) -> Any:
    root = place.wanted().root
    return alone(place.account, root, NAME, doing="applying definition abc", tell=lambda line: None, **options)


def uri(place: Place) -> str:
    return lock_uri(place.wanted().root, NAME)


def test_a_second_writer_waits_and_learns_who_holds_the_lock(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "WAITS_S", 3 * LOOKS_EVERY_S)
    wanted, waited, told = place.wanted(), list[float](), list[str]()
    plan = place.plan(wanted)
    with held(place), pytest.raises(UserError) as refused:
        apply(place.account, wanted, plan, tell=told.append, pause=waited.append)
    assert waited == 3 * [LOOKS_EVERY_S]
    assert [line for line in told if "waiting for another writer" in line and "applying definition abc" in line]
    for said in (place.account.caller, "applying definition abc", f"aws s3 rm {uri(place)}", "make a new plan"):
        assert said in str(refused.value)
    assert not place.state()["pipelines"]
    with held(place), pytest.raises(UserError, match="Another user is writing"):
        destroy(place.account, remains(place.account, NAME, wanted.owner), pause=waited.append)


def test_a_waiting_writer_continues_unless_the_state_changed(place: Place) -> None:
    first, second = place.wanted(), place.wanted(definition=definition("ml.m5.2xlarge"))
    plan, late = place.plan(first), place.plan(second)
    other = held(place)
    other.__enter__()
    apply(place.account, first, plan, pause=lambda seconds: other.__exit__(None, None, None))
    with pytest.raises(UserError, match=r"The plan is stale.* was changed since it was made\.") as refused:
        apply(place.account, second, late)
    assert f"{place.account.caller} applied definition {first.sha256[:12]} at 2" in str(refused.value)
    with pytest.raises(UserError, match="It is the one of this plan"):
        apply(place.account, first, plan)
    assert place.plan(first).is_empty


def test_a_stale_lock_is_taken_over_and_its_holder_is_fenced(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "_this_process", dict)  # as seen from another machine
    monkeypatch.setattr(locking, "WAITS_S", LOOKS_EVERY_S)
    holder = Lock(place.account, uri(place), "applying", "")
    holder.take(lambda line: None, lambda seconds: None)
    holder.keep()
    with pytest.raises(UserError, match="Another user is writing"), held(place, pause=lambda seconds: None):
        pass
    monkeypatch.setattr(locking, "LASTS_S", -1.0)
    with held(place, pause=lambda seconds: None):
        monkeypatch.setattr(locking, "RENEWED_AFTER_S", -1.0)
        with pytest.raises(UserError, match=r"took over the lock .*writes nothing more"):
            holder.keep()
        theirs = look(place.account, uri(place))
        holder.give_back()
        now = look(place.account, uri(place))  # perhaps a second older
        assert now and theirs and (now.said, now.etag) == (theirs.said, theirs.etag)


def test_the_lock_of_a_dead_local_process_is_ignored(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen(["true"])
    here = locking._this_process()
    gone = {**here, "pid": ended.pid, "start": 1}
    ended.wait()
    lock = Lock(place.account, uri(place), "applying", "")
    for process, is_held in (
        (gone, False),
        ({**gone, "boot": "another"}, True),
        ({**here, "pid": os.getppid(), "start": 1}, False),
    ):
        lock._said["process"] = process
        lock._write("held", None if look(place.account, uri(place)) is None else lock._etag)
        found = look(place.account, uri(place))
        assert found is not None and found.is_held is is_held, process


def test_a_write_with_a_lost_answer_is_recognized_by_its_token(place: Place) -> None:
    class Lost(Account):
        def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
            said = super().call(service, operation, about=about, **arguments)
            # botocore tries again, and meets what it wrote.
            return super().call(service, operation, about=about, **arguments) if operation == "put_object" else said

    lock = Lock(Lost(place.outside.region), uri(place), "applying", "")
    lock.take(lambda line: None, lambda seconds: pytest.fail("it waits for itself"))
    lock.give_back()
    found = look(place.account, uri(place))
    assert found is not None and found.said["state"] == "free"


class WithoutLock(Account):
    """Is refused a schedule; just before that somebody whose bucket is another one writes the same pipeline."""

    def __init__(self, place: Place, theirs: Any) -> None:
        super().__init__(place.outside.region)
        self._clients = place.account._clients
        self.theirs = theirs

    def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
        if operation == "create_schedule":
            self.theirs()
            raise ServiceError("AWS denies create_schedule.", code="AccessDeniedException")
        return super().call(service, operation, about=about, **arguments)


def test_tags_changed_by_others_are_not_rolled_back(place: Place) -> None:
    first = place.wanted()
    place.apply(first)
    second = place.wanted(definition=definition("ml.m5.2xlarge"), tags={"team": "speech"}, triggers=(place.schedule(),))

    def theirs() -> None:
        tags = {APPLYING: "f" * 64, "team": "theirs"}
        place.outside.client("sagemaker").add_tags(
            ResourceArn=first.arn, Tags=[{"Key": key, "Value": value} for key, value in tags.items()]
        )

    with pytest.raises(HalfDoneError, match=r"NOT taken back: .*the pipeline \(another user changed it since"):
        apply(WithoutLock(place, theirs), second, place.plan(second))
    pipeline = place.state()["pipelines"][NAME]
    assert pipeline["PipelineDefinition"] == second.text
    assert pipeline["tags"] == {"team": "theirs", APPLIED: first.sha256, APPLYING: "f" * 64}


def test_only_our_own_unchanged_tags_are_rolled_back(place: Place) -> None:
    first = place.wanted()
    place.apply(first)
    second = place.wanted(tags={"team": "speech", "more": "ours"}, triggers=(place.schedule(),))

    def theirs() -> None:
        client = place.outside.client("sagemaker")
        client.add_tags(ResourceArn=first.arn, Tags=[{"Key": "team", "Value": "theirs"}])

    with pytest.raises(HalfDoneError, match=r"NOT taken back: the tags \(team: another user changed it since"):
        apply(WithoutLock(place, theirs), second, place.plan(second))
    assert place.state()["pipelines"][NAME]["tags"] == {"team": "theirs", APPLIED: first.sha256}


def test_a_rule_changed_by_others_is_not_rolled_back(place: Place) -> None:
    first = place.wanted(triggers=(place.rule(),))
    place.apply(first)
    second = place.wanted(triggers=(place.rule("Rejected"), place.schedule()))
    other = place.rule("PendingManualApproval")
    account = WithoutLock(place, lambda: write(place.account, other, None))
    with pytest.raises(HalfDoneError, match=r"NOT taken back: rule .*another user changed it since"):
        apply(account, second, place.plan(second))
    [(pattern, _, _)] = place.state()["rules"].values()
    assert json.loads(pattern)["detail"] == {"ModelApprovalStatus": ["PendingManualApproval"]}


def test_a_lock_that_is_not_there_is_not_read(place: Place) -> None:
    """S3 answers 403 for an object that is not there, where one may list below a prefix alone."""

    class Forbidding(Account):
        def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
            try:
                return super().call(service, operation, about=about, **arguments)
            except AbsentError:
                if service == "s3":
                    raise DeniedError(f"AWS denies {operation}.") from None
                raise

    account, wanted = Forbidding(place.outside.region), place.wanted()
    plan = place.plan(wanted)
    apply(account, wanted, plan)
    with pytest.raises(UserError, match="The plan is stale"):
        apply(account, wanted, plan)
    told: list[str] = []
    destroy(account, remains(account, NAME, wanted.owner), tell=told.append)
    assert not [line for line in told if "note" in line] and look(place.account, uri(place)) is None


def test_destroying_leaves_no_lock(place: Place) -> None:
    wanted = place.wanted()
    place.apply(wanted)
    assert look(place.account, uri(place)) is not None
    destroy(place.account, remains(place.account, NAME, wanted.owner))
    assert look(place.account, uri(place)) is None
