"""How a pipeline is written to a cluster; the flow of an apply is in deploying/applying.py.

    1. objects that are missing           named by content; uploading again changes nothing
    2. pipeline and experiment            made where they are not there; their names are unique
    3. the version                        named by number and content
    4. new recurring runs come            first, so that a refusal leaves the schedule that there is
    5. outdated ones go                   at once, so that no time is started twice

A process that is killed in between leaves a state from which applying again goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from drivetrain.assets.uploads import size_of
from drivetrain.base.errors import UserError
from drivetrain.deploying.applying import Journal, Left, Tell, Written
from drivetrain.deploying.plan import Plan, Terms
from drivetrain.targets.kubeflow.deploy import deployed as reading
from drivetrain.targets.kubeflow.deploy import service
from drivetrain.targets.kubeflow.deploy.deployed import Deployed, RecurringRun, body_of, digest, mark_of, marked
from drivetrain.targets.kubeflow.deploy.desired import Desired, Recurring
from drivetrain.targets.kubeflow.deploy.objects import Objects
from drivetrain.targets.kubeflow.deploy.planning import kept_and_gone, make_plan
from drivetrain.targets.kubeflow.deploy.rest import Api, ApiError


class Namespace:
    """A namespace of a cluster, as one apply writes to it: a `Place` of deploying/applying.py."""

    unanswered: type[UserError] = UserError

    def __init__(self, api: Api, objects: Objects, wanted: Desired, tell: Tell) -> None:
        self.api = api
        self.objects = objects
        self.wanted = wanted
        self.where = wanted.settings.where
        self.journal = Journal(tell)

    def read(self) -> Deployed | None:
        return reading.read(self.api, self.wanted.name)

    def state_of(self, there: Deployed | None) -> str:
        return reading.fingerprint(there)

    def plan(self, there: Deployed | None, terms: Terms) -> Plan:
        return make_plan(self.objects, self.wanted, there, terms)

    def changed_by(self, there: Deployed | None) -> str:
        return ""

    def alone(self) -> AbstractContextManager[object]:
        return nullcontext()  # names are unique there

    def upload(self, plan: Plan) -> None:
        """Step 1; another owner's record is replaced where it is taken over."""
        wanted = self.wanted
        missing = list(self.objects.missing(wanted.assets))
        record = wanted.owner.record(wanted.root)
        if plan.owner is not None and record not in missing:
            missing.insert(0, record)
        for asset in missing:
            self.objects.put(asset)
            self.journal.add(f"uploaded {asset.uri} ({size_of(asset):,} bytes)")

    def write(self, there: Deployed | None, plan: Plan) -> Written:
        """Steps 2 to 5."""
        id = self._pipeline() if there is None else there.id
        self._schedules(id, self._version(id, there, plan), there, plan)
        return Written(f"pipeline {self.wanted.name!r} in {self.where}", {"id": id}, plan.version)

    def _pipeline(self) -> str:
        """Step 2; gives the pipeline's id."""
        wanted = self.wanted
        description = marked(wanted.description, pipeline=wanted.name, root=wanted.root, project=wanted.project)
        made, is_mine = service.create_pipeline(self.api, wanted.api_name, wanted.name, description)
        id = str(made["pipeline_id"])
        if is_mine:  # what another apply made is not this one's to take back, nor are its versions
            undo = partial(service.delete_pipeline, self.api, id, wanted.name, versions=False)
            self.journal.add(f"created pipeline {wanted.name!r}", undo)
        elif (now := reading.read(self.api, wanted.name, recurring=False)) is not None:
            now.refuse_other(wanted.root, wanted.project, "It was made at this moment.")
        return id

    def _version(self, pipeline: str, there: Deployed | None, plan: Plan) -> str:
        """Step 3; gives the id of the version that is to be started."""
        if plan.version is None:
            assert there is not None and there.newest is not None
            return there.newest.id
        wanted = self.wanted
        mark = marked(wanted.description, sha256=wanted.sha256, root=wanted.root, project=wanted.project)
        made, is_mine = service.upload_version(self.api, pipeline, plan.version, mark, wanted.text)
        id = str(made["pipeline_version_id"])
        if is_mine:
            undo = partial(service.delete_version, self.api, pipeline, id)
            self.journal.add(f"uploaded version {plan.version}", undo)
        return id

    def _schedules(self, pipeline: str, version: str, there: Deployed | None, plan: Plan) -> None:
        """Steps 4 and 5; `pipeline` and `version` are ids."""
        kept, gone = kept_and_gone(self.wanted, there, replaced=plan.version is not None)
        new = [each for each in self.wanted.recurring if each.trigger not in kept]
        experiment = self._experiment() if new else ""
        for each in new:
            made = self._create(_body(self.wanted, each, experiment, pipeline, version))
            id, name = str(made["recurring_run_id"]), f"schedule {each.trigger!r}"
            self.journal.add(f"created {name}", partial(service.delete_recurring_run, self.api, id, name))
            reading.check_namespace(self.api, made)
        for old in gone:
            service.delete_recurring_run(self.api, old.id, old.name)
            self.journal.add(f"deleted outdated schedule {old.trigger!r}", partial(self._create, _as_it_was(old)))

    def _experiment(self) -> str:
        """The id of the experiment."""
        name = self.wanted.experiment
        id, made = ensure_experiment(self.api, name)
        if made:
            self.journal.add(f"created experiment {name!r}", partial(service.delete_experiment, self.api, id, name))
        return id

    def _create(self, body: dict[str, Any]) -> dict[str, Any]:
        """Make a recurring run, once."""
        return service.created_once(
            lambda: service.create_recurring_run(self.api, body),
            lambda: next((each for each in service.recurring_runs(self.api) if _is_same(each, body)), None),
        )

    def half_done(self, error: UserError | None, undone: Sequence[str], left: Sequence[Left]) -> str:
        for what in undone:
            self.journal.tell(f"taken back: {what}")
        for what, _ in left:
            self.journal.tell(f"NOT taken back: {what}")
        if error is None:
            return ""
        state = "What was done is taken back." if undone else "Nothing was changed."
        if left:
            named = "; ".join(f"{what} ({why})" for what, why in left)
            state = f"Not taken back: {named}. Applying again goes on from there."
        if isinstance(error, ApiError) and error.may_be_done:
            state += " The request that failed may have been done all the same; applying again settles it."
        return f"{str(error).rstrip('.')}. {state}"

    def read_again(self) -> list[str]:
        fresh = self.plan(self.read(), Terms())
        found = [f"{each.kind} {each.name!r}" for each in fresh.triggers] + [each.uri for each in fresh.uploads]
        return found if fresh.version is None else ["its newest version", *found]


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
    """The request that makes a deleted recurring run anew."""
    said = old.said
    kept = ("display_name", "description", "experiment_id", "pipeline_version_reference", "trigger", "runtime_config")
    body: dict[str, Any] = {name: said[name] for name in kept if said.get(name) is not None}
    return {**body, **{name: old.body[name] for name in old.body if name not in ("trigger", "runtime_config")}}


def _is_same(there: dict[str, Any], body: dict[str, Any]) -> bool:
    """True of the recurring run that a request asked for."""
    names = ("display_name", "pipeline_version_reference")
    return (
        all(there.get(name) == body[name] for name in names)
        and mark_of(there) == mark_of(body)
        and body_of(there) == body_of(body)
    )
