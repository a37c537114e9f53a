"""The reviewed edits of a pipeline: a file beside it, `NAME.studio.yaml`, that every compile lays on the definition.

    patch = read(path)
    definition = patch.apply(compiled.definition)

An edit says where it is, what the code has there and what to put in its place, so that one that no longer fits is seen
at once instead of overwriting what somebody has changed since.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.json_text import Json
from drivetrain.studio import patch_text
from drivetrain.studio.comments import NO_EDIT, comments
from drivetrain.targets.sagemaker.document.difference import place as places
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change, Value, kind_of
from drivetrain.targets.sagemaker.document.difference.change_words import added_steps, describe_all
from drivetrain.targets.sagemaker.document.difference.difference import differences
from drivetrain.targets.sagemaker.document.difference.editing import NoSuchPlaceError, alike, find, put
from drivetrain.targets.sagemaker.document.difference.outline import assembled, outline
from drivetrain.targets.sagemaker.document.difference.value_words import hidden, name_of, shown
from drivetrain.targets.sagemaker.document.expressions import is_expression

__all__ = ["Patch", "between", "parse", "read"]

# A definition is at most 1 MiB; where a quarter of it has changed, nobody reviews that as edits.
MAX_BYTES = 256 * 1024

_HEAD = """\
# What was changed in SageMaker Studio in the pipeline `{pipeline}`. Every compile keeps it.
# `drivetrain pull {pipeline}` writes this file: review it, and keep it in git. Each edit says where it is (place),
# what the code has there (was) and what comes in its place (now). Without `was` something is added, without `now` it
# is taken out. To undo an edit, delete it; `edits: []` keeps nothing.
"""
_PULLED = "# Hashes of what Studio had when it was pulled: by them the next pull tells what was edited since."
_FIELDS = ("pipeline", "edits", "pulled")
_MEMBERS = ("place", "was", "now", "was-json", "now-json")


@dataclass(frozen=True)
class Patch:
    """Edits of one pipeline, in the order in which they are laid on; `old` of an edit is what the code has there."""

    pipeline: str
    edits: tuple[Change, ...] = ()
    source: str = "patch"
    """Where it was read, for messages."""
    pulled: tuple[str, ...] = ()
    """Marks of what Studio had when it was pulled (deployed_edits.py)."""
    comments: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]], compare=False)
    """Place of an edit -> what reviewers wrote beside it; `comments.NO_EDIT` for what belongs to none."""

    def apply(self, definition: Mapping[str, Any], left_out: list[str] | None = None) -> dict[str, Any]:
        """The definition with every edit; one that it has already changes nothing.

        Args:
            definition: what the code alone gives.
            left_out: takes the messages about edits that do not fit, which are then left out instead of refused.

        Raises:
            UserError: an edit that does not fit: its place, what it expects there, what is there.
        """
        before = outline(definition)
        after = before
        for edit in self.edits:
            try:
                here = find(after, edit.place)
                fits = alike(after, edit.place, here, edit.old)
                if fits or alike(after, edit.place, here, edit.new):
                    after = put(after, edit.place, edit.new) if fits else after
                    continue
                expected, there = (shown(hidden(value, edit.place)) for value in (edit.old, here))
                why = f": it expects {expected}, and the code now has {there}."
            except NoSuchPlaceError as error:
                why = f". {error}"
            message = (
                f"{self.source}: the edit at {edit.where} does not fit the code any more{why} Change its `was` to keep "
                f"the edit, or give it up: drivetrain pull {self.pipeline} --give-up {shlex.quote(edit.where)}"
            )
            if left_out is None:
                raise UserError(message)
            left_out.append(message)
        try:
            return cast("dict[str, Any]", before.raw if after is before else assembled(after, before))
        except UserError as error:
            raise UserError(f"{self.source}: with its edits, {error}") from None

    def without(self, names: Sequence[str]) -> tuple[Patch, tuple[Change, ...]]:
        """The patch without the edits at these places (or below them; `all`), and those edits.

        Raises:
            UserError: a name that no edit has.
        """
        for name in names:
            if not any(places.is_named(edit.place, [name]) for edit in self.edits):
                raise UserError(
                    f"{self.source} has no edit at {name!r}. {did_you_mean(name, [edit.where for edit in self.edits])}"
                )
        gone = tuple(edit for edit in self.edits if places.is_named(edit.place, names))
        return replace(self, edits=tuple(edit for edit in self.edits if edit not in gone)), gone

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all; equal patches give equal bytes.

        Raises:
            UserError: the place cannot be written, there is more than `read` takes, or a secret would be kept in it.
        """
        for edit in self.edits:
            if _holds_secret(edit):
                raise UserError(
                    f"{path.name} is kept in git, and the edit at {edit.where} looks like a secret. Everyone who may "
                    "describe the pipeline reads it: take it out in Studio, renew it, and give the ARN of a secret."
                )
        from drivetrain.base.files import write_text

        text = self.text()
        if (size := len(text.encode())) > MAX_BYTES:
            raise UserError(
                f"{path} would have {size:,} bytes, too many to review; at most {MAX_BYTES:,}. First bring the code "
                "nearer to what is deployed."
            )
        write_text(path, text)

    def text(self) -> str:
        """The file's text."""
        said = dict(self.comments)
        lines = [*said.pop(NO_EDIT, ()), f"pipeline: {patch_text.scalar(self.pipeline)}"]
        lines.append("edits:" if self.edits else "edits: []")
        added = added_steps(self.edits)
        for edit in self.edits:
            lines += said.pop(edit.where, ())
            if edit.place[0] != places.BRANCHES or edit.step not in added:
                lines += _described(edit)
            first, *rest = patch_text.lines(_as_yaml(edit), "  ")[1:]
            lines += [f"- {first.lstrip()}", *rest]
        if self.pulled:
            lines += [_PULLED, "pulled:", *(f"- {patch_text.scalar(mark)}" for mark in self.pulled)]
        return _HEAD.format(pipeline=self.pipeline) + "\n".join(lines) + "\n"


