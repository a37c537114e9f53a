"""Three-way merge: what Studio changed since the last apply, laid on what the code says now.

    merged = merge(applied, code, deployed)
    merged.definition, merged.edits, merged.conflicts

The code is the base: everything that Studio did not touch comes out as the code has it, to the byte. If the code has
changed the place of an edit in another way since, the edit is a conflict and is left out: the code's value stays until
the user chooses (`take`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, cast

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.studio.generated import carried, renewed, unlike
from drivetrain.targets.sagemaker.document.difference import place as places
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change, Value, kind_of
from drivetrain.targets.sagemaker.document.difference.difference import STEP, between, differing
from drivetrain.targets.sagemaker.document.difference.editing import NoSuchPlaceError, alike, find, put, spot_at
from drivetrain.targets.sagemaker.document.difference.entries import Spot
from drivetrain.targets.sagemaker.document.difference.outline import Outline, assembled, outline
from drivetrain.targets.sagemaker.document.difference.place import Place, Position
from drivetrain.targets.sagemaker.document.difference.value_words import hidden, shown, without_secrets

Side = Literal["code", "studio"]


@dataclass(frozen=True)
class Conflict:
    """A place that code and Studio both changed, each in its own way. Values are JSON or ABSENT."""

    place: Place
    applied: Any
    code: Any
    deployed: Any
    why: str = ""
    """The obstacle, if it is not another value."""

    @property
    def where(self) -> str:
        """The place as text, as `take` names it."""
        return places.text(self.place)

    def __str__(self) -> str:
        if self.why:
            return f"{self.where}: {self.why}"
        was, code, studio = (shown(hidden(value, self.place)) for value in (self.applied, self.code, self.deployed))
        if was == code:
            first = self._first()
            if first is None:  # the value is as it was, and stands elsewhere
                return f"{self.where}: the code moved it, or changed what is around it; Studio has {studio}"
            was, code = (shown(hidden(value, first.place)) for value in (first.old, first.new))
            return f"{self.where}: at {first.where} was {was}, the code has {code}; Studio has {studio}"
        return f"{self.where}: was {was}, the code has {code}, Studio has {studio}"

    def _first(self) -> Change | None:
        """The code's first change in it."""
        spot = STEP if len(self.place) == 2 and self.place[0] == places.STEPS else Spot(str(self.place[-1]))
        found = differing(renewed(self.applied, self.code, spot), self.code, self.place, spot)
        return found[0] if found else None

    def to_json(self) -> dict[str, Any]:
        """A JSON object; what is ABSENT is left out of it, and what looks like a secret is masked."""
        given = {"applied": self.applied, "code": self.code, "deployed": self.deployed}
        written = {key: without_secrets(value, self.place) for key, value in given.items() if value is not ABSENT}
        return {"place": self.where, **written, **({"why": self.why} if self.why else {})}


@dataclass(frozen=True)
class Merged:
    """The code with Studio's edits; `edits` are those that were laid on it, `old` being the code's value."""

    definition: dict[str, Any]
    edits: tuple[Change, ...]
    conflicts: tuple[Conflict, ...]


def merge(
    applied: Mapping[str, Any] | None,
    code: Mapping[str, Any],
    deployed: Mapping[str, Any] | None,
    take: Mapping[str, Side] | None = None,
    seen: Iterable[Change] = (),
) -> Merged:
    """Merge Studio's changes into the definition of the code.

    Args:
        applied: what was deployed last from code; None when nothing was.
        code: what compiling gives now.
        deployed: what the service has now; None when nothing is deployed, which changes nothing.
        take: place of a conflict, or the beginning of several -> which side's value to take; the code's may be taken
            for any edit. The longer beginning counts more.
        seen: what Studio had when it was pulled last, and was not applied since: only what differs from it is edited.

    Raises:
        UserError: `take` names no conflict and no edit.
    """
    if deployed is None:
        deployed = applied
    base, ours, theirs = outline(applied), outline(code), outline(deployed)
    for edit in seen:
        with suppress(NoSuchPlaceError):  # its place came with the code that was not applied yet
            base = put(base, edit.place, edit.new)
    edits, conflicts = _sorted_out(base, ours, theirs)
    wanted = _spelled_out(take or {}, edits, [*conflicts, *_standing(edits, base, ours)[1]])
    found = {edit.where for edit in edits if wanted.get(edit.where) == "code"}
    # What is listed without a choice may be chosen, also where another choice then settles it.
    listed = [*conflicts, *_standing(edits, base, ours)[1]] if wanted else conflicts
    edits, conflicts = _taken(edits, conflicts, ours, theirs, wanted)
    edits = [edit for edit in edits if not _left_to_the_code(edit, ours, wanted)]
    edits, broken = _standing(edits, base, ours)
    found |= {conflict.where for conflict in (*listed, *conflicts, *broken)}
    if unknown := next((where for where in wanted if where not in found), None):
        raise UserError(f"{unknown!r} is not in conflict. {did_you_mean(unknown, [c.where for c in conflicts])}")
    left = [c for c in conflicts if c.where not in wanted] + [c for c in broken if wanted.get(c.where) != "code"]
    definition = assembled(_laid(edits, ours), ours) if edits else ours.raw
    return Merged(cast("dict[str, Any]", definition), tuple(edits), tuple(left))


