"""Rules about trainings that start from the folder of a pretrained model (recipe huggingface).

A folder that lies on this machine is looked at; of one that lies elsewhere the training itself says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError, UserError
from drivetrain.catalog.json_options import parse_options
from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.trainings import trainings
from drivetrain.training.pretrained_folder import PretrainedFolder

RECIPE = "huggingface"
# The recipe's own defaults, which are read without importing torch (a test compares them).
DEFAULTS: dict[str, Any] = {
    "pretrained": "",
    "head": "sequence_classification",
    "length": 256,
    "lora_rank": 0,
    "lora_targets": (),
}
KINDS: dict[str, tuple[Any, str]] = {
    "pretrained": (str, "a text"),
    "head": (str, "a text"),
    "length": (int, "a whole number"),
    "lora_rank": (int, "a whole number"),
    "lora_targets": ((list, tuple), "a list of texts"),
}

rule = RuleBook()


@rule
def pretrained_models_fit(graph: Graph) -> Iterator[str]:
    for training in trainings(graph.pipeline):
        text = training.text("recipe_options")
        if training.text("recipe") != RECIPE or text is None:
            continue
        try:
            options = DEFAULTS | parse_options(text, "recipe_options")
        except UserError:  # recipe_options_exist says so
            continue
        weights = training.step.inputs.get("weights")
        if not options["pretrained"] and weights is None:
            yield (
                f"{training.where}: recipe {RECIPE!r} starts from the folder of a pretrained model. Give the step "
                'weights=..., or recipe_options {"pretrained": "/a/folder"}.'
            )
        wrong = [name for name, (kind, _) in KINDS.items() if not isinstance(options[name], kind)]
        if wrong:
            name = wrong[0]
            yield f"{training.where}: recipe {RECIPE!r}: {name}={options[name]!r} should be {KINDS[name][1]}."
            continue
        given = options["pretrained"] or weights
        if not isinstance(given, str) or "://" in given or not Path(given).is_dir():
            continue
        try:
            folder = PretrainedFolder(Path(given), f"{training.where}, recipe {RECIPE!r}")
            folder.check(options["head"], options["length"], options["lora_targets"] if options["lora_rank"] else ())
        except InputError as error:
            yield str(error)
