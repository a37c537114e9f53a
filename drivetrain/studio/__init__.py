"""Edits made in SageMaker Studio, kept: merged with the code, written beside it, laid on every compile.

What every command deploys, runs and shows is the compiled pipeline with the edits that are kept beside it:

    built = compile_edited(load("retraining", Path("production.yaml"), ["epochs=30"]))

`compile_pipeline` alone gives what the code says.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drivetrain.authoring.loading import Loaded
    from drivetrain.targets.sagemaker.compile.compile import Compiled


def compile_edited(loaded: Loaded, *, here: bool = False, edits_optional: bool = False) -> Compiled:
    """Compile a loaded pipeline and lay on what was edited in Studio (its NAME.studio.yaml).

    Args:
        here: as of `compile_pipeline`.
        edits_optional: leave out an edit that does not fit, and say so in the notes; for a run on this machine, where
            settings that were changed for it win.

    Raises:
        UserError: a pipeline that cannot be compiled, an edit that does not fit, or edits that make a definition that
            could not run.
    """
    from drivetrain.targets.sagemaker.compile.compile import compile_pipeline

    built = compile_pipeline(loaded.pipeline, loaded.source, loaded.base, here=here)
    return with_edits(built, loaded.edits, edits_optional) if loaded.edits.exists() else built


def with_edits(built: Compiled, file: Path, edits_optional: bool) -> Compiled:
    """A compiled pipeline with the edits of a file; see `compile_edited`."""
    from drivetrain.studio.deployment_texts import texts_of
    from drivetrain.studio.patch import read
    from drivetrain.studio.programs import check_programs
    from drivetrain.targets.sagemaker.document.document import from_json
    from drivetrain.targets.sagemaker.document.graph import check
    from drivetrain.targets.sagemaker.settings import settings_of

    patch = read(file, built.pipeline.name)
    left_out: list[str] = []
    texts = texts_of(settings_of(built.pipeline.deployment))
    definition = patch.apply(built.definition, left_out if edits_optional else None, texts)
    edited = from_json(definition, f"{built.pipeline.name} with {file.name}")
    check(edited)
    check_programs(edited, built.assets)
    return replace(built, definition=definition, notes=(*built.notes, *left_out))
