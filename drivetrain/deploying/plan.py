"""A plan: what applying would change, what it was made of, and why it would be refused.

A plan is JSON and comes back the same, so that it can be reviewed in one place and applied in another: apply refuses it
when the code or what is deployed are no longer what it was made of. People edit such files, so nothing in one is
believed but what it lets be given up; the rest is found out anew.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, Literal, cast

from pydantic import SerializerFunctionWrapHandler, StrictBool, StrictInt, ValidationError, model_serializer

from drivetrain.base import json_text
from drivetrain.base.errors import UserError
from drivetrain.base.formatting import size as in_bytes
from drivetrain.spec import Frozen
from drivetrain.spec.validation_errors import explain_validation

FORMAT = 4
ALL = "all"
MAKE_ONE = "Make a new one: drivetrain plan PIPELINE --out FILE"
Json = dict[str, Any]
_SIGNS = {"create": "+", "update": "~", "delete": "-"}


class Difference(Frozen):
    """One difference, by meaning. `old` or `new` is left out if it has no value."""

    text: str
    """A line for people; empty where the line of another difference says it."""
    place: str = ""
    """Its place, as --discard names it; empty on targets without such places."""
    kind: str = ""
    old: Any = None
    new: Any = None

    @model_serializer(mode="wrap")
    def _without_absent(self, write: SerializerFunctionWrapHandler) -> Json:
        given = self.model_fields_set  # null is a value of JSON
        return {name: value for name, value in write(self).items() if name in given or name not in ("old", "new")}


class TriggerChange(Frozen):
    """A rule or schedule that is made, changed or taken away; `lines` are for people."""

    action: Literal["create", "update", "delete"]
    kind: str
    name: str
    lines: tuple[str, ...] = ()


class Upload(Frozen):
    """An object that is not in the storage yet."""

    uri: str
    bytes: StrictInt


class Forecast(Frozen):
    """The next run of a step: from the cache, or why not; `why` is empty for a step that is never cached."""

    step: str
    cached: StrictBool
    why: tuple[str, ...] = ()


class Origin(Frozen):
    """The words of the command line, from which `apply` compiles again."""

    target: str | None = None
    """A pipeline's name or FILE.py[:FUNCTION]."""
    definition: str | None = None
    """A definition's file, where there is no pipeline."""
    name: str | None = None
    config: str | None = None
    set: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    """Names of settings that look like secrets, which a plan does not keep."""
    on: str | None = None
    """The value of --target."""


class Terms(Frozen):
    """How a plan was asked for."""

    discarded: tuple[str, ...] = ()
    """Places, or `all`: edits of others there may be overwritten."""
    adopted: StrictBool = False
    """It may be taken over from its owner."""
    origin: Origin | None = None


class Plan(Terms):
    """The changes that applying would make, and the states of code and account that they were found from."""

    target: str
    pipeline: str
    place: str
    """In words: `account 123456789012, us-east-1`."""
    action: Literal["create", "update", "none"]
    state: str
    """Fingerprint of what was deployed."""
    code: str
    """Fingerprint of what the code says."""
    definition_sha256: str
    version: str | None = None
    """The version to be uploaded, on targets where apply names it."""
    num_steps: StrictInt
    num_parameters: StrictInt
    changes: tuple[Difference, ...] = ()
    """In the definition and in what the pipeline is beside it, without triggers."""
    triggers: tuple[TriggerChange, ...] = ()
    uploads: tuple[Upload, ...] = ()
    storage: str
    """The place of uploads, in words."""
    drift: tuple[Difference, ...] = ()
    """Changes by others since the last apply."""
    overwritten: tuple[Difference, ...] = ()
    """The part of it that is not in the code, so that applying would undo it."""
    foreign: StrictBool = False
    """The pipeline was not made by apply, or by another owner's."""
    owner: str | None = None
    """The other owner in words; None where it is ours."""
    lost: str | None = None
    """Why it is not known what apply wrote last, where it did."""
    last_write: str | None = None
    """The last writer and the time, as far as the service says them."""
    steps: tuple[Forecast, ...] = ()
    cost: Json | None = None
    permissions: Json | None = None
    findings: tuple[str, ...] = ()
    """Lines for people about all of this but the changes: what others did, what runs, what it costs."""
    refusal: str | None = None
    """Why it must not be applied: what others made would be lost. None where it may."""
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True where everything is as the code says."""
        return self.action == "none"

    @property
    def terms(self) -> Terms:
        """How it was asked for."""
        return Terms(discarded=self.discarded, adopted=self.adopted, origin=self.origin)

    @property
    def as_given(self) -> str:
        """The words that name the pipeline and its settings on the command line, for advice."""
        return as_given(self.origin, self.pipeline)

    def to_json(self) -> Json:
        """A JSON object, which `read_plan` reads."""
        return {"format": FORMAT, **self.model_dump(mode="json")}

    def text(self) -> str:
        """The plan's file."""
        return json_text.text_of(cast("Any", self.to_json()), indent=2)


def as_given(origin: Origin | None, pipeline: str) -> str:
    """The words that name a pipeline and its settings on the command line."""
    origin = origin or Origin()
    words = ["-d", origin.definition] if origin.definition else [origin.target or pipeline]
    for option, value in (("--name", origin.name), ("--target", origin.on), ("-c", origin.config)):
        words += [option, value] if value else []
    return shlex.join([*words, *(word for each in origin.set for word in ("--set", each))])


def read_plan(content: str | bytes, source: str) -> Plan:
    """The plan in a file.

    Raises:
        UserError: it is no plan, or has the format of another version.
    """
    said = json_text.parse(content, source)
    if not isinstance(said, dict):
        raise UserError(f"{source}: This is no plan. {MAKE_ONE}")
    if (format := said.get("format", FORMAT)) != FORMAT:
        raise UserError(f"{source}: This is no plan of format {FORMAT}; given {format!r:.40}. {MAKE_ONE}")
    for name in ("format", *Plan.model_fields):
        if name not in said:
            raise UserError(f"{source}: This is no plan: `{name}` is missing. {MAKE_ONE}")
    del said["format"]
    try:
        return Plan.model_validate(said)  # pydantic's reader of JSON refuses half a surrogate pair
    except ValidationError as error:
        raise UserError(f"{source}: This is no plan: {explain_validation(error)} {MAKE_ONE}") from None


def lines(plan: Plan) -> list[str]:
    """A plan as people read it: a line a change."""
    return list(_lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    if plan.is_empty:
        yield f"Nothing to do: pipeline {plan.pipeline!r} in {plan.place} is what the code says."
    elif plan.action == "create":
        counts = f"{plan.num_steps} steps, {plan.num_parameters} parameters"
        yield f"+ pipeline {plan.pipeline!r} in {plan.place}: {counts}"
    else:
        yield f"~ pipeline {plan.pipeline!r} in {plan.place}"
    for change in plan.changes:
        if change.text:
            yield f"    {change.text}"
    if plan.version is not None:
        yield f"+ version {plan.version}"
    for trigger in plan.triggers:
        yield f"{_SIGNS[trigger.action]} {trigger.kind} {trigger.name!r}"
        for line in trigger.lines:
            yield f"    {line}"
    if plan.uploads:
        total = sum(upload.bytes for upload in plan.uploads)
        yield f"+ {len(plan.uploads)} objects in {plan.storage}, {in_bytes(total)}"
    yield from plan.findings
    for note in plan.notes:
        yield f"note: {note}"
