"""The results of a training: the model folder and the metrics of its validations."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from typing import Any

from drivetrain.base.json_options import parse_options
from drivetrain.training.config import LOOKS_ON, Config, Folders
from drivetrain.training.framework import Framework
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.input_pipeline.description import describe_data
from drivetrain.training.loop.watch import Watch
from drivetrain.training.model_folder import CODE, FRAMEWORK
from drivetrain.training.process import Process
from drivetrain.training.recipe import HasFolder

HISTORY_FILE = "history.json"

History = list[dict[str, Any]]


def save_result(
    framework: Framework,
    config: Config,
    folders: Folders,
    process: Process,
    dataset: Dataset,
    weights: Mapping[str, Any],
    history: History,
    watch: Watch,
    about: Mapping[str, Any],
) -> None:
    """Write the model folder and history.json (called on rank 0 only).

    Args:
        weights: the whole model's parameters and buffers, those of the best validation with `keep_best`.
        history: one entry a validation, the last one after the last step.
        watch: which of them was the best.
        about: what model.json says besides.
    """
    description = describe(framework, config, process, dataset, history, watch, steps=history[-1]["step"])
    description = {**description, **about}
    recipe = dataset.recipe
    if isinstance(recipe, HasFolder):
        framework.save_model(folders.model, recipe.handed_on(weights), description)
        recipe.save_beside(folders.model, weights)
    else:
        framework.save_model(folders.model, weights, description)
    if folders.output:
        folders.output.mkdir(parents=True, exist_ok=True)
        best_step = watch.best_step if _is_watched(config) else None
        marked = [{**entry, "best": True} if entry["step"] == best_step else entry for entry in history]
        (folders.output / HISTORY_FILE).write_text(json.dumps(marked, indent=1) + "\n", encoding="utf-8")


def describe(
    framework: Framework,
    config: Config,
    process: Process,
    dataset: Dataset,
    history: History,
    watch: Watch,
    *,
    steps: int,
) -> dict[str, Any]:
    """The content of model.json after `steps` steps, but for the weights' part; and
    under `code` the files of its code/.

    Checkpoints keep it, so that one can become a model folder (drivetrain.training_scripts.checkpoints export). There
    are no metrics if these very weights have not been validated.
    """
    recipe = dataset.recipe
    step = watch.best_step if config.keep_best and watch.best is not None else steps
    chosen = next((entry for entry in history if entry["step"] == step), {})
    best = {"monitor": watch.monitor, "value": watch.best, "step": watch.best_step} if _is_watched(config) else None
    return {
        FRAMEWORK: framework.name,
        "recipe": config.recipe,
        "recipe_options": parse_options(config.recipe_options, "recipe_options"),
        "precision": config.precision,
        "columns": list(recipe.columns),
        # What a request has to bring: types and shapes as the reader gave them, and how it made them.
        "inputs": dataset.inputs,
        "label": dataset.label,
        "num_classes": recipe.num_classes,
        "input_statistics": dataset.statistics,
        # With the same options and what was learnt from the training data other data is read as it was.
        "data": describe_data(dataset.reader, config.reader, parse_options(config.reader_options, "reader_options")),
        "training": {
            # What decides the weights: equal models have equal descriptions, however they were watched and kept.
            **{name: value for name, value in asdict(config).items() if name not in LOOKS_ON},
            "world_size": process.world_size,
            "steps": steps,
            "stopped_early": watch.gives_up,
        },
        "step": step,
        "metrics": {name: value for name, value in chosen.items() if name not in ("epoch", "step")},
        "best": best,
        "versions": {"python": platform.python_version(), **_versions(), **_versions_of(framework)},
        CODE: framework.code_of(recipe, dataset.reader_name),
    }


@cache
def _versions() -> dict[str, str]:
    """Cached: each version is a file to find and parse, and a save must not wait for that."""
    return {name: version(name) for name in ("numpy", "pyarrow")}


@cache
def _versions_of(framework: Framework) -> dict[str, str]:
    return framework.versions()


def _is_watched(config: Config) -> bool:
    return bool(config.early_stopping or config.keep_best)