def _spelled_out(take: Mapping[str, Side], edits: list[Change], conflicts: list[Conflict]) -> dict[str, Side]:
    """Place -> whose value to take, for every place that is named or whose beginning is."""
    found: dict[str, Side] = {}
    for name, side in sorted(take.items(), key=lambda item: len(item[0])):
        open_to_choice = [*conflicts, *(edits if side == "code" else ())]
        named = [one.where for one in open_to_choice if places.is_named(one.place, [name])]
        found |= dict.fromkeys(named or [name], side)
    return found


def _left_to_the_code(edit: Change, ours: Outline, take: Mapping[str, Side]) -> bool:
    """Return True if an edit was chosen to be left out; the branch of a step that is left out goes with it."""
    step = (places.STEPS, *edit.place[1:2])
    is_orphan = edit.place[0] == places.BRANCHES and edit.step not in (ours.steps or {})
    return "code" in (take.get(edit.where), take.get(places.text(step)) if is_orphan else None)


def _sorted_out(base: Outline, ours: Outline, theirs: Outline) -> tuple[list[Change], list[Conflict]]:
    """Studio's edits that the code leaves room for, and those that it does not; neither what the code has already."""
    edits: list[Change] = []
    conflicts: dict[Place, Conflict] = {}
    for change in between(base, theirs):
        if (conflict := _added_elsewhere(change, base, ours, theirs)) is not None:
            conflicts[conflict.place] = conflict
        if _moves_a_new_step(change, base, ours):
            edits.append(change)
            continue
        if change.place in conflicts:
            continue
        try:
            here = find(ours, change.place)
            put(ours, change.place, change.new)
        except NoSuchPlaceError as error:
            conflict = _lost(change.place, error.depth, base, ours, theirs)
            conflicts.setdefault(conflict.place, conflict)
            continue
        if alike(ours, change.place, here, change.new):
            continue
        if not unlike(ours, change.place, change.old) and not _moved_about(change, base, ours):
            new = carried(change.new, change.old, here, spot_at(ours, change.place))
            edits.append(Change(change.place, here, new, change.kind))
        else:
            conflicts.setdefault(change.place, Conflict(change.place, change.old, here, change.new))
    return edits, list(conflicts.values())


def _moves_a_new_step(change: Change, base: Outline, ours: Outline) -> bool:
    """The branch of a step that Studio added; the step itself is another edit."""
    in_branch = change.place[0] == places.BRANCHES
    return in_branch and all(parts.steps is not None and change.step not in parts.steps for parts in (base, ours))


def _added_elsewhere(change: Change, base: Outline, ours: Outline, theirs: Outline) -> Conflict | None:
    """The conflict of a step that both added, each in another branch."""
    if change.old is not ABSENT or change.place[0] != places.STEPS or len(change.place) != 2:
        return None
    branch = (places.BRANCHES, change.place[1])
    if _there(ours, change.place) is ABSENT or _there(ours, branch) == _there(theirs, branch):
        return None
    return Conflict(branch, _there(base, branch), _there(ours, branch), _there(theirs, branch))


def _lost(place: Place, depth: int, base: Outline, ours: Outline, theirs: Outline) -> Conflict:
    """The conflict of an edit inside what the code has no more: about the whole of it."""
    whole = place[: max(depth, 2)]
    if whole[0] == places.BRANCHES:
        whole = (places.STEPS, whole[1])
    if whole[0] == places.STEPS and ours.steps is None:
        whole = (places.DEFINITION, "Steps")
    if whole[0] == places.PARAMETERS and ours.parameters is None:
        whole = (places.DEFINITION, "Parameters")
    return Conflict(whole, _there(base, whole), _there(ours, whole), _there(theirs, whole))


def _there(parts: Outline, place: Place) -> Value:
    try:
        return find(parts, place)
    except NoSuchPlaceError:
        return ABSENT


