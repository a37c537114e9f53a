"""Which training it is: its checkpoints are gone on from by the same one only."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Generator
from pathlib import Path

from drivetrain.training_scripts.data.dataset import Dataset
from drivetrain.training_scripts.models.weights_file import shared_hash
from drivetrain.training_scripts.process import Process
from drivetrain.training_scripts.recipe import Recipe

OURS = "drivetrain.training_scripts"
# What recipes are made of. The rest of the package trains any model alike, and may be mended between two attempts.
PARTS_OF_RECIPES = ("recipes", "models", "data")


def training_identity(dataset: Dataset, recipe: Recipe, weights: Path | None, process: Process) -> str:
    """Data, code and first weights: where one of them is another, a training starts afresh; a retry goes on.

    Every rank must call it.
    """
    parts = [dataset.content_hash, code_hash(recipe)[:16]]
    if weights:
        parts.append(shared_hash(weights, process)[:16])
    return "-".join(parts)


def code_hash(recipe: Recipe) -> str:
    """SHA-256 of the recipe's module and of what it imports, and that in turn, as far as it lies in the same folder
    tree (beside the user's own recipe) or among the parts of recipes that come with the package.

    Imports are read from the files: a module that is only imported by a computed name is not seen.
    """
    module = type(recipe).__module__
    file = sys.modules[module].__file__
    assert file is not None  # recipes are found by file name
    # `my_recipes.faces` in /code/my_recipes/faces.py: /code
    root = Path(file).resolve().parents[module.count(".") + (Path(file).name == "__init__.py")]
    found: dict[str, Path] = {}
    ahead = [module]
    while ahead:
        name = ahead.pop()
        path = None if name in found else _file_of(name, root)
        if path is not None:
            found[name] = path
            ahead += _imports(name, path)
    total = hashlib.sha256()
    for name, path in sorted(found.items()):
        total.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _file_of(name: str, root: Path) -> Path | None:
    """The file of a module, where it is one that counts."""
    parts = name.split(".")
    if name.startswith(f"{OURS}."):
        place, parts = Path(__file__).parents[1], parts[2:]
        if parts[0] not in PARTS_OF_RECIPES:
            return None
    elif parts[0] == OURS.partition(".")[0]:
        return None
    else:
        place = root
    path = place.joinpath(*parts)
    return next((file for file in (path / "__init__.py", path.with_name(f"{path.name}.py")) if file.is_file()), None)


def _imports(name: str, path: Path) -> Generator[str]:
    """The names that a module's file imports, with the packages around them; some may be no modules."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # nothing has imported it yet; whoever does is told
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            wanted = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for each in wanted:
            parts = each.split(".")
            yield from (".".join(parts[: number + 1]) for number in range(len(parts)))
