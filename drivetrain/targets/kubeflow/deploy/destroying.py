"""Take away all that apply made, and the records of executions; what executions wrote to the storage stays.

First what starts the pipeline, then the pipeline, then what it was made of. Destroying again goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.targets.deployer import Tell
from drivetrain.targets.kubeflow.deploy import service
from drivetrain.targets.kubeflow.deploy.deployed import Deployed, RecurringRun, mark_of, read
from drivetrain.targets.kubeflow.deploy.executions.executions import GOING, is_of, status_of
from drivetrain.targets.kubeflow.deploy.objects import Objects
from drivetrain.targets.kubeflow.deploy.ownership import FOLDER, Owner, uri_of
from drivetrain.targets.kubeflow.deploy.rest import Api

Json = dict[str, Any]
# Below the pipeline's own folder, what apply and the starter write. The record of the owner goes last.
_OWN = ("code", "data", "starting", FOLDER)


@dataclass(frozen=True)
class Remains:
    """What is there of a pipeline: all that destroying takes away."""

    name: str
    deployed: Deployed | None
    recurring: tuple[RecurringRun, ...]
    runs: tuple[str, ...]
    """Ids of executions, whose records go."""
    experiment: str | None
    """Id of the experiment, where nothing but the pipeline's executions is in it."""
    objects: tuple[str, ...]
    kept: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return self.deployed is None and not (self.objects or self.runs) and self.experiment is None

    def lines(self) -> list[str]:
        """What goes, for people."""
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
    """What there is to destroy.

    Args:
        owner: the pipeline where it is asked for.
        root: the pipeline's own folder in the storage.
        foreign: also a pipeline that apply did not make, and objects of which nobody knows who made them.
        about_runs: `Deployer.about_runs`, for advice.

    Raises:
        UserError: the pipeline was not made by apply, its folder is another owner's, or executions are going on.
    """
    name = owner.pipeline
    there = read(api, name)
    is_recorded = owner.is_recorded(objects, root)
    if there is not None and not there.is_ours and not foreign:
        raise UserError(f"Pipeline {name!r} was not made by `drivetrain apply`. To delete it all the same: --foreign")
    own_objects = tuple(uri for folder in _OWN for uri in objects.listed(f"{root}/{folder}/"))
    if there is None and own_objects and not is_recorded and not foreign:
        raise UserError(
            f"There is no {owner}, but {root}/ has {len(own_objects)} objects without a record of whose they are "
            f"({uri_of(root)}): another namespace may use them. To delete them all the same: --foreign"
        )
    found = service.find_experiment(api, experiment)
    mine: list[Json] = []
    strangers = False
    for run in service.runs(api, str(found["experiment_id"])) if found is not None else ():
        is_mine = is_of(run, name, None if there is None else there.id)
        strangers |= not is_mine
        mine += [run] if is_mine else []
    if going := [str(run["run_id"]) for run in mine if status_of(run) in GOING]:
        raise UserError(
            f"Pipeline {name!r} is executing ({', '.join(going[:3])}). Wait, or stop it: "
            f"{about_runs('stop', name, going[0])}"
        )
    recurring = () if there is None else there.recurring
    own = tuple(each for each in recurring if each.trigger is not None)
    kept = tuple(_kept(recurring))
    goes = found is not None and mark_of(found) is not None and not strangers and not kept
    return Remains(
        name=name,
        deployed=there,
        recurring=own,
        runs=tuple(str(run["run_id"]) for run in mine),
        experiment=str(found["experiment_id"]) if found is not None and goes else None,
        objects=own_objects,
        kept=kept,
    )


def _kept(recurring: tuple[RecurringRun, ...]) -> Iterator[str]:
    for each in recurring:
        if each.trigger is None:
            yield f"recurring run {each.name!r} of others stays, and fails from then on. Delete it yourself."


def destroy(api: Api, objects: Objects, what: Remains, tell: Tell) -> Remains:
    """Take it away; gives what went.

    Raises:
        UserError: it is refused; what went before is gone, and destroying again goes on.
    """
    for each in what.recurring:
        service.delete_recurring_run(api, each.id, each.name)
        tell(f"deleted schedule {each.trigger!r}")
    for run in what.runs:
        service.delete_run(api, run)
    if what.runs:
        tell(f"deleted {len(what.runs)} records of executions")
    if what.deployed is not None:
        service.delete_pipeline(api, what.deployed.id, what.name)
        tell(f"deleted pipeline {what.name!r}")
    if what.experiment is not None:
        service.delete_experiment(api, what.experiment, what.name)
    if what.objects:
        objects.delete(what.objects)
        tell(f"deleted {len(what.objects)} objects of code and data")
    return what