def _moved_about(change: Change, base: Outline, ours: Outline) -> bool:
    """Return True if the code moved or removed what an edit is about, though its value is as it was.

    A step that Studio took out was moved; the entry of a list without names is perhaps another one now.
    """
    place = change.place
    if change.new is ABSENT and len(place) == 2 and place[0] == places.STEPS:
        return _there(base, (places.BRANCHES, place[1])) != _there(ours, (places.BRANCHES, place[1]))
    for n, segment in enumerate(place):
        if isinstance(segment, Position) and segment.count > 1:
            entry = place[: n + 1]
            if unlike(ours, entry, _there(base, entry)):
                return True
    return False


def _taken(
    edits: list[Change], conflicts: list[Conflict], ours: Outline, theirs: Outline, take: Mapping[str, Side]
) -> tuple[list[Change], list[Conflict]]:
    """The edits with those that were in conflict and are to be as Studio has them."""
    for conflict in conflicts:
        if take.get(conflict.where) != "studio":
            continue
        place, new = conflict.place, conflict.deployed
        edits = [*edits, Change(place, conflict.code, new, kind_of(place, conflict.code, new))]
        branch = (places.BRANCHES, place[1])
        is_lost_step = len(place) == 2 and place[0] == places.STEPS and conflict.code is ABSENT
        if is_lost_step and branch[1] in theirs.branches:
            edits = [*edits, Change(branch, ABSENT, _there(theirs, branch), "edge")]
    chosen = list(dict.fromkeys(edit.step for edit in edits if take.get(edit.where) == "studio"))
    return [*edits, *_conditions_back(edits, chosen, ours, theirs, take)], conflicts


def _conditions_back(
    edits: list[Change], chosen: list[str | None], ours: Outline, theirs: Outline, take: Mapping[str, Side]
) -> list[Change]:
    """The conditions that the code took out, above steps that are to be as Studio has them: nothing could stand there.

    Their other steps stay out.
    """
    found: dict[Place, Change] = {}
    given = {edit.place for edit in edits}
    for step in chosen:
        for above in _conditions_above(theirs, step):
            place, branch = (places.STEPS, above), (places.BRANCHES, above)
            if above in (ours.steps or {}) or place in given or take.get(places.text(place)) == "code":
                break
            found[place] = Change(place, ABSENT, _there(theirs, place), "step")
            if above in theirs.branches:
                found[branch] = Change(branch, ABSENT, _there(theirs, branch), "edge")
    return list(found.values())


def _standing(edits: list[Change], base: Outline, ours: Outline) -> tuple[list[Change], list[Conflict]]:
    """Leave out the edits after which a step would stand in no branch; every round leaves out at least one."""
    conflicts: list[Conflict] = []
    while True:
        broken = _homeless(_laid(edits, ours))
        at_fault = [edit for edit in edits if edit.place in broken]
        if not at_fault:
            return edits, conflicts
        # A condition that was taken out with its branches stays with them.
        for gone in [edit.step for edit in at_fault if edit.new is ABSENT and edit.place[0] == places.STEPS]:
            for edit in edits:
                if edit.new is ABSENT and gone in _conditions_above(base, edit.step) and edit.place not in broken:
                    broken[edit.place] = f"{gone}, in whose branch it stands, stays"
                    at_fault.append(edit)
        conflicts += [
            Conflict(edit.place, _there(base, edit.place), edit.old, edit.new, broken[edit.place]) for edit in at_fault
        ]
        edits = [edit for edit in edits if edit not in at_fault]


def _conditions_above(parts: Outline, step: str | None) -> list[str]:
    found: list[str] = []
    while step is not None and (step := _condition_of(parts, step)) is not None:
        found.append(step)
    return found


def _laid(edits: Iterable[Change], ours: Outline) -> Outline:
    parts = ours
    for edit in edits:
        parts = put(parts, edit.place, edit.new)
    return parts


def _homeless(parts: Outline) -> dict[Place, str]:
    """The places at fault where a step stands under what is no condition, or under itself -> why."""
    found: dict[Place, str] = {}
    steps = parts.steps or {}
    for name in steps:
        seen = [name]
        while (above := _condition_of(parts, seen[-1])) is not None:
            holds = steps.get(above)
            if not isinstance(holds, dict) or holds.get("Type") != "Condition":
                why = f"step {seen[-1]} stands in a branch of {above}, which is then no condition"
                places_at_fault = ((places.STEPS, above), (places.STEPS, seen[-1]), (places.BRANCHES, seen[-1]))
                found |= dict.fromkeys(places_at_fault, why)
                break
            if above in seen:
                circle = seen[seen.index(above) :]
                why = f"steps {', '.join(sorted(circle))} then stand in each other's branches"
                found |= {(places.BRANCHES, step): why for step in circle}
                break
            seen.append(above)
    return found


def _condition_of(parts: Outline, step: str) -> str | None:
    branch = parts.branches.get(step)
    above = branch.get("step") if isinstance(branch, dict) else None
    return above if isinstance(above, str) else None
