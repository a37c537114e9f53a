"""Merge code and Studio, and keep the edits in a file.

sides = sides_of(load("retraining", Path("production.yaml")), "retraining", adopt=False)
merged = sides.merged({})
if not merged.conflicts:
    sides.keep(merged)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from drivetrain.base.errors import UserError
from drivetrain.base.files import write_text
from drivetrain.base.json_text import text_of
from drivetrain.deploying.project import project_of
from drivetrain.studio import patch as patches
from drivetrain.studio.deployment_texts import NO_TEXTS, DeploymentTexts, texts_of
from drivetrain.studio.merge import merge
from drivetrain.studio.patch import read
from drivetrain.studio.programs import check_programs
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.document.difference import place as places
from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change, Value, kind_of
from drivetrain.targets.sagemaker.document.difference.difference import differences
from drivetrain.targets.sagemaker.document.difference.editing import NoSuchPlaceError, alike, find
from drivetrain.targets.sagemaker.document.difference.outline import Outline, outline
from drivetrain.targets.sagemaker.document.difference.place import Place
from drivetrain.targets.sagemaker.document.document import from_json, write
from drivetrain.targets.sagemaker.document.graph import check
from drivetrain.targets.sagemaker.settings import settings_of

if TYPE_CHECKING:
    from drivetrain.assets.assets import Asset
    from drivetrain.authoring.loading import Loaded
    from drivetrain.spec.deployment import Deployment
    from drivetrain.studio.merge import Merged, Side
    from drivetrain.studio.patch import Patch
    from drivetrain.targets.sagemaker.account import Account
    from drivetrain.targets.sagemaker.deploy.deployed import Deployed
    from drivetrain.targets.sagemaker.document.document import Definition


Json = dict[str, Any]


@dataclass(frozen=True)
class Sides:
    """The three definitions of a merge: applied last, of the code, deployed."""

    name: str
    file: Path
    """The file that keeps the edits: the patch beside the pipeline, or the definition's own file."""
    alone: Json
    """The code without the edits that are kept already."""
    code: Json
    deployed: Json
    applied: Json | None
    """None for a pipeline that apply did not make, and that is taken over."""
    patch: Patch | None = None
    """The edits that are kept already."""
    is_definition: bool = False
    beside: tuple[str, ...] = ()
    """Lines about what was edited beside the definition, which no patch can keep."""
    texts: DeploymentTexts = NO_TEXTS
    """The texts of the deployment."""
    assets: tuple[Asset, ...] = ()
    """The assets that the code's definition reads."""

    def merged(self, take: Mapping[str, Side]) -> Merged:
        """The code with what was edited.

        Raises:
            UserError: `take` names neither conflict nor edit, or what comes out could not run.
        """
        edits = differences(self.alone, self.code)
        pulled = () if self.patch is None else self.patch.pulled
        if self.applied is None:
            # Where nothing was edited since it was taken over, whatever differs now is the code's doing.
            base = self.deployed if is_known(self.deployed, pulled) else self.code
            merged = merge(base, self.code, self.deployed, take)
        else:
            before = seen(edits, pulled, self.applied, self.deployed)
            merged = merge(self.applied, self.code, self.deployed, take, before)
        if merged.edits and not merged.conflicts:
            self._check(merged)
        return merged

    def _check(self, merged: Merged) -> None:
        """Refuse what no later command would take."""
        try:
            edited_definition = from_json(merged.definition, f"{self.name} with what was edited in Studio")
            check(edited_definition)
            check_programs(edited_definition, self.assets)
        except UserError as error:
            edited = ", ".join(edit.where for edit in merged.edits[:10]) + (", ..." if len(merged.edits) > 10 else "")
            raise UserError(
                f"{error} Nothing was written. Change the code or the pipeline in Studio so that they fit, or leave an "
                f"edit out: --take-code PLACE. Edited: {edited}"
            ) from None

    def keep(self, merged: Merged) -> None:
        """Write what was merged.

        Raises:
            UserError: the place cannot be written, there is more than anybody reviews, or a secret would be kept.
        """
        if self.is_definition:
            write_text(self.file, write(from_json(merged.definition, str(self.file))))
            return
        kept, before = ((), ()) if self.patch is None else (self.patch.edits, self.patch.pulled)
        wanted = patches.between(
            self.name, self.alone, merged.definition, applied=self.applied, kept=kept, texts=self.texts
        )
        edits = differences(self.alone, merged.definition)
        wanted = replace(wanted, pulled=marks(edits, self.applied, self.deployed, before))
        (wanted if self.patch is None else replace(wanted, comments=self.patch.comments)).write(self.file)


