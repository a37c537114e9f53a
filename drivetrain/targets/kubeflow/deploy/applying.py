"""Make the cluster what the code says: exactly the plan, or nothing.

    1. objects that are missing           named by content; uploading again changes nothing
    2. pipeline and experiment            made where they are not there; their names are unique
    3. the version                        named by number and content
    4. new recurring runs come            first, so that a refusal leaves the schedule that there is
    5. outdated ones go                   at once, so that no time is started twice
    6. read again

A process that is killed in between leaves a state from which applying again goes on. A refusal in between takes back
what was done of 2 to 5, in reverse; what could not be taken back is named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.targets.deployer import Tell
from drivetrain.targets.kubeflow.deploy import deployed as reading
from drivetrain.targets.kubeflow.deploy import service
from drivetrain.targets.kubeflow.deploy.deployed import Deployed, RecurringRun, body_of, digest, mark_of, marked
from drivetrain.targets.kubeflow.deploy.desired import Desired, Recurring
from drivetrain.targets.kubeflow.deploy.objects import Objects, size_of
from drivetrain.targets.kubeflow.deploy.planning import DeploymentPlan, kept_and_gone, make_plan
from drivetrain.targets.kubeflow.deploy.rest import Api, ApiError

CREATE_ATTEMPTS = 3
"""Of a request whose answer was lost, and which was not done."""


class HalfDoneError(UserError):
    """Apply failed on the way; the message says what was taken back, and what was not."""


@dataclass
class Result:
    """What apply did."""

    pipeline_id: str = ""
    version: str | None = None
    done: list[str] = field(default_factory=list[str])
    is_empty: bool = False


def apply(api: Api, objects: Objects, wanted: Desired, plan: DeploymentPlan, tell: Tell) -> Result:
    """Write what differs.

    Args:
        wanted: what the code says now; it must be what the plan was made of.
        tell: gets a line for each thing that was done.

    Raises:
        UserError: the plan is stale, or would undo what others did (before anything is written).
        HalfDoneError: something was refused on the way.
    """
    there, fresh = checked(api, objects, wanted, plan)
    if fresh.is_empty and there is not None:
        return Result(there.id, is_empty=True)
    one = _Applying(api, objects, wanted, tell, plan.as_given)
    one.upload(taken_over=fresh.owner is not None)
    # Uploads take minutes, and somebody may have changed the pipeline meanwhile.
    there, fresh = checked(api, objects, wanted, plan)
    try:
        one.write(there, fresh)
    except (Exception, KeyboardInterrupt) as error:
        one.take_back(error)
    one.read_again()
    return one.result


def checked(
    api: Api, objects: Objects, wanted: Desired, plan: DeploymentPlan
) -> tuple[Deployed | None, DeploymentPlan]:
    """What is there, and the plan for it.

    Raises:
        UserError: the plan is stale, or would undo what others did.
    """
    again = f"Make a new plan: drivetrain plan {plan.as_given}"
    if (plan.pipeline, plan.endpoint, plan.namespace) != (wanted.name, wanted.settings.endpoint, api.namespace):
        raise UserError(
            f"The plan is for pipeline {plan.pipeline!r} in namespace {plan.namespace!r} at {plan.endpoint}; this is "
            f"{wanted.name!r} in {api.namespace!r} at {wanted.settings.endpoint}."
        )
    if plan.code != wanted.fingerprint:
        raise UserError(f"The plan is stale: the code or its settings are not those it was made of. {again}")
    there = reading.read(api, wanted.name)
    if plan.state != reading.fingerprint(there):
        raise UserError(f"The plan is stale: pipeline {wanted.name!r} was changed since it was made. {again}")
    fresh = make_plan(objects, wanted, there, discarded=plan.discarded, adopted=plan.adopted, origin=plan.origin)
    if (refusal := fresh.refusal()) is not None:
        raise UserError(refusal)
    return there, fresh


class _Applying:
    """One apply."""

    def __init__(self, api: Api, objects: Objects, wanted: Desired, tell: Tell, again: str) -> None:
        self.api = api
        self.objects = objects
        self.wanted = wanted
        self.tell = tell
        self._again = again
        self.result = Result()
        self._undo: list[tuple[str, Callable[[], object]]] = []
        """What takes back each thing that was done, and its name."""

    def upload(self, *, taken_over: bool) -> None:
        """Step 1; another owner's record is replaced where it is taken over."""
        missing = list(self.objects.missing(self.wanted.assets))
        record = self.wanted.owner.record(self.wanted.root)
        if taken_over and record not in missing:
            missing.insert(0, record)
        for asset in missing:
            self.objects.put(asset)
            self.done(f"uploaded {asset.uri} ({size_of(asset):,} bytes)")

    def write(self, there: Deployed | None, plan: DeploymentPlan) -> None:
        """Steps 2 to 5."""
        api, wanted = self.api, self.wanted
        if there is None:
            description = marked(wanted.description, pipeline=wanted.name, root=wanted.root, project=wanted.project)
            made, is_mine = service.create_pipeline(api, wanted.api_name, wanted.name, description)
            id = str(made["pipeline_id"])
            if is_mine:  # what another apply made is not this one's to take back, nor are its versions
                undo = partial(service.delete_pipeline, api, id, wanted.name, versions=False)
                self.did(f"created pipeline {wanted.name!r}", undo)
            elif (now := reading.read(api, wanted.name, recurring=False)) is not None:
                now.refuse_other(wanted.root, wanted.project, "It was made at this moment.")
        else:
            id = there.id
        self.result.pipeline_id = id
        version_id = self.write_version(id, there, plan)
        self.write_schedules(id, version_id, there, plan)

    def write_version(self, pipeline_id: str, there: Deployed | None, plan: DeploymentPlan) -> str:
        """Step 3; gives the id of the version that is to be started."""
        if plan.version is None:
            assert there is not None and there.newest is not None
            return there.newest.id
        api, wanted = self.api, self.wanted
        mark = marked(wanted.description, sha256=wanted.sha256, root=wanted.root, project=wanted.project)
        made, is_mine = service.upload_version(api, pipeline_id, plan.version, mark, wanted.text)
        id = str(made["pipeline_version_id"])
        self.result.version = plan.version
        if is_mine:
            self.did(f"uploaded version {plan.version}", lambda: service.delete_version(api, pipeline_id, id))
        return id

    def write_schedules(self, pipeline_id: str, version_id: str, there: Deployed | None, plan: DeploymentPlan) -> None:
        """Steps 4 and 5."""
        kept, gone = kept_and_gone(self.wanted, there, replaced=plan.version is not None)
        new = [each for each in self.wanted.recurring if each.trigger not in kept]
        experiment = self.experiment() if new else ""
        for each in new:
            made = self.create(_body(self.wanted, each, experiment, pipeline_id, version_id))
            id, name = str(made["recurring_run_id"]), f"schedule {each.trigger!r}"
            self.did(f"created {name}", lambda id=id, name=name: service.delete_recurring_run(self.api, id, name))
            reading.check_namespace(self.api, made)
        for old in gone:
            service.delete_recurring_run(self.api, old.id, old.name)
            self.did(f"deleted outdated schedule {old.trigger!r}", lambda old=old: self.create(_as_it_was(old)))

    def experiment(self) -> str:
        """The id of the experiment."""
        name = self.wanted.experiment
        id, made = ensure_experiment(self.api, name)
        if made:
            self.did(f"created experiment {name!r}", lambda: service.delete_experiment(self.api, id, name))
        return id

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        """Make a recurring run, once: where the answer is lost, it is looked for before the next attempt."""
        for attempt in range(CREATE_ATTEMPTS):
            try:
                return service.create_recurring_run(self.api, body)
            except ApiError as error:
                if not error.may_be_done:
                    raise
                for each in service.recurring_runs(self.api):
                    if _is_same(each, body):
                        return each
                if attempt == CREATE_ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def read_again(self) -> None:
        """Step 6.

        Raises:
            UserError: it is not what was written.
        """
        try:
            there = reading.read(self.api, self.wanted.name)
            fresh = make_plan(self.objects, self.wanted, there)
        except UserError as error:
            self.done(f"Applied, but could not be checked: {error}")
            return
        if not fresh.is_empty:
            raise UserError(
                f"Pipeline {self.wanted.name!r} was written, but is no longer as written: somebody else "
                f"changes it at the same time. See what differs: drivetrain plan {self._again}"
            )

    def did(self, line: str, undo: Callable[[], object]) -> None:
        self._undo.append((line, undo))
        self.done(line)

    def done(self, line: str) -> None:
        self.result.done.append(line)
        self.tell(line)

    def take_back(self, error: BaseException) -> None:
        """Undo what was done, the last first.

        Raises:
            HalfDoneError, or the interrupt: always.
        """
        left: list[str] = []
        for line, undo in reversed(self._undo):
            try:
                undo()
                self.tell(f"taken back: {line}")
            except (Exception, KeyboardInterrupt) as other:
                left.append(f"{line} ({other})")
                self.tell(f"NOT taken back: {line}")
        if isinstance(error, KeyboardInterrupt):
            raise error
        state = f"Not taken back: {'; '.join(left)}. Applying again goes on from there." if left else (
            "What was done is taken back." if self._undo else "Nothing was changed."
        )  # fmt: skip
        if isinstance(error, ApiError) and error.may_be_done:
            state += " The request that failed may have been done all the same; applying again settles it."
        raise HalfDoneError(f"{str(error).rstrip('.')}. {state}") from error