def read(path: Path, pipeline: str | None = None) -> Patch:
    """The patch in a file.

    Args:
        pipeline: whose edits it is to hold, where that matters.

    Raises:
        UserError: it cannot be read, is no patch, is more than MAX_BYTES long, or of another pipeline.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}.") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"{path} is too large for a patch. Allowed: {MAX_BYTES:,} bytes.")
    try:
        patch = parse(data.decode("utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 (byte {error.start}).") from None
    if pipeline is not None and patch.pipeline != pipeline:
        raise UserError(f"{path} is about the pipeline {patch.pipeline!r}, not {pipeline!r}. Rename the file.")
    return patch


def parse(text: str, source: str = "patch") -> Patch:
    """The patch in a text.

    Raises:
        UserError: no patch: naming what is wrong with which edit.
    """
    given = patch_text.read(text, source)
    if not isinstance(given, dict) or not isinstance(pipeline := given.get("pipeline"), str):
        raise UserError(f"{source}: a patch has `pipeline: NAME` and a list of `edits`.")
    edits = given.get("edits")
    if not isinstance(edits, list):
        raise UserError(f"{source}: edits is {shown(edits)}. Allowed: a list.")
    if unknown := next((key for key in given if key not in _FIELDS), None):
        raise UserError(f"{source}: {unknown!r} is not known. {did_you_mean(unknown, _FIELDS)}")
    pulled = given.get("pulled", [])
    if not isinstance(pulled, list) or not all(isinstance(mark, str) for mark in pulled):
        raise UserError(f"{source}: pulled is {shown(pulled)}. Allowed: the hashes that `drivetrain pull` writes.")
    read = tuple(_edit(item, f"{source}: edits[{n}]") for n, item in enumerate(edits))
    return Patch(pipeline, read, source, tuple(map(str, pulled)), _of_reviewers(text, pipeline, read))


def _of_reviewers(text: str, pipeline: str, edits: tuple[Change, ...]) -> dict[str, tuple[str, ...]]:
    """The comments that are not our own."""
    own = {edit.where: _described(edit) for edit in edits}
    head = [*_HEAD.format(pipeline=pipeline).splitlines(), _PULLED]
    found: dict[str, tuple[str, ...]] = {}
    for place, written in comments(text).items():
        where = places.text(places.parse(place)) if place != NO_EDIT else NO_EDIT
        ours = own[where] if place != NO_EDIT else head
        theirs = tuple(said for said in written if not any(_says_the_same(said, line) for line in ours))
        if theirs:
            found[where] = found.get(where, ()) + theirs
    return found


def _says_the_same(comment: str, ours: str) -> bool:
    """Whether a comment is our own, written for other values perhaps: a reviewer changed the edit, or the code."""
    if comment == ours.rstrip():
        return True
    (said, arrow, _), (own, our_arrow, _) = comment.partition(" -> "), ours.partition(" -> ")
    return bool(arrow and our_arrow) and (said == own or said.split()[:-1] == own.split()[:-1])


def _described(edit: Change) -> list[str]:
    return [patch_text.comment(said) for said in describe_all([edit])]


def between(pipeline: str, code: Mapping[str, Any], merged: Mapping[str, Any], source: str = "patch") -> Patch:
    """The patch that leads from what the code alone gives to a definition; later edits so take in earlier ones."""
    return Patch(pipeline, differences(code, merged), source)


def _edit(given: Json, where: str) -> Change:
    if not isinstance(given, dict):
        raise UserError(f"{where} is {shown(given)}. Allowed: place, was and now.")
    if unknown := next((key for key in given if key not in _MEMBERS), None):
        raise UserError(f"{where}: {unknown!r} is not known. {did_you_mean(unknown, _MEMBERS)}")
    if not isinstance(place := given.get("place"), str):
        raise UserError(f"{where} has no place, such as steps.train.Arguments.ResourceConfig.InstanceType.")
    try:
        parsed = places.parse(place)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    if len(parsed) < 2 or parsed[0] not in places.ROOTS:
        raise UserError(f"{where}: place {place!r:.80}. {did_you_mean(str(parsed[:1] or place), places.ROOTS)}")
    old, new = _value(given, "was", where), _value(given, "now", where)
    if old is ABSENT and new is ABSENT:
        raise UserError(f"{where}: neither was nor now is given.")
    return Change(parsed, old, new, kind_of(parsed, old, new))


def _value(given: Mapping[str, Json], member: str, where: str) -> Value:
    spelled = f"{member}-json"
    if member in given and spelled in given:
        raise UserError(f"{where}: {member} and {spelled} are both given.")
    if spelled in given:
        return patch_text.from_json_text(given[spelled], f"{where}: {spelled}")
    return given.get(member, ABSENT)


def _holds_secret(edit: Change) -> bool:
    from drivetrain.base.masking import mask

    found: list[str] = []
    for value in (edit.old, edit.new):
        if value is ABSENT:
            continue
        given = _without_expressions(value)
        mask(given, name_of(edit.place), found)
        if isinstance(given, dict):
            # Of what is named by its place, such as a parameter, the name is not in the value.
            for member in ("Value", "DefaultValue"):
                mask(cast("dict[str, Any]", given).get(member), name_of(edit.place), found)
    return any(text and not text.startswith("arn:") for text in found)


def _without_expressions(value: Any) -> Any:
    """The value with nothing for each expression: it names a secret's place at most."""
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        return "" if is_expression(given) else {key: _without_expressions(item) for key, item in given.items()}
    if isinstance(value, list):
        return [_without_expressions(item) for item in cast("list[Any]", value)]
    return value


def _as_yaml(edit: Change) -> dict[str, Json]:
    written: dict[str, Json] = {"place": edit.where}
    for member, value in (("was", edit.old), ("now", edit.new)):
        if value is not ABSENT:
            fitting = patch_text.fits(value)
            written[member if fitting else f"{member}-json"] = value if fitting else patch_text.as_json_text(value)
    return written
