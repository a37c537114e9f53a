"""Refuses a step that Studio lets run a program which does not travel with it: a step's code is what its program in the
pipeline's code imports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from drivetrain.assets.assets import Asset, CodeArchive
from drivetrain.assets.step_code import ALL_ROOMS, rooms_named
from drivetrain.base.errors import UserError
from drivetrain.base.json_text import list_in, object_in
from drivetrain.targets.sagemaker.document.document import Definition

_PROGRAM = re.compile(r"[A-Za-z_][\w.]*:[\w./-]+")
_WITH_WORDS = ("AppSpecification", "AlgorithmSpecification")


def check_programs(definition: Definition, assets: Iterable[Asset]) -> None:
    """
    Args:
        assets: what the definition's code reads; the content of other code is unknown here.

    Raises:
        UserError: a step runs a file of the user's, or a component, that is not in its code.
    """
    archives = {
        PurePosixPath(asset.uri).stem: asset.source for asset in assets if isinstance(asset.source, CodeArchive)
    }
    for step in definition.all_steps:
        code, program = _code_and_program(step.arguments)
        if code not in archives or not program:
            continue
        archive, files = archives[code], _files_of(program)
        if not files and archive.rooms != ALL_ROOMS and (missing := rooms_named((program,)) - archive.rooms):
            raise UserError(
                f"Step {step.name!r}: edited in Studio, it runs {program!r}, and the code that travels with it has "
                f"no drivetrain/{min(missing)}, only what its program in the pipeline's code needs. Let the step of "
                "the code run that program, or take the edit back."
            )
        if not files or archive.names.intersection(f"source/{file}" for file in files):
            continue
        there = sorted(name.removeprefix("source/") for name in archive.names if name.startswith("source/"))
        raise UserError(
            f"Step {step.name!r}: edited in Studio, it runs {program!r}, and the code that travels with it has no "
            f"{files[0]}, only what its program in the pipeline's code imports ({', '.join(there[:5]) or 'no file'}"
            f"{', ...' if len(there) > 5 else ''}). Let the step of the code run that program, or import {files[0]} in "
            "one of these files, or take the edit back."
        )


def _code_and_program(arguments: Mapping[str, Any]) -> tuple[str, str]:
    """The hash of a job's code and its program; empty where it has none of ours."""
    for name in _WITH_WORDS:
        words = list_in(object_in(arguments, name), "ContainerArguments")
        if words[:1] == ["--code"] and len(words) > 2:
            found = (word for word in words[2:] if isinstance(word, str) and _PROGRAM.fullmatch(word))
            return str(words[1]), next(found, "")
    return "", ""


def _files_of(program: str) -> tuple[str, ...]:
    """The files of the user's folder that may hold a program; none of one that comes with the package."""
    module, _, name = program.partition(":")
    if module == "script":
        return (name,)
    path = module.replace(".", "/")
    return () if not module or module.startswith("drivetrain.") else (f"{path}.py", f"{path}/__init__.py")
