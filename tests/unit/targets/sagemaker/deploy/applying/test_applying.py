from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from drivetrain.assets.assets import Asset
from drivetrain.base.errors import UserError
from drivetrain.deploying.applying import HalfDoneError
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.applying.applying import apply
from drivetrain.targets.sagemaker.deploy.deployed import APPLIED, APPLYING, OWNER
from drivetrain.targets.sagemaker.deploy.planning.account_resources import APPLIED_AROUND
from drivetrain.targets.sagemaker.deploy.wire import digest_of
from drivetrain.targets.sagemaker.document.difference.difference import differences
from drivetrain.targets.sagemaker.refusals import ServiceError
from drivetrain.triggers.resource_names import resource_name
from tests.unit.targets.sagemaker.deploy.conftest import NAME, Place, definition, long_definition, processing

in_turn = pytest.mark.parametrize(
    "every", [pytest.param(3, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.nightly)]
)
"""By day some of the calls, among them each kind; all of them at night."""


class Killed(BaseException):
    """The process is gone: nothing of ours runs after it."""


class Counting(Account):
    """Counts the calls that change something, and is killed after one of them: what is read leaves nothing behind."""

    def __init__(self, place: Place, *, at: int) -> None:
        super().__init__(place.outside.region)
        self._clients = place.account._clients
        self.at = at
        self.calls: list[str] = []

    def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
        number = len(self.calls)
        if not operation.startswith(("describe", "get", "list")):
            self.calls.append(f"{service}:{operation}")
        try:
            return super().call(service, operation, about=about, **arguments)
        finally:
            if number == self.at < len(self.calls):
                raise Killed


class KilledAfter(Account):
    """Is killed after the first call of a name."""

    def __init__(self, place: Place, last: str) -> None:
        super().__init__(place.outside.region)
        self._clients = place.account._clients
        self.last = last

    def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
        said = super().call(service, operation, about=about, **arguments)
        if operation == self.last:
            raise Killed
        return said


class Denying(Account):
    """Is denied calls of some names, `times` of them after the first `after`."""

    def __init__(self, place: Place, *denied: str, after: int = 0, times: int = 1_000) -> None:
        super().__init__(place.outside.region)
        self._clients = place.account._clients
        self.denied, self.turns = denied, range(after, after + times)
        self.turn = 0

    def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
        if operation in self.denied:
            self.turn += 1
            if self.turn - 1 in self.turns:
                raise ServiceError(f"AWS denies {operation}.", code="AccessDeniedException")
        return super().call(service, operation, about=about, **arguments)


def test_a_new_pipeline_has_tags_code_and_record(place: Place) -> None:
    wanted = place.wanted(triggers=(place.rule(), place.schedule()))
    done = place.apply(wanted)
    state = place.state()
    pipeline = state["pipelines"][NAME]
    assert done.address.endswith(f"pipeline/{NAME}")
    assert pipeline["PipelineDefinition"] == wanted.text
    assert pipeline["RoleArn"] == wanted.role
    assert pipeline["parallel"] == {"MaxParallelExecutionSteps": 50}
    assert pipeline["tags"] == {"team": "vision", APPLIED: wanted.sha256}
    assert f"pipelines/{NAME}/applied/{wanted.sha256}.json" in state["objects"]
    assert wanted.assets[0].uri.removeprefix(f"s3://{place.bucket}/") in state["objects"]
    assert list(state["rules"]) == [f"{NAME}_approved"]
    assert list(state["schedules"]) == [resource_name(NAME, "daily")]
    assert place.plan(wanted).is_empty


def test_applying_again_writes_nothing_and_the_definition_stays_the_same_bytes(place: Place) -> None:
    wanted = place.wanted(triggers=(place.rule(), place.schedule()))
    place.apply(wanted)
    before, calls = place.state(), len(place.service.calls)
    done = place.apply(place.wanted(triggers=(place.rule(), place.schedule())))
    made = [call.partition(":")[2] for call in place.service.calls[calls:] if ":" in call]
    assert done.said["done"] == [] and done.version is None
    assert not [call for call in made if call.startswith(("Create", "Update", "Delete", "Put", "Add", "Remove"))]
    assert place.state() == before


