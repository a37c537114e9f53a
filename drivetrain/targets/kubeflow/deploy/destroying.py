"""Take away all that apply made, and the records of executions; what executions wrote to the storage stays.

First what starts the pipeline, then the pipeline, then what it was made of. Destroying again goes on where it stopped.
Schedules are switched off before executions are looked at: one that starts every minute would never let them end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.deploying.applying import Tell
from drivetrain.run_store.model import GOING
from drivetrain.targets.kubeflow.deploy import service
from drivetrain.targets.kubeflow.deploy.deployed import Deployed, RecurringRun, fingerprint, mark_of, read
from drivetrain.targets.kubeflow.deploy.executions.executions import is_of, status_of
from drivetrain.targets.kubeflow.deploy.objects import OWNER_FOLDER, Objects, Owner, uri_of
from drivetrain.targets.kubeflow.deploy.rest import Api

Json = dict[str, Any]
# Below the pipeline's own folder, what apply and the starter write. The record of the owner goes last.
_OWN = ("code", "data", "starting", OWNER_FOLDER)


@dataclass(frozen=True)
class Remains:
    """All that destroying a pipeline takes away."""

    name: str
    deployed: Deployed | None
    recurring: tuple[RecurringRun, ...]
    runs: tuple[str, ...]
    """Ids of executions, whose records go."""
    found_in: str | None
    """Id of the experiment that executions are in."""
    experiment: str | None
    """The same, where nothing but the pipeline's executions is in it."""
    objects: tuple[str, ...]
    kept: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return self.deployed is None and not (self.objects or self.runs) and self.experiment is None

    def lines(self) -> list[str]:
        """Lines for people about what goes."""
        found = [f"schedule {each.trigger!r}" for each in self.recurring]
        if self.deployed is not None:
            found.append(f"pipeline {self.name!r} with its versions")
        if self.runs:
            found.append(f"{len(self.runs)} records of executions")
        if self.objects:
            found.append(f"{len(self.objects)} objects of code and data")
        return found or ["an empty experiment"]

    def to_json(self) -> Json:
        return {
            "pipeline": self.name,
            "deployed": self.deployed is not None,
            "schedules": [each.trigger for each in self.recurring],
            "executions": list(self.runs),
            "objects": list(self.objects),
            "kept": list(self.kept),
        }


def remains(
    api: Api,
    objects: Objects,
    owner: Owner,
    root: str,
    experiment: str,
    *,
    foreign: bool,
    about_runs: Callable[[str, str, str], str],
) -> Remains:
    """Find what there is to destroy.

    Args:
        owner: the pipeline where it is asked for.
        root: the pipeline's own folder in the storage.
        foreign: also a pipeline that apply did not make, and objects of unknown origin.
        about_runs: `Deployer.about_runs`, for advice.

    Raises:
        UserError: the pipeline was not made by apply, or by other settings; its folder is another owner's; executions
            are going on, and no schedule that is switched on starts others.
    """
    name = owner.pipeline
    there = read(api, name)
    recorded = owner.recorded(objects, root)
    if there is not None and not there.is_ours and not foreign:
        raise UserError(f"Pipeline {name!r} was not made by `drivetrain apply`. To delete it all the same: --foreign")
    if (other := owner.other(recorded)) is not None and not foreign:
        raise UserError(
            f"{root}/ is not this project's: it belongs to {other}. Destroy it with the settings of its owner, or all "
            "the same: --foreign"
        )
    own_objects = tuple(uri for folder in _OWN for uri in objects.listed(f"{root}/{folder}/"))
    if there is not None and not foreign:
        there.refuse_other(root, owner.project, "Destroy it with those settings, or all the same: --foreign")
    if there is None and own_objects and recorded is None and not foreign:
        raise UserError(
            f"There is no {owner}, but {root}/ has {len(own_objects)} objects without a record of whose they are "
            f"({uri_of(root)}): another namespace may use them. To delete them all the same: --foreign"
        )
    found = service.find_experiment(api, experiment)
    found_in = None if found is None else str(found["experiment_id"])
    mine, strangers = _executions(api, found_in, name, there)
    recurring = () if there is None else there.recurring
    own = tuple(each for each in recurring if each.trigger is not None)
    if not any(each.is_on for each in own):
        _refuse_going(mine, name, about_runs)
    kept = tuple(
        f"recurring run {each.name!r} of others stays, and fails from then on. Delete it yourself."
        for each in recurring
        if each.trigger is None
    )
    goes = found is not None and mark_of(found) is not None and not strangers and not kept
    return Remains(
        name=name,
        deployed=there,
        recurring=own,
        runs=tuple(str(run["run_id"]) for run in mine),
        found_in=found_in,
        experiment=found_in if goes else None,
        objects=own_objects,
        kept=kept,
    )


def _executions(api: Api, found_in: str | None, name: str, there: Deployed | None) -> tuple[list[Json], bool]:
    """The pipeline's executions in an experiment, and whether it has others, too."""
    runs = [] if found_in is None else list(service.runs(api, found_in))
    mine = [run for run in runs if is_of(run, name, None if there is None else there.id)]
    return mine, len(mine) < len(runs)


def _refuse_going(mine: list[Json], name: str, about_runs: Callable[[str, str, str], str], done: str = "") -> None:
    if going := [str(run["run_id"]) for run in mine if status_of(run) in GOING]:
        raise UserError(
            f"Pipeline {name!r} is executing ({', '.join(going[:3])}). {done}Wait, or stop it: "
            f"{about_runs('stop', name, going[0])}"
        )


def destroy(
    api: Api, objects: Objects, what: Remains, tell: Tell, *, cascades: bool, about_runs: Callable[[str, str, str], str]
) -> Remains:
    """Take it away; gives what went.

    Args:
        cascades: whether the server deletes a pipeline with its versions.
        about_runs: `Deployer.about_runs`, for advice.

    Raises:
        UserError: it is refused; what went before is gone, and destroying again goes on.
    """
    now = read(api, what.name)
    if now is not None and fingerprint(now) != fingerprint(what.deployed):
        raise UserError(f"Pipeline {what.name!r} was changed since it was looked at; nothing was deleted. Look again.")
    if on := [each for each in what.recurring if each.is_on]:
        for each in on:
            service.disable_recurring_run(api, each.id, each.name)
            tell(f"switched off schedule {each.trigger!r}")
        mine, _ = _executions(api, what.found_in, what.name, what.deployed)
        _refuse_going(mine, what.name, about_runs, "Its schedules are switched off. ")
        what = replace(what, runs=tuple(str(run["run_id"]) for run in mine))
    for each in what.recurring:
        service.delete_recurring_run(api, each.id, each.name)
        tell(f"deleted schedule {each.trigger!r}")
    for run in what.runs:
        service.delete_run(api, run)
    if what.runs:
        tell(f"deleted {len(what.runs)} records of executions")
    if what.deployed is not None:
        id = what.deployed.id
        for version in () if cascades else list(service.versions(api, id, what.name)):
            service.delete_version(api, id, str(version["pipeline_version_id"]))
        service.delete_pipeline(api, id, what.name, versions=cascades)
        tell(f"deleted pipeline {what.name!r}")
    if what.experiment is not None:
        service.delete_experiment(api, what.experiment, what.name)
    if what.objects:
        objects.delete(what.objects)
        tell(f"deleted {len(what.objects)} objects of code and data")
    return what
