"""Find the facts of a recipe, beside the user's pipeline or in the package, and check that they still hold.

Facts of the shipped recipes with their default options come with the package (data/, written by `make facts`); a file
beside the pipeline comes first.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.catalog.strategies import recipe_file, recipes_below
from drivetrain.recommend.facts import SUFFIX, Facts, FactsError, read_file

SHIPPED = Path(__file__).parent / "data"


def look_up(recipe: str, options: Mapping[str, Any], folder: Path) -> Facts:
    """The facts of a recipe with these options, as they are true now.

    Args:
        folder: the folder of the user's pipeline; the recipe's own module is looked for there, too.

    Raises:
        FactsError: they are missing, or the recipe was changed since; the message names the command that measures them.
        UserError: there is no such recipe.
    """
    command = recommend_command(recipe, options)
    source = recipe_file(recipe, folder)
    if source is None and "." not in recipe:
        raise UserError(f"no recipe {recipe!r}. {did_you_mean(recipe, recipes_below(folder))}")
    path = beside(recipe, folder)
    written = path.is_file()
    if not written:
        path = SHIPPED / f"{recipe}{SUFFIX}"
        if not path.is_file():
            raise FactsError(f"there are no facts of recipe {recipe!r} in {folder}. Measure it: {command}")
    found = read_file(path)
    if found.recipe != recipe:
        raise FactsError(f"{path} holds the facts of recipe {found.recipe!r}, not {recipe!r}. Measure it: {command}")
    if source is not None and hashlib.sha256(source.read_bytes()).hexdigest() != found.source_hash:
        raise FactsError(
            f"the facts of recipe {recipe!r} in {path.name} are stale: {source.name} was changed since. Measure it "
            f"again: {command}"
        )
    facts = found.find(options)
    if facts is None:
        known = ", ".join(json.dumps(each["recipe_options"]) for each in found.measurements)
        raise FactsError(
            f"there are no facts of recipe {recipe!r} with options {json.dumps(options)} (there are: {known}). "
            f"Measure it: {command}"
        )
    return facts


def beside(recipe: str, folder: Path) -> Path:
    """The facts file in the folder of a pipeline."""
    return folder / f"{recipe}{SUFFIX}"


def recommend_command(recipe: str, options: Mapping[str, Any]) -> str:
    """The command that writes the missing facts."""
    more = f" --recipe-options {shlex.quote(json.dumps(options))}" if options else ""
    return f"drivetrain recommend --recipe {shlex.quote(recipe)}{more} --write"
