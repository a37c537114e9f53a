"""Train on several processes from a notebook, or any other running Python, and come back with the result.

    from drivetrain.training_scripts.notebook import spawn

    result = spawn(recipe="digits_cnn", train="build/train", model="build/model", processes=2, epochs=5)
    result.history[-1]

The training is the same as the launcher's: the same recipe, fields and data give the same model. A notebook has
threads, so its processes are spawned, not forked (what torch.multiprocessing calls `spawn`): each is a fresh Python
that imports the recipe from its file. The class in a cell has no file; `%%writefile my_recipe.py` gives it one.
"""

from __future__ import annotations

import json
import os
import tempfile
import types
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.steps.signature import parameters_of
from drivetrain.training.config import Config, Folders
from drivetrain.training.errors import unknown_name
from drivetrain.training.launch.cluster import LOCALHOST, Cluster, num_gpus
from drivetrain.training.launch.environment import process_environment
from drivetrain.training.launch.processes.spawned import RankError, Ranks

__all__ = ["RankError", "Result", "spawn"]

_SHIPPED = "drivetrain.training_scripts.recipes."
_TYPES: dict[type, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a text"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    bool: ((bool,), "True or False"),
}
_ADVICE = "Write it to a file beside the notebook (%%writefile my_recipe.py) and give recipe='my_recipe'."


@dataclass(frozen=True)
class Result:
    """The result of a training: the model's folder, and the metrics of each validation as in history.json."""

    model: Path
    history: list[dict[str, Any]]


def spawn(
    *,
    train: Path | str,
    model: Path | str,
    validation: Path | str | None = None,
    output: Path | str | None = None,
    checkpoints: Path | str | None = None,
    processes: int = 2,
    **config: Any,
) -> Result:
    """Train on `processes` processes of this machine; shows what rank 0 prints while it goes.

    Args:
        train: the data, and the other folders of `Folders` likewise.
        config: the fields of `Config`; options that are JSON objects may be dicts.

    Raises:
        InputError: an unknown field, a recipe without a file, or what the training finds wrong with its input.
        RankError: a process failed; the others are stopped.
        KeyboardInterrupt: from the keyboard, after all processes are stopped.
    """
    given = _config(config)
    gpus = num_gpus(os.environ)
    if processes < 1 or (gpus and processes > gpus):
        most = f" to {gpus}, one a GPU" if gpus else ""
        raise InputError(f"processes={processes}; allowed are whole numbers from 1{most}.")
    from drivetrain.training_scripts.train import HISTORY_FILE

    with tempfile.TemporaryDirectory(prefix="drivetrain-notebook-") as temporary:
        folders = {"train": train, "model": model, "validation": validation, "checkpoints": checkpoints}
        found = {name: os.path.abspath(path) for name, path in folders.items() if path is not None}
        found["output"] = os.path.abspath(output) if output is not None else f"{temporary}/output"
        with _meeting_point(processes) as meeting:
            environment = process_environment(Cluster(processes=processes), os.environ, interface="lo") | meeting
            ranks = Ranks(processes, _train, json.dumps({"config": given, "folders": found}), environment)
            ranks.run(Path(temporary))
        history = json.loads((Path(found["output"]) / HISTORY_FILE).read_text(encoding="utf-8"))
    return Result(Path(found["model"]), history)


def _config(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a Config, checked before anything starts.

    Raises:
        InputError: an unknown field, no recipe or one without a file, a value that is not allowed.
    """
    declared = parameters_of(Config)
    config: dict[str, Any] = {}
    for name, value in given.items():
        if name not in declared:
            raise unknown_name("field of a training", name, declared)
        if name == "recipe":
            config[name] = _recipe_name(value)
            continue
        config[name] = json.dumps(value) if isinstance(value, Mapping) else value
        allowed, what = _TYPES[declared[name].type]
        if type(config[name]) not in allowed:
            raise InputError(f"{name}={value!r:.80}; allowed is {what}.")
    if "recipe" not in given:
        raise InputError("no recipe. Give recipe='digits_cnn', or the name of a module of your own.")
    Config(**config)
    return config


def _recipe_name(recipe: Any) -> str:
    """The module of a recipe that is given as a class or a module; a name stays."""
    if isinstance(recipe, types.ModuleType):
        return recipe.__name__.removeprefix(_SHIPPED)
    if isinstance(recipe, type):
        if recipe.__module__ == "__main__":
            raise InputError(f"recipe {recipe.__name__} is defined in the notebook. {_ADVICE}")
        if recipe.__name__ != "Recipe":
            raise InputError(f"recipe {recipe.__name__}: a recipe's file holds a class named Recipe. {_ADVICE}")
        return recipe.__module__.removeprefix(_SHIPPED)
    if not isinstance(recipe, str):
        raise InputError(f"recipe={recipe!r:.80} is not a name. {_ADVICE}")
    return recipe


@contextmanager
def _meeting_point(processes: int) -> Generator[dict[str, str]]:
    """The variables by which the ranks find each other: at a store that lives here, as torchrun's agent has one, on a
    port that the kernel chooses and nobody else can take in between."""
    if processes == 1:
        yield {}
        return
    from torch.distributed import TCPStore

    store = TCPStore(LOCALHOST, 0, is_master=True, wait_for_workers=False)
    yield {
        "MASTER_ADDR": LOCALHOST,
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    del store


def _train(work: str) -> None:
    """Run drivetrain.training_scripts.train with the arguments in `work`."""
    from drivetrain.training.process import join_group
    from drivetrain.training.strategy import joining_of
    from drivetrain.training_scripts.train import train

    given = json.loads(work)
    folders = Folders(**{name: Path(folder) for name, folder in given["folders"].items()})
    config = Config(**given["config"])
    with join_group(config.collective_timeout, *joining_of(config.strategy)) as process:
        train(config, folders, process)
