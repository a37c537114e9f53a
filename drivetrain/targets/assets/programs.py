"""Whether the program of a step is there: found as a pipeline is compiled, not when its turn has come."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from pathlib import Path

from drivetrain.base.errors import SpecError, did_you_mean
from drivetrain.spec.steps import TRAIN, TRAIN_SCRIPT, JobStep
from drivetrain.targets.assets.assets import package_folder

# Parameters whose values are names of files in training_scripts (read here, never imported).
PLUGINS = {TRAIN: {"recipe": "recipes"}}


def check_program(step: JobStep, source: Path | None, travelling: AbstractSet[str]) -> None:
    """Refuse a plug-in or a script that would not be there.

    Args:
        source: folder of the user's pipeline file.
        travelling: the user's files that travel, by their paths in that folder.

    Raises:
        SpecError: naming the step, and the closest match.
    """
    _check_plugins(step, travelling)
    _check_script(step, source, travelling)


def _check_plugins(step: JobStep, travelling: AbstractSet[str]) -> None:
    for name, family in PLUGINS.get(step.program.target, {}).items():
        given = step.parameters.get(name)
        if not isinstance(given, str) or "." in given:
            continue  # known when it runs; or a module of the user's own, inside a package
        known = _plugin_names(family)
        if name == "recipe":
            known |= {name.removesuffix(".py") for name in travelling if "/" not in name}
        if given not in known:
            raise SpecError(f"Step {step.name!r}: no {name} {given!r}. {did_you_mean(given, known)}")


def _plugin_names(family: str) -> set[str]:
    """The plug-ins of a folder of training_scripts, by file name."""
    folder = package_folder() / "training_scripts" / family
    return {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}


def _check_script(step: JobStep, source: Path | None, travelling: AbstractSet[str]) -> None:
    """A script of the user's own, unless it comes with an input (or all is known later)."""
    script = step.program.target if step.program.kind == "script" else None
    if step.program.target == TRAIN_SCRIPT and "source" not in step.inputs:
        script = step.parameters.get("script")
    if not isinstance(script, str) or source is None or script in travelling:
        return
    there = (source / script).is_file()
    raise SpecError(
        f"Step {step.name!r}: script {script!r} in {source} does not travel: only Python files do. Give the "
        "folder that it lies in as an input."
        if there
        else f"Step {step.name!r}: there is no script {script!r} in {source}. {did_you_mean(script, travelling)}"
    )