def test_an_update_changes_what_differs_and_nothing_else(place: Place) -> None:
    place.apply(place.wanted(triggers=(place.rule(), place.schedule())))
    place.outside.client("sagemaker").add_tags(
        ResourceArn=place.wanted().arn, Tags=[{"Key": "cost-centre", "Value": "7"}]
    )
    changed = place.wanted(
        definition=definition("ml.m5.2xlarge"),
        description="",
        max_parallel=3,
        tags={"team": "speech"},
        triggers=(place.rule("Rejected"), place.schedule("rate(2 days)", name="other")),
    )
    done = place.apply(changed)
    state = place.state()
    pipeline = state["pipelines"][NAME]
    assert done.version == 2
    assert pipeline["PipelineDefinition"] == changed.text
    assert pipeline["PipelineDescription"] in (None, "")
    assert pipeline["parallel"] == {"MaxParallelExecutionSteps": 3}
    assert pipeline["tags"] == {"team": "speech", "cost-centre": "7", APPLIED: changed.sha256}
    assert list(state["schedules"]) == [resource_name(NAME, "other")]
    assert "Rejected" in state["rules"][f"{NAME}_approved"][0]
    assert place.plan(changed).is_empty


def scenario(place: Place, update: bool) -> tuple[Any, Any]:
    first = place.wanted(triggers=(place.schedule(), place.rule())) if update else None
    second = place.wanted(
        definition=definition("ml.m5.2xlarge"),
        tags={"team": "speech"},
        triggers=(place.schedule("rate(2 days)"), place.rule(name="rejected", status="Rejected")),
    )
    return first, second


@in_turn
@pytest.mark.parametrize("update", [False, True], ids=["create", "update"])
def test_applying_again_after_a_kill_reaches_the_same_state(place: Place, update: bool, every: int) -> None:
    """A killed process runs no more code, so nothing is taken back."""
    for number in range(0, 40, every):
        here = replace(place, name=f"n{number}-{NAME}")
        first, second = scenario(here, update)
        if first is not None:
            here.apply(first)
        counting = Counting(place, at=number)
        try:
            apply(counting, second, here.plan(second))
        except Killed:
            pass
        else:
            break
        between = here.plan(second)
        assert between.refusal is None, (number, counting.calls[-1], between.overwritten)
        apply(here.account, second, between)
        found = here.deployed()
        assert found is not None
        assert found.text == second.text
        around = digest_of(second.surroundings)
        ours = {APPLIED: second.sha256, APPLIED_AROUND: around, OWNER: second.owner.tag}
        assert found.tags == {"team": "speech", **ours}
        assert [trigger.name for trigger in found.triggers] == [
            f"{here.name}_rejected",
            resource_name(here.name, "daily"),
        ]
        assert found.triggers == tuple(sorted(second.triggers, key=lambda trigger: trigger.key))
    assert number >= len(counting.calls) == (17 if update else 16)


def test_after_a_crash_an_edit_of_the_code_is_no_drift(place: Place) -> None:
    """What was written before the crash is known as ours by the tag that announced it."""
    place.apply(place.wanted())
    second = place.wanted(definition=definition("ml.m5.2xlarge"))
    with pytest.raises(Killed):
        apply(KilledAfter(place, "update_pipeline"), second, place.plan(second))
    deployed = place.deployed()
    assert deployed is not None and deployed.tags[APPLYING] == second.sha256 != deployed.tags[APPLIED]
    third = place.wanted(definition=definition("ml.m5.4xlarge"))
    plan = place.plan(third)
    assert plan.drift == () and plan.refusal is None
    place.apply(third)
    assert place.state()["pipelines"][NAME]["tags"] == {"team": "vision", APPLIED: third.sha256}


