"""The identity of a training: its data, code, initial weights and configuration."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drivetrain.data.fitted import identity
from drivetrain.steps import fresh_token, trainings
from drivetrain.steps.signature import values_before
from drivetrain.steps.trainings import module_file
from drivetrain.training.config import SAME_TRAINING, Config
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
        fresh: the token of a start with --fresh, or "".
    """

    data: str
    fields: Mapping[str, Any]
    code: Mapping[str, str]
    weights: str = ""
    continues: str = ""
    first_step: int = 0
    fresh: str = ""

    @property
    def parts(self) -> dict[str, Any]:
        """The parts of the training's identity (steps/trainings.py); of fields that came later, those that do not have
        the value that their absence meant."""
        since = values_before(Config)
        return {
            **{
                name: value
                for name, value in self.fields.items()
                if name not in SAME_TRAINING and since.get(name) != value
            },
            **{f"code of {name}": digest for name, digest in self.code.items()},
            **({"weights to start from": self.weights} if self.weights else {}),
            **({"the earlier model to go on from": self.continues} if self.continues else {}),
            **({"fresh": self.fresh} if self.fresh else {}),
            "data": self.data,
        }

    @property
    def name(self) -> str:
        """The name of the folder of its checkpoints: trainings of the same data have the first part in common."""
        return f"{self.data}-{trainings.identity_name(self.parts)[:16]}"

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
    return Identity(data, given, code_hashes(recipe), hashed, fresh=fresh_token(os.environ))


def _one_writing(options: str) -> str:
    """JSON in a canonical form, so that whitespace and the order of names do not matter."""
    return json.dumps(json.loads(options), sort_keys=True)


def code_hashes(recipe: Recipe) -> dict[str, str]:
    """Hashes of the recipe's module and of what it imports, as far as it lies in the same folder tree (beside the
    user's own recipe) or among the parts of recipes that come with the package; see trainings.code_hashes."""
    module = type(recipe).__module__
    file = sys.modules[module].__file__
    assert file is not None  # recipes are found by file name
    # `my_recipes.faces` in /code/my_recipes/faces.py: /code
    root = Path(file).resolve().parents[module.count(".") + (Path(file).name == "__init__.py")]
    return trainings.code_hashes([module], lambda name: _file_of(name, root))


def _file_of(name: str, root: Path) -> Path | None:
    """The file of a module, where it is one that counts."""
    if name.partition(".")[0] != OURS:
        return module_file(name, root)
    return module_file(name, Path(__file__).parents[3]) if name.startswith(PARTS_OF_RECIPES) else None
