"""The libraries of the champions that a pipeline compares with, looked for on this machine before anything trains."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import InputError, UserError
from drivetrain.spec.resources import COMPARE
from drivetrain.spec.steps import JobStep, flatten

if TYPE_CHECKING:
    from drivetrain.spec.pipeline import Pipeline


def notes(pipeline: Pipeline, registry: str) -> Iterator[str]:
    """A line for each comparison with a champion whose library is missing here, or of another version.

    Nothing is refused: the answers that a version keeps may do (drivetrain/registry/kept_answers.py). A registry or a
    model that cannot be read is left to the comparison.

    Args:
        registry: local:LOCATION, which `auto` stands for. Other registries are not asked: their models lie elsewhere.
    """
    for step in flatten(pipeline.steps):
        if not isinstance(step, JobStep) or step.program.target != COMPARE:
            continue
        group, named = step.parameters.get("group"), step.parameters.get("registry", "auto")
        url = registry if named == "auto" else named
        if not isinstance(group, str) or not isinstance(url, str) or not url.startswith("local:"):
            continue
        try:
            found = _lacking(group, url)
        except (InputError, UserError):
            continue
        if found is not None:
            version, library, made_by = found
            made_with = f"{library} {made_by}".rstrip()
            yield (
                f"step {step.name!r}: the champion, version {version} of {group}, was made with {made_with}, which is "
                "not here: it cannot be asked, and a new test set cannot be compared on. Install it before the "
                f"training: pip install {install(library, made_by)}"
            )


def _lacking(group: str, url: str) -> tuple[int, str, str] | None:
    """A champion, the first of its libraries that is missing, and the version with which it was made."""
    from drivetrain.operations.models import fetched
    from drivetrain.registry.registration import describe
    from drivetrain.registry.registry import open_registry

    version = open_registry(url).champion(group)
    if version is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        about: Mapping[str, Any] = describe(fetched(version, Path(folder), url, None)) or {}
    framework = str(about.get("framework", ""))
    if framework in ("torch", "tensorflow") and find_spec(framework) is None:
        return version.version, "tensorflow-cpu" if framework == "tensorflow" else framework, ""
    needs: Mapping[str, str] = about.get("needs") or {}
    if not needs:
        return None
    from drivetrain.training.serving.functions import check_libraries  # (which imports numpy)

    for name, made_with in needs.items():
        try:
            check_libraries(Path(), {name: made_with})
        except InputError:
            return version.version, name, made_with
    return None


def install(library: str, version: str) -> str:
    """The argument of `pip install` that brings a library: our extra that has it in this version, or itself."""
    from drivetrain.assets.requirements import parse

    for line in metadata.requires("drivetrain") or ():
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        requirement = parse(line.partition(";")[0])
        if extra and extra[1] != "dev" and requirement.name == library:
            return (
                f"'drivetrain[{extra[1]}]'" if not version or requirement.allows(version) else f"'{library}=={version}'"
            )
    return f"'{library}=={version}'" if version else library
