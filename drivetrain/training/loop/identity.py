"""What identifies a training: its data, code, initial weights and configuration."""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from drivetrain.data.fitted import identity
from drivetrain.steps.signature import values_before
from drivetrain.training.config import MAY_CHANGE, Config
from drivetrain.training.input_pipeline.content import content_hash
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.process import Process
from drivetrain.training.recipe import HasFolder, Recipe
from drivetrain.training.weights_file import shared_hash

OURS = "drivetrain"
# What recipes are made of. The rest of the package trains any model alike, and may be mended between two attempts.
PARTS_OF_RECIPES = (
    *("drivetrain.training_scripts.recipes", "drivetrain.training.torch.models"),
    "drivetrain.training.input_pipeline",
)


@dataclass(frozen=True)
class Identity:
    """Distinguishes a training from all others.

    Attributes:
        data: the hash of the data's content.
        fields: all fields of its Config.
        code: SHA-256, cut short, of each module of the recipe.
        weights: the hash of what the model starts from, or "".
        continues: the hash of the earlier model that it goes on from, or "".
        first_step: the steps that were taken before the first one on this data.
    """

    data: str
    fields: Mapping[str, Any]
    code: Mapping[str, str]
    weights: str = ""
    continues: str = ""
    first_step: int = 0

    @property
    def name(self) -> str:
        """Of the folder of its checkpoints: trainings of the same data have the first part in common."""
        since = values_before(Config)
        fixed = {
            name: value
            for name, value in self.fields.items()
            if name not in MAY_CHANGE and not (name in since and since[name] == value)
        }
        given = [fixed, dict(self.code), self.weights, *([self.continues] if self.continues else [])]
        text = json.dumps(given, sort_keys=True)
        return f"{self.data}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def saved(self) -> dict[str, Any]:
        """As it is written into a checkpoint: plain JSON."""
        return {
            **self.fields,
            "code": dict(self.code),
            "weights": self.weights,
            "data": self.data,
            "continues": self.continues,
            "first_step": self.first_step,
        }


def training_identity(
    config: Config, dataset: Dataset, recipe: Recipe, weights: Path | None, process: Process
) -> Identity:
    """Every rank must call it."""
    hashed = ""
    if isinstance(recipe, HasFolder):
        files = recipe.files()
        hashed = content_hash(files[0].parent, files, process)[:16]
    elif weights:
        hashed = shared_hash(weights, process)[:16]
    given = {
        name: _one_writing(value) if name.endswith("_options") else value for name, value in asdict(config).items()
    }
    data = dataset.content_hash
    if "columns" in dataset.fitted:  # what the shards do not hold, and the model sees all the same
        data = hashlib.sha256(f"{data} {identity(dataset.fitted)}".encode()).hexdigest()
    return Identity(data, given, code_hashes(recipe), hashed)


def _one_writing(options: str) -> str:
    """JSON in a canonical form, so that whitespace and the order of names do not matter."""
    return json.dumps(json.loads(options), sort_keys=True)


def code_hashes(recipe: Recipe) -> dict[str, str]:
    """Of the recipe's module and of what it imports, and that in turn, as far as it lies in the same folder tree
    (beside the user's own recipe) or among the parts of recipes that come with the package: module -> SHA-256, its
    first 16 digits.

    Imports are read from the files: a module that is only imported by a computed name is not seen.
    """
    module = type(recipe).__module__
    file = sys.modules[module].__file__
    assert file is not None  # recipes are found by file name
    # `my_recipes.faces` in /code/my_recipes/faces.py: /code
    root = Path(file).resolve().parents[module.count(".") + (Path(file).name == "__init__.py")]
    found: dict[str, str] = {}
    ahead = [module]
    while ahead:
        name = ahead.pop()
        path = None if name in found else _file_of(name, root)
        if path is not None:
            source = path.read_bytes()
            found[name] = hashlib.sha256(source).hexdigest()[:16]
            ahead += _imports(name if path.name == "__init__.py" else name.rpartition(".")[0], source)
    return dict(sorted(found.items()))


def _file_of(name: str, root: Path) -> Path | None:
    """The file of a module, where it is one that counts."""
    parts = name.split(".")
    if parts[0] == OURS:
        place, parts = Path(__file__).parents[2], parts[1:]
        if not name.startswith(PARTS_OF_RECIPES):
            return None
    else:
        place = root
    path = place.joinpath(*parts)
    return next((file for file in (path / "__init__.py", path.with_name(f"{path.name}.py")) if file.is_file()), None)


@cache  # by what the files say: a process that trains again need not parse them again
def _imports(package: str, source: bytes) -> tuple[str, ...]:
    """The names that a module of `package` imports, with the packages around them; some may be no modules."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # nothing has imported it yet; whoever does is told
        return ()
    found: dict[str, None] = {}
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
            found.update((".".join(parts[: number + 1]), None) for number in range(len(parts)))
    return tuple(found)