@pytest.mark.slow
@pytest.mark.parametrize("edited", [False, True])
def test_after_two_crashes_with_different_code_only_an_edit_is_drift(place: Place, edited: bool) -> None:
    place.apply(place.wanted())

    def killed_after(operation: str, instance: str) -> None:
        wanted = place.wanted(definition=definition(instance))
        with pytest.raises(Killed):
            apply(KilledAfter(place, operation), wanted, place.plan(wanted, discarded=["all"]))

    killed_after("update_pipeline", "ml.m5.2xlarge")
    if edited:
        place.edit(Parameters=[])
    killed_after("add_tags", "ml.m5.4xlarge")
    third = place.wanted(definition=definition("ml.m5.12xlarge"))
    plan = place.plan(third)
    assert [change.place for change in plan.drift] == (["parameters.MinAccuracy"] if edited else [])
    apply(place.account, third, place.plan(third, discarded=["all"]))
    assert place.state()["pipelines"][NAME]["tags"] == {"team": "vision", APPLIED: third.sha256}


@pytest.mark.slow
def test_an_edit_after_a_crash_is_drift_against_what_was_written_last(place: Place) -> None:
    place.apply(place.wanted())
    second = place.wanted(definition=definition("ml.m5.2xlarge", rows="20"))
    place.outside.client("sagemaker").add_tags(ResourceArn=second.arn, Tags=[{"Key": APPLYING, "Value": second.sha256}])
    place.apply(second)  # leaves the record
    place.outside.client("sagemaker").add_tags(
        ResourceArn=second.arn,
        Tags=[{"Key": APPLYING, "Value": second.sha256}, {"Key": APPLIED, "Value": place.wanted().sha256}],
    )
    edited = json.loads(second.text)["Parameters"]
    edited[0]["DefaultValue"] = 0.5
    place.edit(Parameters=edited)
    plan = place.plan(second)
    assert [change.place for change in plan.drift] == ["parameters.MinAccuracy.DefaultValue"]


def test_drift_is_refused_unless_named(place: Place) -> None:
    place.apply(place.wanted())
    steps = definition("ml.m5.4xlarge", rows="30")["Steps"]
    place.edit(Steps=steps)
    wanted = place.wanted()
    plan = place.plan(wanted)
    places = [change.place for change in plan.overwritten]
    assert len(places) == 2 and any(where.endswith("InstanceType") for where in places)
    with pytest.raises(UserError, match="was edited since the last apply") as refused:
        apply(place.account, wanted, plan)
    assert places[0] in str(refused.value) and "drivetrain pull" in str(refused.value)
    with pytest.raises(UserError, match="would undo it"):
        apply(place.account, wanted, place.plan(wanted, discarded=[places[0]]))
    with pytest.raises(UserError, match="would undo it"):
        apply(place.account, wanted, place.plan(wanted, discarded=[places[0][:-1]]))
    apply(place.account, wanted, place.plan(wanted, discarded=["steps.prepare", "steps.train"]))
    assert place.state()["pipelines"][NAME]["PipelineDefinition"] == wanted.text
    place.edit(Steps=steps)
    apply(place.account, wanted, place.plan(wanted, discarded=["all"]))
    assert place.plan(wanted).is_empty


@pytest.mark.slow
def test_drift_equal_to_the_code_is_accepted(place: Place) -> None:
    place.apply(place.wanted())
    place.edit(Steps=definition("ml.m5.4xlarge")["Steps"])
    wanted = place.wanted(definition=definition("ml.m5.4xlarge"))
    merged = replace(wanted, definition={**wanted.definition, "Metadata": place.wanted().definition["Metadata"]})
    plan = place.plan(merged)
    assert plan.drift and not plan.overwritten and [change.kind for change in plan.changes] == ["record"]
    done = place.apply(merged)
    assert done.version is None  # the service has it already, in another spelling
    assert place.plan(merged).is_empty


def test_a_foreign_pipeline_is_not_taken_over(place: Place) -> None:
    client = place.outside.client("sagemaker")
    wanted = place.wanted()
    client.create_pipeline(
        PipelineName=NAME,
        PipelineDefinition=json.dumps({"Version": "2020-12-01", "Steps": []}),
        RoleArn=wanted.role,
        ClientRequestToken="t" * 32,
    )
    plan = place.plan(wanted)
    assert plan.foreign
    with pytest.raises(UserError, match="was not made by `drivetrain apply`"):
        apply(place.account, wanted, plan)
    place.apply(wanted, discarded=["all"])
    assert place.plan(wanted).is_empty


