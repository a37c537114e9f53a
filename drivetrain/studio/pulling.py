"""Merge code and Studio, and keep the edits in a file.

sides = sides_of(load("retraining", Path("production.yaml")), "retraining", adopt=False)
merged = sides.merged({})
if not merged.conflicts:
    sides.keep(merged)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError
from drivetrain.base.files import write_text
from drivetrain.deploying.project import project_of
from drivetrain.studio import patch as patches
from drivetrain.studio.deployed_edits import is_known, marks, seen
from drivetrain.studio.deployment_texts import NO_TEXTS, DeploymentTexts, texts_of
from drivetrain.studio.merge import merge
from drivetrain.studio.patch import read
from drivetrain.studio.programs import check_programs
from drivetrain.targets.sagemaker.document.difference.difference import differences
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
    from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
    from drivetrain.targets.sagemaker.deploy.desired import check_bucket
    from drivetrain.targets.sagemaker.deploy.planning.account_resource_words import told_by_pull
    from drivetrain.targets.sagemaker.deploy.planning.drift import edits_beside

    pipeline = loaded.pipeline
    place = settings_of(pipeline.deployment)
    check_bucket(place)
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
    from drivetrain.targets.sagemaker.deploy.desired import check_bucket
    from drivetrain.targets.sagemaker.deploy.planning.account_resource_words import told_by_pull
    from drivetrain.targets.sagemaker.deploy.planning.drift import edits_beside_definition

    place = settings_of(deployment)
    check_bucket(place)
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
