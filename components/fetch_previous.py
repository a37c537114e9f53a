"""Bring a registered version's files, or any model's, to the training that goes on from it.

    python -m drivetrain.components.fetch_previous --group retraining --version 7 --content-hash 0a1b... \\
        --previous build/previous

    previous/continues.json     what it is: group, version, content_hash; {} where the training starts anew
    previous/model/...          the files, which have that hash

A pipeline need not name it: `continue_from` of a training step puts it before the training.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TypedDict

from drivetrain.base.errors import InputError
from drivetrain.components.find_previous import NONE
from drivetrain.steps import Input, Output, fresh_token
from drivetrain.steps.declaration import component


class Fetched(TypedDict):
    """The hash of the files; the word `none` where the training starts anew."""

    content_hash: str


@component(needs=("boto3",))
def fetch_previous(
    model: Input | None,
    previous: Output,
    *,
    group: str = "",
    version: str = "",
    content_hash: str = "",
    registry: str = "",
    of_this_run: bool = False,
) -> Fetched:
    """Fetch the files of an earlier model.

    Args:
        model: the output `model` of a training, of this pipeline or another; or the version below.
        previous: gets continues.json, and the model's files in model/.
        group: the model's name in the registry.
        version: the version's number, as find_previous gives it; none for a training that starts anew.
        content_hash: of the version's files.
        registry: of a version: KIND:LOCATION, or auto for the registry of the platform.
        of_this_run: the model is made in the same run; a start with --fresh goes on from no other.

    Raises:
        InputError: neither a model nor a version; one that is not there any more, or whose files are others.
    """
    from drivetrain.registry.artifacts import fetch
    from drivetrain.registry.content_hash import content_hash as hash_of
    from drivetrain.registry.intact import MEND, difference
    from drivetrain.registry.model_package import CONTINUES_FILE
    from drivetrain.registry.registry import open_registry
    from drivetrain.training.continuation import MODEL

    if (model is None) == (not version):
        raise InputError("give either the folder of a model, or a version with its group and content_hash.")
    is_fresh = not of_this_run and fresh_token(os.environ) != ""
    if is_fresh:
        model, version = None, NONE
    previous.mkdir(parents=True, exist_ok=True)
    about: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="drivetrain-previous-") as room:
        if model is not None:
            about = {"content_hash": hash_of(model)}
        elif version != NONE:
            about = {"group": group, "version": version, "content_hash": content_hash}
            artifact = open_registry(registry).version(group, int(version)).artifact
            named = f"{group} version {version}"
            try:
                model = fetch(artifact, Path(room) / "fetched")
            except InputError as error:
                raise InputError(f"the files of {named}, from which to continue, cannot be had: {error}") from None
            if problem := difference(model, content_hash):
                raise InputError(
                    f"{artifact} does not hold the files that {named} was registered with: {problem}. "
                    f"{MEND} Or continue from another version."
                )
        if model is not None:
            _copy(model, previous / MODEL)
    (previous / CONTINUES_FILE).write_text(json.dumps(about, sort_keys=True) + "\n", encoding="utf-8")
    anew = "starts anew: --fresh" if is_fresh else "starts anew"
    print(", ".join(f"{name} {text}" for name, text in about.items()) or anew, flush=True)
    return {"content_hash": about.get("content_hash", NONE)}


def _copy(model: Path, target: Path) -> None:
    """The files of a folder, or of the archive in it or at it."""
    from drivetrain.registry.model_folder import ARCHIVE, unpack

    archive = model / ARCHIVE if model.is_dir() else model
    if archive.is_file() and (model == archive or len(list(model.iterdir())) == 1):
        target.mkdir()
        unpack(archive, target)
    else:
        shutil.copytree(model, target)


if __name__ == "__main__":
    fetch_previous.main()