@pytest.mark.slow_cases(but=["tags"])
@pytest.mark.parametrize("what", ["edit", "tags", "trigger", "deleted", "code"])
def test_a_stale_plan_is_refused(place: Place, what: str) -> None:
    place.apply(place.wanted(triggers=(place.schedule(),)))
    wanted = place.wanted(definition=definition("ml.m5.2xlarge"), triggers=(place.schedule(),))
    plan = place.plan(wanted)
    if what == "edit":
        place.edit(Parameters=[])
    elif what == "tags":
        place.outside.client("sagemaker").delete_tags(ResourceArn=wanted.arn, TagKeys=[APPLIED])
    elif what == "trigger":
        place.outside.client("scheduler").delete_schedule(Name=resource_name(NAME, "daily"))
    elif what == "deleted":
        place.outside.client("sagemaker").delete_pipeline(PipelineName=NAME)
    else:
        wanted = place.wanted(definition=definition("ml.m5.8xlarge"), triggers=(place.schedule(),))
    before = place.state()
    with pytest.raises(UserError, match="The plan is stale") as refused:
        apply(place.account, wanted, plan)
    assert "Make a new plan: drivetrain plan nightly" in str(refused.value)
    assert place.state() == before


@pytest.mark.slow_cases(but=["put_rule"])
@pytest.mark.parametrize("denied", ["create_schedule", "put_rule", "put_targets"])
def test_a_new_pipeline_is_rolled_back_if_its_triggers_are_refused(place: Place, denied: str) -> None:
    wanted = place.wanted(triggers=(place.rule(), place.schedule()))
    with pytest.raises(HalfDoneError, match=r"Taken back: .*the new pipeline") as failed:
        apply(Denying(place, denied), wanted, place.plan(wanted))
    assert f"AWS denies {denied}." in str(failed.value) and "NOT taken back" not in str(failed.value)
    state = place.state()
    assert not state["pipelines"] and not state["rules"] and not state["schedules"]
    place.apply(wanted)
    assert place.plan(wanted).is_empty


@pytest.mark.slow_cases(but=["update_schedule"])
@pytest.mark.parametrize("denied", ["update_schedule", "put_rule", "delete_rule", "remove_targets", "delete_tags"])
def test_an_update_is_rolled_back_if_a_part_is_refused(place: Place, denied: str) -> None:
    first, second = scenario(place, update=True)
    place.apply(first)
    before = place.state()
    with pytest.raises(HalfDoneError, match="Applying failed: AWS denies"):
        apply(Denying(place, denied, times=1), second, place.plan(second))
    after = place.state()
    assert after["rules"] == before["rules"] and after["schedules"] == before["schedules"]
    assert after["pipelines"] == before["pipelines"]
    place.apply(second)
    assert place.plan(second).is_empty


@pytest.mark.slow
def test_failed_rollbacks_are_reported(place: Place) -> None:
    first, second = scenario(place, update=True)
    place.apply(first)
    account = Denying(place, "update_schedule", "update_pipeline", after=1)
    with pytest.raises(HalfDoneError, match="NOT taken back: the pipeline"):
        apply(account, second, place.plan(second))
    assert place.plan(second).refusal is None
    place.apply(second)
    assert place.plan(second).is_empty


def test_an_update_with_a_lost_answer_is_rolled_back(place: Place) -> None:
    place.apply(place.wanted())
    before = place.state()["pipelines"]
    second = place.wanted(definition=definition("ml.m5.2xlarge"))

    class Losing(Account):
        lost = False

        def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
            said = super().call(service, operation, about=about, **arguments)
            if operation == "update_pipeline" and not self.lost:
                self.lost = True
                raise ServiceError("AWS cannot be reached.")
            return said

    with pytest.raises(HalfDoneError, match="Taken back: the pipeline"):
        apply(Losing(place.outside.region), second, place.plan(second))
    assert place.state()["pipelines"] == before


def test_a_pipeline_created_before_ctrl_c_is_rolled_back(place: Place) -> None:
    wanted = place.wanted()

    class Losing(Account):
        def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
            said = super().call(service, operation, about=about, **arguments)
            if operation == "create_pipeline":
                raise KeyboardInterrupt
            return said

    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        apply(Losing(place.outside.region), wanted, place.plan(wanted), tell=told.append)
    assert "Taken back: the new pipeline." in told
    assert not place.state()["pipelines"]


