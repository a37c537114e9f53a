"""The reviewed edits of a pipeline: a file beside it, `NAME.studio.yaml`, that every compile lays on the definition.

    patch = read(path)
    definition = patch.apply(compiled.definition)

An edit has a place, the code's value there and the new value, so that an outdated edit is noticed at once instead of
overwriting a later change. Generated values are no part of it: `was` holds what the author wrote, and a step that was
made from a step of the code follows that step (following.py).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.files import write_text
from drivetrain.base.json_text import Json
from drivetrain.base.masking import mask
from drivetrain.studio import patch_text
from drivetrain.studio.deployment_texts import NO_TEXTS, DeploymentTexts
from drivetrain.studio.following import Copy, brought_up, copied, copy_of, follow, follows, in_loop, laid, new_name
from drivetrain.studio.generated import as_edited, as_written, from_edit, generated, has_mark, unlike
from drivetrain.studio.patch_text import NO_EDIT, comments
from drivetrain.targets.sagemaker.document.difference import place as places
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change, Value, kind_of
from drivetrain.targets.sagemaker.document.difference.change_words import added_steps, describe_all
from drivetrain.targets.sagemaker.document.difference.difference import between as changes
from drivetrain.targets.sagemaker.document.difference.editing import NoSuchPlaceError, alike, find, put, spot_at
from drivetrain.targets.sagemaker.document.difference.outline import Outline, assembled, outline
from drivetrain.targets.sagemaker.document.difference.value_words import hidden, name_of, shown
from drivetrain.targets.sagemaker.document.expressions import is_expression

__all__ = ["Patch", "between", "parse", "read"]

# A definition is at most 1 MiB; where a quarter of it has changed, nobody reviews that as edits.
MAX_BYTES = 256 * 1024

_HEAD = """\
# What was changed in SageMaker Studio in the pipeline `{pipeline}`. Every compile keeps it.
# `drivetrain pull {pipeline}` writes this file: review it, and keep it in git. Each edit says where it is (place),
# what the code has there (was) and what comes in its place (now). Without `was` something is added, without `now` it
# is taken out. To undo an edit, delete it; `edits: []` keeps nothing. A step that is `like` one of the code follows it.
"""
_PULLED = "# Hashes of what Studio had when it was pulled: by them the next pull tells what was edited since."
_FIELDS = ("pipeline", "edits", "pulled")
_MEMBERS = ("place", "was", "now", "was-json", "now-json", "like")


@dataclass(frozen=True)
class Patch:
    """Edits of one pipeline, in the order in which they are laid on; `old` of an edit is what the code has there."""

    pipeline: str
    edits: tuple[Change, ...] = ()
    source: str = "patch"
    """The place where it was read, for messages."""
    pulled: tuple[str, ...] = ()
    """Marks of what Studio had when it was pulled (pulling.py)."""
    comments: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]], compare=False)
    """Place of an edit -> what reviewers wrote beside it; `NO_EDIT` for what belongs to none."""

    def apply(
        self,
        definition: Mapping[str, Any],
        left_out: list[str] | None = None,
        texts: DeploymentTexts = NO_TEXTS,
    ) -> dict[str, Any]:
        """The definition with every edit; one that it has already changes nothing.

        Args:
            definition: what the code alone gives.
            left_out: takes the messages about edits that do not fit, which are then left out instead of refused.
            texts: of the deployment that is compiled.

        Raises:
            UserError: an edit that does not fit: the first field in which the code differs from what it expects.
        """
        before = outline(definition)
        after = before
        for edit in self.edits:
            try:
                after = self._laid(edit, after, before, texts)
            except NoSuchPlaceError as error:
                why = f". {error}"
            except _Unlike as error:
                why = str(error)
            else:
                continue
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

    def _laid(self, edit: Change, parts: Outline, code: Outline, texts: DeploymentTexts) -> Outline:
        """
        Raises:
            NoSuchPlaceError: nothing can stand there.
            _Unlike: the author wrote something else there.
        """
        steps = parts.steps or {}
        if follows(edit):
            # Code that has the step itself has taken the edit over.
            is_there = find(parts, edit.place) is not ABSENT if isinstance(edit, Copy) else edit.new in steps
            return parts if is_there and edit.old not in steps else laid(edit, parts, code)
        here = find(parts, edit.place)
        try:
            new = texts.resolved(from_edit(edit.new, here))
        except UserError as error:
            raise UserError(f"{self.source}: the edit at {edit.where}: {error}") from None
        is_step = spot_at(parts, edit.place).step
        beside = code if len(edit.place) == 2 else parts
        if is_step and edit.old is ABSENT and (copy := copied(edit.place, new, beside)) is not None:
            new = brought_up(new, copy.made(beside))
        if alike(parts, edit.place, here, new):
            return parts
        if is_step and new is ABSENT and _is_of_before(edit.old, here):
            return put(parts, edit.place, new)
        if differs := unlike(parts, edit.place, edit.old):
            raise _Unlike(edit, differs[0])
        return put(parts, edit.place, new)

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
        steps = [new_name(edit) for edit in self.edits if follows(edit) and places.is_named(edit.place, names)]
        below = [places.text((root, name)) for name in steps for root in (places.STEPS, places.BRANCHES)]
        gone = tuple(edit for edit in self.edits if places.is_named(edit.place, [*names, *below]))
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


class _Unlike(Exception):  # noqa: N818 - says what differs
    """The author wrote something else than an edit expects: the first field that differs."""

    def __init__(self, edit: Change, first: Change) -> None:
        expected, there = (shown(hidden(value, first.place)) for value in (first.old, first.new))
        at = "" if first.place == edit.place else f"at {first.where} "
        super().__init__(f": {at}it expects {expected}, and the code now has {there}.")


def _is_of_before(was: Value, here: Value) -> bool:
    """Return True if an earlier version kept the step that is taken out, with all that compiling generated then."""
    if not isinstance(was, dict) or not isinstance(here, dict) or was.get("Type") != here.get("Type"):
        return False
    return not has_mark(was) and any(generated(here))


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
    """Return True if a comment is our own, perhaps for other values: a reviewer changed the edit, or the code."""
    if comment == ours.rstrip():
        return True
    (said, arrow, _), (own, our_arrow, _) = comment.partition(" -> "), ours.partition(" -> ")
    return bool(arrow and our_arrow) and (said == own or said.split()[:-1] == own.split()[:-1])


def _described(edit: Change) -> list[str]:
    if isinstance(edit, Copy):
        return [patch_text.comment(f"{edit.place[-1]} added, like {edit.like}")]
    return [patch_text.comment(said) for said in describe_all([edit])]


def between(
    pipeline: str,
    code: Mapping[str, Any],
    merged: Mapping[str, Any],
    source: str = "patch",
    *,
    applied: Mapping[str, Any] | None = None,
    kept: Iterable[Change] = (),
    texts: DeploymentTexts = NO_TEXTS,
) -> Patch:
    """The patch that leads from what the code alone gives to a definition; later edits so take in earlier ones.

    Args:
        applied: what apply wrote last, from which steps that Studio added were made.
        kept: the edits of the patch until now.
        texts: of the deployment that was edited.
    """
    before = None if applied is None else outline(applied)
    alone = outline(code)
    steps, parts, wanted = follow(alone, outline(merged), before, tuple(kept))
    edits: list[Change] = []
    for one in (edit for change in changes(parts, wanted) for edit in in_loop(change, parts, before)):
        if isinstance(one, Copy):
            parts = laid(one, parts, alone)
        else:
            old = ABSENT if one.old is ABSENT else as_written(one.old, spot_at(parts, one.place))
            one = Change(one.place, old, texts.named(as_edited(one.new, one.old)), one.kind)
        edits.append(one)
    return Patch(pipeline, (*steps, *edits), source)


def _edit(given: Json, where: str) -> Change:
    if not isinstance(given, dict):
        raise UserError(f"{where} is {shown(given)}. Allowed: place, was and now, or place and like.")
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
    if "like" in given:
        if not isinstance(like := given["like"], str) or old is not ABSENT or new is not ABSENT:
            raise UserError(f"{where}: like is the name of a step of the code, and stands without was and now.")
        return copy_of(parsed, like)
    if old is ABSENT and new is ABSENT:
        raise UserError(f"{where}: neither was nor now is given, nor like.")
    return Change(parsed, old, new, kind_of(parsed, old, new))


def _value(given: Mapping[str, Json], member: str, where: str) -> Value:
    spelled = f"{member}-json"
    if member in given and spelled in given:
        raise UserError(f"{where}: {member} and {spelled} are both given.")
    if spelled in given:
        return patch_text.from_json_text(given[spelled], f"{where}: {spelled}")
    return given.get(member, ABSENT)


def _holds_secret(edit: Change) -> bool:
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
    if isinstance(edit, Copy):
        return {**written, "like": edit.like}
    for member, value in (("was", edit.old), ("now", edit.new)):
        if value is not ABSENT:
            fitting = patch_text.fits(value)
            written[member if fitting else f"{member}-json"] = value if fitting else patch_text.as_json_text(value)
    return written
