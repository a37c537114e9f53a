"""Have a recipe measured: by drivetrain.training_scripts.profile_recipe, in a process of its own, since it imports
torch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivetrain.base.errors import BAD_INPUT, UserError
from drivetrain.catalog.strategies import TORCH
from drivetrain.recommend.facts import SUFFIX, FactsError, FactsFile, new_file, read_file
from drivetrain.recommend.facts_places import SHIPPED
from drivetrain.training.plugins import recipes_alone

PROGRAM = "drivetrain.training_scripts.profile_recipe"


def measure(recipe: str, options: Mapping[str, Any], folder: Path, write_speed: Path | None = None) -> dict[str, Any]:
    """Run the measuring program on a recipe, and read what it prints.

    Args:
        folder: where the user's own recipes are found.
        write_speed: a folder whose disk is measured, too.

    Raises:
        UserError: the recipe cannot be measured, or torch is not installed.
    """
    command = [sys.executable, "-m", PROGRAM, f"--recipe={recipe}", f"--recipe-options={json.dumps(options)}"]
    if write_speed is not None:
        command.append(f"--write-speed={write_speed.resolve()}")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    said = done.stderr.strip()
    if "No module named 'torch'" in said:
        raise UserError("Measuring a recipe takes torch, which is not installed here. pip install 'drivetrain[torch]'")
    if done.returncode == BAD_INPUT:
        raise UserError(said.removeprefix("error: "))
    last = said.splitlines()[-1] if said else f"exit code {done.returncode}"
    raise UserError(f"recipe {recipe!r} cannot be measured: {last}\nThe whole of it: {' '.join(command[1:])}")


def merged(path: Path, measured: Mapping[str, Any], instance: str | None = None) -> FactsFile:
    """The facts file at `path` with one more measurement; a new file if it is missing or cannot be read."""
    try:
        before = read_file(path) if path.exists() else None
    except FactsError:
        before = None  # of another format, or no facts at all: this is the command that mends it
    if before is None or before.recipe != measured["recipe"]:
        return new_file(measured, instance)
    return before.with_measurement(measured, instance)


def ship() -> None:
    """Measure every recipe of the package with its default options, into the package (`make facts`)."""
    recipes = recipes_alone(TORCH)
    SHIPPED.mkdir(exist_ok=True)
    for old in SHIPPED.glob(f"*{SUFFIX}"):
        if old.name.removesuffix(SUFFIX) not in recipes:
            old.unlink()
    for recipe in recipes:
        measured = measure(recipe, {}, Path.cwd())
        (SHIPPED / f"{recipe}{SUFFIX}").write_text(new_file(measured).text(), encoding="utf-8")
        print(f"measured {recipe}")


if __name__ == "__main__":
    ship()