def test_a_pipeline_that_somebody_else_made_in_the_same_moment_is_not_deleted(place: Place) -> None:
    wanted = place.wanted()

    class Raced(Account):
        def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
            if operation == "create_pipeline":
                client = place.outside.client("sagemaker")
                client.create_pipeline(
                    PipelineName=NAME,
                    PipelineDefinition=wanted.text,
                    RoleArn=wanted.role,
                    ClientRequestToken="theirs-" + "x" * 32,
                )
            return super().call(service, operation, about=about, **arguments)

    with pytest.raises(HalfDoneError):
        apply(Raced(place.outside.region), wanted, place.plan(wanted))
    assert list(place.state()["pipelines"]) == [NAME]


def test_a_concurrent_writer_is_reported(place: Place) -> None:
    wanted = place.wanted()

    class Raced(Account):
        def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
            said = super().call(service, operation, about=about, **arguments)
            if operation == "create_pipeline":
                place.edit(Steps=[processing("theirs")])
            return said

    with pytest.raises(UserError, match=r"is no longer as written .*the pipeline differs"):
        apply(Raced(place.outside.region), wanted, place.plan(wanted))


class Interrupted(Account):
    """Somebody saves an edit before or after the first call of a name."""

    def __init__(self, place: Place, operation: str, *, after: bool = False) -> None:
        super().__init__(place.outside.region)
        self._clients = place.account._clients
        self.place, self.operation, self.after = place, operation, after
        self.edited = False

    def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
        turn = operation == self.operation and not self.edited
        self.edited = self.edited or turn
        if turn and not self.after:
            self.place.edit(Steps=[processing("theirs")])
        said = super().call(service, operation, about=about, **arguments)
        if turn and self.after:
            self.place.edit(Steps=[processing("theirs")])
        return said


@pytest.mark.slow_cases(but=["put_object"])
@pytest.mark.parametrize("moment", ["put_object", "add_tags", "update_pipeline"])
def test_an_edit_saved_during_apply_is_not_lost(place: Place, moment: str) -> None:
    first = place.wanted()
    place.apply(first)
    second = place.wanted(definition=definition("ml.m5.2xlarge"))
    with pytest.raises(UserError, match=r"while apply w|The plan is stale.* was changed since it was made"):
        apply(Interrupted(place, moment), second, place.plan(second))
    state = place.state()["pipelines"][NAME]
    assert [step["Name"] for step in json.loads(state["PipelineDefinition"])["Steps"]] == ["theirs"]
    assert state["tags"] == {"team": "vision", APPLIED: first.sha256}
    assert place.plan(second).refusal is not None


class DeniedThenKilled(Counting):
    """Is denied a schedule, and killed after one of its calls: while taking back, that is, where it is a late one."""

    def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
        if operation == "create_schedule":
            raise ServiceError("AWS denies create_schedule.", code="AccessDeniedException")
        return super().call(service, operation, about=about, **arguments)


@in_turn
def test_a_kill_during_rollback_leaves_no_apparent_edit(place: Place, every: int) -> None:
    for number in range(0, 40, every):
        here = replace(place, name=f"b{number}-{NAME}")
        here.apply(here.wanted())
        second = here.wanted(definition=definition("ml.m5.2xlarge"), triggers=(here.schedule(),))
        account = DeniedThenKilled(here, at=number)
        with pytest.raises((Killed, HalfDoneError)) as ended:
            apply(account, second, here.plan(second))
        plan = here.plan(second)
        assert plan.refusal is None, (number, account.calls)
        here.apply(second)
        assert here.plan(second).is_empty
        if ended.type is HalfDoneError:
            break
    assert ended.type is HalfDoneError
    assert account.calls.count("sagemaker:update_pipeline") == 2