def sides_of(loaded: Loaded, given: str, *, adopt: bool) -> Sides:
    """Compile a pipeline and read what is deployed under its name.

    Args:
        given: what named it, for the command that is advised.
        adopt: take over a pipeline that apply did not make: whatever differs from the code is an edit.

    Raises:
        UserError: nothing is deployed, or it is not ours and `adopt` is not given; a pipeline that cannot be compiled.
    """
    from drivetrain.targets.sagemaker.account import Account
    from drivetrain.targets.sagemaker.deploy.desired import check_place
    from drivetrain.targets.sagemaker.deploy.planning.account_resources import told_by_pull
    from drivetrain.targets.sagemaker.deploy.planning.drift import edits_beside

    pipeline = loaded.pipeline
    place = settings_of(pipeline.deployment)
    check_place(place, "bucket")
    built = compile_pipeline(pipeline, loaded.source, loaded.base)
    alone = dict(built.definition)
    file = loaded.edits
    patch = read(file, pipeline.name) if file.exists() else None
    texts = texts_of(place)
    code = alone if patch is None else patch.apply(alone, texts=texts)
    account = Account(place.region)
    there, applied = in_the_account(account, pipeline.name, pipeline.deployment, given, adopt=adopt)
    beside = told_by_pull(edits_beside(account, pipeline, there))
    return Sides(
        pipeline.name,
        file,
        alone,
        code,
        there.definition,
        applied,
        patch,
        beside=beside,
        texts=texts,
        assets=tuple(built.assets),
    )


def sides_of_definition(name: str, definition: Definition, file: Path, deployment: Deployment, *, adopt: bool) -> Sides:
    """The same for a definition that is deployed as it is: its file is the code, and keeps the edits itself.

    Raises:
        UserError: as `sides_of`.
    """
    from drivetrain.targets.sagemaker.account import Account
    from drivetrain.targets.sagemaker.deploy.desired import check_place
    from drivetrain.targets.sagemaker.deploy.planning.account_resources import told_by_pull
    from drivetrain.targets.sagemaker.deploy.planning.drift import edits_beside_definition

    place = settings_of(deployment)
    check_place(place, "bucket")
    account = Account(place.region)
    there, applied = in_the_account(account, name, deployment, f"-d {file}", adopt=adopt)
    beside = told_by_pull(edits_beside_definition(account, name, deployment, there))
    code = definition.raw
    return Sides(name, file, code, code, there.definition, applied, is_definition=True, beside=beside)


