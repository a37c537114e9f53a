"""Find what others changed since the last apply, what of it applying would undo, and why it is refused then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from drivetrain.base.errors import and_more
from drivetrain.deploying.plan import Terms, as_given
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.deployed import Deployed, LostError, base_of
from drivetrain.targets.sagemaker.deploy.desired import Desired, of_definition, of_pipeline
from drivetrain.targets.sagemaker.deploy.planning import account_resources
from drivetrain.targets.sagemaker.deploy.planning.account_resources import (
    PIPELINE,
    changes,
    compare,
    described,
    fields,
    touched,
)
from drivetrain.targets.sagemaker.deploy.planning.triggers import desired_triggers
from drivetrain.targets.sagemaker.document.difference.change import Change
from drivetrain.targets.sagemaker.document.difference.change_words import describe_all
from drivetrain.targets.sagemaker.document.difference.difference import differences
from drivetrain.targets.sagemaker.document.difference.place import ROOTS, is_named
from drivetrain.targets.sagemaker.document.difference.value_words import masked
from drivetrain.targets.sagemaker.settings import Settings

if TYPE_CHECKING:
    from drivetrain.spec.deployment import Deployment
    from drivetrain.spec.pipeline import Pipeline

GIVE_UP = "--discard PLACE (repeatable) or --discard all"


@dataclass(frozen=True)
class Drift:
    """The drift that others caused, in the definition and beside it (account_resources.py).

    `overwritten` is the part of it that is not in the code, so that applying would undo it. If it is unknown what apply
    wrote last (`foreign`: it never did; `lost` says why), every difference counts as theirs.
    """

    changes: tuple[Change, ...] = ()
    overwritten: tuple[Change, ...] = ()
    foreign: bool = False
    lost: str | None = None
    owner: str | None = None
    """The other owner of the pipeline, in words."""
    last_write: str | None = None
    """The last writer and the time, as far as the service says them."""

    def without_secrets(self) -> Drift:
        """Without what looks like a secret by its name: a plan is kept and shown."""
        return replace(self, changes=tuple(map(masked, self.changes)), overwritten=tuple(map(masked, self.overwritten)))

    def refusal(self, name: str, terms: Terms) -> str | None:
        """Why pipeline `name` must not be applied: edits of others would be lost. None where it may."""
        undone = [change for change in self.overwritten if not is_named(change.place, terms.discarded)]
        if not undone and (self.owner is None or terms.adopted or terms.discarded):
            return None
        shown = and_more([change.where for change in undone], 3)
        pull = "drivetrain pull " + as_given(terms.origin and terms.origin.model_copy(update={"on": None}), name)
        adopt = f"Take it over as it is: {pull} --adopt (what the code changes since then is named by --discard)"
        keep = f"Keep the edits: {pull}"
        if all(change.place[0] not in ROOTS for change in self.overwritten):
            adopt = keep = "Keep what is there: write it in the code"
        if self.owner is not None:
            said = f"Pipeline {name!r} in this account is not this project's: it belongs to {self.owner}."
            rename = "Give yours another name, or deploy with the settings of its owner."
            if not undone:
                return f"{said} {rename} Nothing of it would be undone; to take it over: --adopt"
            over = "" if terms.adopted else f" To take it over as it is: {pull} --adopt, then apply with --adopt."
            return f"{said} Applying would undo: {shown}. {rename}{over} To overwrite it: {GIVE_UP}"
        if self.foreign:
            return (
                f"Pipeline {name!r} exists and was not made by `drivetrain apply`; applying would overwrite it "
                f"({shown}). {adopt}, or overwrite it: {GIVE_UP}"
            )
        if self.lost is not None:
            return f"{self.lost} Applying would overwrite what differs: {shown}. {adopt}, or overwrite it: {GIVE_UP}"
        # The service knows it of the pipeline, of its rules and schedules it does not.
        is_told = self.last_write is not None and any(change.place[0] in (*ROOTS, PIPELINE) for change in undone)
        written = f" (last written {self.last_write})" if is_told else ""
        return (
            f"Pipeline {name!r} was edited since the last apply{written}, and applying would undo it: {shown}. {keep}, "
            f"or give them up: {GIVE_UP}"
        )

    def lines(self, *, is_new: bool) -> Iterator[str]:
        """It in a plan; `is_new`: the pipeline is not there, and what starts it is."""
        undone = {change.place for change in self.overwritten}
        kept = [change for change in self.changes if change.place not in undone]
        if kept:
            yield "Edited since the last apply, and in the code already:"
            for line in describe_all(change for change in kept if change.place[0] in ROOTS):
                yield f"    {line}"
            for change in kept:
                if change.place[0] not in ROOTS:
                    yield f"    {described(change)}"
        if self.overwritten:
            yield f"{self._whose(is_new=is_new)}, and undone by applying:"
            for change in self.overwritten:
                yield f"    {described(change)}  ({change.where})"

    def _whose(self, *, is_new: bool) -> str:
        if self.owner is not None:
            return f"Of {self.owner}"
        if self.foreign:
            return "Not made by drivetrain"
        if self.lost is not None:
            return "There now, perhaps edited since the last apply"
        return "Edited since it was made" if is_new else "Edited since the last apply"


def edits_beside(account: Account, pipeline: Pipeline, deployed: Deployed) -> tuple[Change, ...]:
    """Collect the drift beside the definition: others' changes that the code does not have, and no patch can hold. If
    it is unknown what apply wrote last, this is every difference from the code.

    Raises:
        UserError: AWS refuses; a trigger needs a role or a queue that the settings do not name.
    """
    wanted = of_pipeline(pipeline, deployed.arn)
    names = tuple(wanted.tags)
    base = account_resources.base_of(account, deployed, wanted.root, names)
    drift = () if base is None else changes(base, fields(deployed, names), names)
    # What the triggers become needs settings that a pull can do without where nothing is to be said of them.
    asked = any(one.place[0] != PIPELINE for one in drift) if base is not None else bool(deployed.triggers)
    triggers = desired_triggers(pipeline, account, deployed.arn) if asked else deployed.triggers
    return _beside(account, replace(wanted, triggers=triggers), deployed)


def edits_beside_definition(
    account: Account, name: str, deployment: Deployment, deployed: Deployed
) -> tuple[Change, ...]:
    """As `edits_beside`, for a definition that is deployed as it is and says nothing of what is beside it.

    Raises:
        ServiceError: AWS refuses.
    """
    return _beside(account, of_definition(name, {}, deployment, deployed.arn), deployed)


def _beside(account: Account, wanted: Desired, deployed: Deployed) -> tuple[Change, ...]:
    if wanted.role == Settings().role:  # the settings name none, so nothing is said of it
        wanted = replace(wanted, role=deployed.role)
    found = compare(account, wanted, deployed, wanted.root)
    return found.lost if found.is_known else tuple(replace(one, old=one.new, new=one.old) for one in found.lost)


def find_drift(account: Account, wanted: Desired, deployed: Deployed, to_come: tuple[Change, ...]) -> Drift:
    """Compare with what apply wrote last; `to_come` is what the code's definition changes.

    Raises:
        ServiceError: AWS refuses.
    """
    around = compare(account, wanted, deployed, wanted.root)
    try:
        base = base_of(account, deployed, wanted.root)
    except LostError as error:
        return Drift(around.drift, (*to_come, *around.lost), lost=str(error))
    if base is None:
        return Drift(around.drift, (*to_come, *around.lost), foreign=True)
    drift = differences(base, deployed.definition)
    overwritten = touched(drift, to_come)
    lost = None
    if not around.is_known and not overwritten:
        lost = (
            f"What apply wrote last to pipeline {deployed.name!r} beside its definition is not known: there is no "
            f"record of it in {wanted.root}/{deployed.name}/applied/."
        )
    return Drift((*drift, *around.drift), (*overwritten, *around.lost), lost=lost)