@pytest.mark.slow_cases("fault1-HalfDoneError")
@pytest.mark.parametrize(("fault", "ends"), [(KeyboardInterrupt(), KeyboardInterrupt), (OSError(), HalfDoneError)])
def test_parts_that_stay_keep_their_tags(place: Place, fault: BaseException, ends: type[BaseException]) -> None:
    """Without them, the next apply would take the new definition for somebody's edit."""
    place.apply(place.wanted())
    second = place.wanted(definition=definition("ml.m5.2xlarge"), triggers=(place.schedule(),))

    class Ending(Denying):
        def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
            if operation == "describe_pipeline" and self.turn:
                raise fault
            return super().call(service, operation, about=about, **arguments)

    with pytest.raises(ends):
        apply(Ending(place, "create_schedule"), second, place.plan(second))
    assert APPLYING in place.state()["pipelines"][NAME]["tags"]
    assert place.plan(second).refusal is None
    place.apply(second)
    assert place.plan(second).is_empty


class EditedThenDenied(Denying):
    """Somebody saves an edit of what was just written, then a schedule is denied."""

    place: Place

    def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
        if operation == "create_schedule":
            self.place.edit(Parameters=[{"Name": "Theirs", "Type": "String", "DefaultValue": "x"}])
        return super().call(service, operation, about=about, **arguments)


@pytest.mark.slow_cases("update")
@pytest.mark.parametrize("update", [False, True], ids=["create", "update"])
def test_later_changes_of_others_are_not_rolled_back(place: Place, update: bool) -> None:
    if update:
        place.apply(place.wanted())
    second = place.wanted(definition=definition("ml.m5.2xlarge"), triggers=(place.schedule(),))
    account = EditedThenDenied(place, "create_schedule")
    account.place = place
    with pytest.raises(HalfDoneError, match=r"NOT taken back: the .*pipeline .*another user changed it since"):
        apply(account, second, place.plan(second))
    state = place.state()["pipelines"][NAME]
    edited = json.loads(state["PipelineDefinition"])
    assert [parameter["Name"] for parameter in edited["Parameters"]] == ["Theirs"]
    # The edit, and nothing else, is drift from what was written.
    drift = place.plan(second).drift
    assert {change.place.split(".")[1] for change in drift} == {"Theirs", "MinAccuracy"}


def test_an_object_under_a_hash_with_other_bytes_is_found_out(place: Place) -> None:
    wanted = place.wanted()
    key = wanted.assets[0].uri.removeprefix(f"s3://{place.bucket}/")
    place.outside.client("s3").put_object(Bucket=place.bucket, Key=key, Body=b"torn")
    with pytest.raises(UserError, match="is not there, or not as it was written"):
        place.apply(wanted)


def test_bytes_that_are_not_those_of_the_hash_are_refused_by_the_service(place: Place) -> None:
    wanted = place.wanted()
    asset = wanted.assets[0]
    broken = replace(wanted, assets=(Asset(asset.uri, "0" * 64, asset.content),))
    with pytest.raises(ServiceError, match=r"start\.py"):
        place.apply(broken)
    assert not place.state()["pipelines"]


def test_an_unassumable_role_is_reported_before_its_use(place: Place) -> None:
    wanted = place.wanted(role=f"arn:aws:iam::{place.outside.number}:role/unassumable")
    with pytest.raises(HalfDoneError, match="SageMaker cannot use the role"):
        place.apply(wanted)
    assert not place.state()["pipelines"]


def test_a_pipeline_with_an_alias_may_change_beside_its_definition(place: Place) -> None:
    """An update with aliases and the definition that is there is refused, so no aliases go with it."""
    place.apply(place.wanted())
    client = place.outside.client("sagemaker")
    with pytest.raises(client.exceptions.ClientError, match="Aliases cannot be given"):
        client.update_pipeline(PipelineName=NAME, PipelineVersionAliases=["live"])
    role = f"arn:aws:iam::{place.outside.number}:role/other"
    place.apply(place.wanted(role=role))
    deployed = place.deployed()
    assert deployed is not None and deployed.role == role


@pytest.mark.slow
def test_a_definition_that_is_longer_than_a_request_goes_through_the_bucket(place: Place) -> None:
    wanted = place.wanted(definition=long_definition())
    place.apply(wanted)
    deployed = place.deployed()
    assert deployed is not None and differences(deployed.definition, wanted.definition) == ()
    plan = place.plan(wanted)
    assert plan.is_empty and "goes through the bucket" in " ".join(plan.notes)