def ensure_experiment(api: Api, name: str) -> tuple[str, bool]:
    """The id of the experiment, and whether it was made since it was not there."""
    found, made = service.find_experiment(api, name), False
    if found is None:
        found, made = service.create_experiment(api, name, marked("", experiment=name))
    return str(found["experiment_id"]), made


def _body(wanted: Desired, recurring: Recurring, experiment: str, pipeline_id: str, version_id: str) -> dict[str, Any]:
    return {
        **recurring.body,
        "display_name": f"{wanted.name}-{recurring.trigger}",
        "description": marked(
            "",
            trigger=recurring.trigger,
            digest=digest(recurring.body),
            service_account=recurring.body.get("service_account"),
        ),
        "experiment_id": experiment,
        "pipeline_version_reference": {"pipeline_id": pipeline_id, "pipeline_version_id": version_id},
    }


def _as_it_was(old: RecurringRun) -> dict[str, Any]:
    """What makes a recurring run anew that was deleted."""
    said = old.said
    kept = ("display_name", "description", "experiment_id", "pipeline_version_reference", "trigger", "runtime_config")
    body: dict[str, Any] = {name: said[name] for name in kept if said.get(name) is not None}
    return {**body, **{name: old.body[name] for name in old.body if name not in ("trigger", "runtime_config")}}


def _is_same(there: dict[str, Any], body: dict[str, Any]) -> bool:
    """Whether a recurring run is the one that a request asked for."""
    names = ("display_name", "pipeline_version_reference")
    return (
        all(there.get(name) == body[name] for name in names)
        and mark_of(there) == mark_of(body)
        and body_of(there) == body_of(body)
    )