def in_the_account(
    account: Account, name: str, deployment: Deployment, what: str, *, adopt: bool
) -> tuple[Deployed, Json | None]:
    """Read the deployed pipeline, and the definition that was applied last.

    Args:
        what: what names it on the command line.

    Raises:
        UserError: nothing is deployed, or it is not ours and `adopt` is not given.
    """
    from drivetrain.targets.sagemaker.deploy import deployed as reading
    from drivetrain.targets.sagemaker.deploy.ownership import Owner, claim

    place = settings_of(deployment)
    there = reading.read(account, name)
    if there is None:
        raise UserError(
            f"There is no pipeline {name!r} in account {account.number}, {account.region}, so there is nothing to "
            f"pull. Deploy it: drivetrain apply {what}"
        )
    claimed = claim(account, name, Owner(place.root, project_of(deployment)), there)
    if adopt:
        return claimed.seen(there), None
    if claimed.other is not None:
        raise UserError(
            f"Pipeline {name!r} in account {account.number} is not this project's: it belongs to {claimed.other}. Pull "
            "it with the settings of its owner. To take it over as it is, everything that differs from the code as an "
            "edit: --adopt"
        )
    applied = reading.base_of(account, there, place.root)
    if applied is None:
        raise UserError(
            f"Pipeline {name!r} was not made by `drivetrain apply`, so edits cannot be told from what was deployed. "
            "Take it over as it is, with every difference from the code as an edit: --adopt"
        )
    return there, applied


# Until the next apply, what is deployed differs from what apply wrote last by all that was pulled already. So that the
# next pull can tell new edits from those, a patch holds a mark of each value as Studio had it: a hash of what apply had
# written, of the place and of the value. After the next apply no mark fits any more, and none is needed.
_MARK_CHARACTERS = 16


def marks(
    edits: Iterable[Change],
    applied: Mapping[str, Any] | None,
    deployed: Mapping[str, Any],
    before: Iterable[str] = (),
) -> tuple[str, ...]:
    """The marks of a pull: of each edit that is as Studio has it, also where a reviewer has deleted it since.

    Args:
        edits: of the patch that is about to be written.
        applied: what apply wrote last; None where it never did: then there is one mark, of all that is deployed.
        deployed: what the service has.
        before: the marks of the patch until now.
    """
    if applied is None:
        return (_mark(None, (), cast("Json", deployed)),)
    there = outline(deployed)
    found = [_mark(applied, edit.place, edit.new) for edit in edits if _is_there(edit, there)]
    known = set(before)
    again = (_mark(applied, change.place, change.new) for change in differences(applied, deployed))
    return tuple(dict.fromkeys([*found, *(mark for mark in again if mark in known)]))


def seen(
    edits: Iterable[Change], pulled: Iterable[str], applied: Mapping[str, Any], deployed: Mapping[str, Any]
) -> tuple[Change, ...]:
    """Give Studio's values at these edits, and at those that a reviewer has deleted since, as far as the marks
    say it; `old` is not known."""
    known, there = set(pulled), outline(deployed)
    kept = list(edits)
    found: list[Change] = []
    places_of_kept = {edit.place for edit in kept}
    for edit in (*kept, *(change for change in differences(applied, deployed) if change.place not in places_of_kept)):
        for value in _candidates(edit, there):
            if _mark(applied, edit.place, value) in known:
                found.append(Change(edit.place, ABSENT, value, kind_of(edit.place, ABSENT, value)))
                break
    return tuple(found)


def is_known(deployed: Mapping[str, Any], pulled: Iterable[str]) -> bool:
    """Return True if the deployed pipeline is as it was when it was pulled, with nothing applied since."""
    return _mark(None, (), cast("Json", deployed)) in pulled


def _candidates(edit: Change, there: Outline) -> Iterator[Value]:
    yield edit.new
    try:
        yield find(there, edit.place)  # a reviewer changed the edit, and Studio has it as it was pulled
    except NoSuchPlaceError:
        return


def _is_there(edit: Change, there: Outline) -> bool:
    try:
        return alike(there, edit.place, find(there, edit.place), edit.new)
    except NoSuchPlaceError:
        return edit.new is ABSENT


def _mark(applied: Mapping[str, Any] | None, place: Place, value: Value) -> str:
    base = "" if applied is None else text_of(cast("Json", applied))
    parts = (base, places.text(place), "" if value is ABSENT else text_of(value))
    hashes = "".join(hashlib.sha256(part.encode()).hexdigest() for part in parts)
    return hashlib.sha256(hashes.encode()).hexdigest()[:_MARK_CHARACTERS]
