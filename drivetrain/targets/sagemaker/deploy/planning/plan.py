"""A plan: what apply would do, and why it would refuse."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from drivetrain.base import json_text
from drivetrain.targets.sagemaker.deploy.planning.account_resources import PIPELINE
from drivetrain.targets.sagemaker.deploy.planning.forecast import Forecast
from drivetrain.targets.sagemaker.document.difference.change import Change
from drivetrain.targets.sagemaker.document.difference.place import ROOTS, is_named

FORMAT = 3
Json = dict[str, Any]


@dataclass(frozen=True)
class Property:
    """Something of the pipeline beside its definition: role, description, display name, parallel steps, a tag."""

    name: str
    old: str | int | None
    new: str | int | None

    def to_json(self) -> Json:
        return {"name": self.name, "old": self.old, "new": self.new}


@dataclass(frozen=True)
class TriggerChange:
    """A rule or schedule that is made, changed or taken away; `details` are lines for people."""

    action: Literal["create", "update", "delete"]
    kind: str
    name: str
    details: tuple[str, ...] = ()

    def to_json(self) -> Json:
        return {"action": self.action, "kind": self.kind, "name": self.name, "details": list(self.details)}


@dataclass(frozen=True)
class Upload:
    """An object that is not in the bucket yet."""

    uri: str
    bytes: int

    def to_json(self) -> Json:
        return {"uri": self.uri, "bytes": self.bytes}


@dataclass(frozen=True)
class DeploymentPlan:
    """What apply would do, and what it was made of."""

    pipeline: str
    region: str
    account: str
    action: Literal["create", "update", "none"]
    state: str
    """Fingerprint of what was deployed."""
    code: str
    """Fingerprint of what the code says."""
    definition_sha256: str
    changes: tuple[Change, ...] = ()
    properties: tuple[Property, ...] = ()
    triggers: tuple[TriggerChange, ...] = ()
    uploads: tuple[Upload, ...] = ()
    record: tuple[str | None, str] | None = None
    """Hash that the tag holds and the one that it will hold, where only the record of what was applied is behind."""
    drift: tuple[Change, ...] = ()
    """What others changed since the last apply: in the definition, and beside it (account_resources.py)."""
    overwritten: tuple[Change, ...] = ()
    """The part of it that is not in the code, so that applying would undo it."""
    foreign: bool = False
    """The pipeline was not made by apply, or by another one's."""
    owner: str | None = None
    """Whose it is, in words, where it is another one's."""
    adopted: bool = False
    """It may be taken over from its owner."""
    lost: str | None = None
    """Why it is not known what apply wrote last, where it did."""
    last_write: str | None = None
    """Who wrote the pipeline last, and when, as far as the service says it."""
    discarded: tuple[str, ...] = ()
    """Places, or `all`, whose drift may be overwritten."""
    steps: tuple[Forecast, ...] = ()
    notes: tuple[str, ...] = ()
    cost: Json | None = None
    permissions: Json | None = None
    origin: Json | None = field(default=None)
    """Of what it was compiled: target, config, set; what `apply` compiles again."""

    @property
    def is_empty(self) -> bool:
        """Whether everything is as the code says."""
        return self.action == "none"

    @property
    def as_given(self) -> str:
        """What names the pipeline and its settings on the command line, for commands that are advised."""
        origin = self.origin or {}
        words = ["-d", origin["definition"]] if origin.get("definition") else [origin.get("target") or self.pipeline]
        for option, value in (("--name", origin.get("name")), ("-c", origin.get("config"))):
            words += [option, value] if value else []
        return shlex.join([*words, *(word for each in origin.get("set", ()) for word in ("--set", each))])

    @property
    def refusal(self) -> str | None:
        """Why it must not be applied: edits of others would be lost. None where it may."""
        undone = [change for change in self.overwritten if not is_named(change.place, self.discarded)]
        if not undone and (self.owner is None or self.adopted or self.discarded):
            return None
        if self.owner is not None:
            return self._refused_to_owner(undone)
        shown = ", ".join(change.where for change in undone[:3])
        shown += f" and {len(undone) - 3} more" if len(undone) > 3 else ""
        give_up = "--discard PLACE (repeatable) or --discard all"
        if self.foreign:
            return (
                f"Pipeline {self.pipeline!r} exists and was not made by `drivetrain apply`; applying would overwrite "
                f"it ({shown}). {self._advice(adopt=True)}, or overwrite it: {give_up}"
            )
        if self.lost is not None:
            return (
                f"{self.lost} Applying would overwrite what differs: {shown}. {self._advice(adopt=True)}, or overwrite "
                f"it: {give_up}"
            )
        # The service knows it of the pipeline, of its rules and schedules it does not.
        is_told = self.last_write is not None and any(change.place[0] in (*ROOTS, PIPELINE) for change in undone)
        written = f" (last written {self.last_write})" if is_told else ""
        return (
            f"Pipeline {self.pipeline!r} was edited since the last apply{written}, and applying would undo it: "
            f"{shown}. {self._advice(adopt=False)}, or give them up: {give_up}"
        )

    def _refused_to_owner(self, undone: Sequence[Change]) -> str:
        said = f"Pipeline {self.pipeline!r} in this account is not this project's: it belongs to {self.owner}."
        rename = "Give yours another name, or deploy with the settings of its owner."
        if not undone:
            return f"{said} {rename} Nothing of it would be undone; to take it over: --adopt"
        going = ", ".join(change.where for change in undone[:3])
        going += f" and {len(undone) - 3} more" if len(undone) > 3 else ""
        over = "" if self.adopted else f" To take it over as it is: {self._adopting}."
        return (
            f"{said} Applying would undo: {going}. {rename}{over} To overwrite it: --discard PLACE (repeatable) or "
            "--discard all"
        )

    @property
    def _adopting(self) -> str:
        return f"drivetrain pull {self.as_given} --adopt, then apply with --adopt"

    def _advice(self, *, adopt: bool) -> str:
        """How to keep what is there."""
        beside = all(change.place[0] not in ROOTS for change in self.overwritten)
        if beside:
            return "Keep what is there: write it in the code"
        if adopt:
            over = f"drivetrain pull {self.as_given} --adopt"
            return f"Take it over as it is: {over} (what the code changes since then is named by --discard)"
        return f"Keep the edits: drivetrain pull {self.as_given}"

    def to_json(self) -> Json:
        """A JSON object; `from_json` gives an equal plan."""
        return {
            "format": FORMAT,
            "pipeline": self.pipeline,
            "region": self.region,
            "account": self.account,
            "action": self.action,
            "state": self.state,
            "code": self.code,
            "definition_sha256": self.definition_sha256,
            "changes": [change.to_json() for change in self.changes],
            "properties": [item.to_json() for item in self.properties],
            "triggers": [item.to_json() for item in self.triggers],
            "uploads": [item.to_json() for item in self.uploads],
            "record": None if self.record is None else list(self.record),
            "drift": [change.to_json() for change in self.drift],
            "overwritten": [change.to_json() for change in self.overwritten],
            "foreign": self.foreign,
            "owner": self.owner,
            "adopted": self.adopted,
            "lost": self.lost,
            "last_write": self.last_write,
            "discarded": list(self.discarded),
            "steps": [item.to_json() for item in self.steps],
            "notes": list(self.notes),
            "cost": self.cost,
            "permissions": self.permissions,
            "origin": self.origin,
        }

    def text(self) -> str:
        """The plan's file."""
        return json_text.text_of(cast("Any", self.to_json()), indent=2)
