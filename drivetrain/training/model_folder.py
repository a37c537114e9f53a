"""The model folder: what training hands on and evaluation, the registry and serving read.

    model.safetensors   the weights
    model.json          everything else that is needed to use and to judge them; see `write_folder`
    code/               inference.py and the modules that it needs, so that the folder can be served as it is

A model of functions (serving/functions.py) has files of its own in place of the weights. The same training gives the
same bytes: no time stamps, no paths, sorted keys.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError

DESCRIPTION_FILE = "model.json"
WEIGHTS_FILE = "model.safetensors"
FORMAT = 1
CODE_FOLDER = "code"
OWN = "own"
"""The folder of code/ with the modules of the user's own that answer."""
# Under which key of a description the texts of code/ travel: a checkpoint keeps them too.
CODE = "code"
FRAMEWORK = "framework"
FUNCTIONS = "functions"
"""The `framework` of a model that answers by functions of its own (serving/functions.py)."""
THRESHOLD = "threshold"
"""The least score for class 1 of a binary model; optional."""


_KINDS = {
    **dict.fromkeys(("data", "inputs", "needs", "recipe_options", "table", "task", "weights"), dict),
    **dict.fromkeys(("data.fitted", "data.reader_options", "inputs.options"), dict),
    **dict.fromkeys(("columns", "inputs.columns", "task.class_names"), list),
    **dict.fromkeys(("answers", "data.reader", "framework", "precision", "recipe", "task.kind"), str),
}
"""Types of what model.json may hold, by path."""


def write_folder(
    folder: Path, weights: bytes, description: Mapping[str, Any], weights_file: str = WEIGHTS_FILE
) -> None:
    """Write the model folder (called on rank 0 only).

    Args:
        folder: made where it is missing.
        weights: the whole model: its tensors, as a safetensors file, or the file of its library.
        description: `framework`, `recipe`, `recipe_options`, `precision`, and what else is worth keeping, as plain JSON
            values. `code` (name -> text) becomes the files of code/; without it there is no such folder.
    """
    write_code(folder, description.get(CODE, {}))
    (folder / weights_file).write_bytes(weights)
    described = description_of(description, len(weights), hashlib.sha256(weights).hexdigest(), weights_file)
    (folder / DESCRIPTION_FILE).write_bytes(described)


def write_code(folder: Path, code: Mapping[str, str]) -> None:
    """Write code/ anew, with the folder where it is missing.

    Args:
        code: path below code/ -> text.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / CODE_FOLDER).is_dir():  # what an earlier model needed
        shutil.rmtree(folder / CODE_FOLDER)
    for name, text in code.items():
        path = folder / CODE_FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def write_description(folder: Path, description: Mapping[str, Any]) -> None:
    """Write the model.json of a model whose files lie in the folder already."""
    (folder / DESCRIPTION_FILE).write_bytes(_text({"format": FORMAT, **description}))


def description_of(description: Mapping[str, Any], size: int, digest: str, weights_file: str = WEIGHTS_FILE) -> bytes:
    """The content of model.json.

    Args:
        size: bytes of the weights.
        digest: their SHA-256.
    """
    weights = {"file": weights_file, "bytes": size, "sha256": digest}
    described = {name: value for name, value in description.items() if name != CODE}
    return _text({"format": FORMAT, "weights": weights, **described})


def with_threshold(folder: Path, to: Path, threshold: float) -> None:
    """Copy a model folder of a binary model, with the score from which on a sample is taken for class 1. Who loads the
    copy (evaluate, batch_predict, serving) goes by it, unless told another one.

    Raises:
        InputError: no model folder, or no threshold.
    """
    if not 0 <= threshold <= 1:
        raise InputError(f"threshold={threshold}; allowed are numbers from 0 to 1.")
    described_copy(folder, to, threshold_in(read_description(folder), threshold))


def threshold_in(description: Mapping[str, Any], threshold: float) -> dict[str, Any]:
    """A description with another threshold."""
    if description.get(FRAMEWORK) == FUNCTIONS:
        return {**description, "task": {**description["task"], THRESHOLD: float(threshold)}}
    return {**description, THRESHOLD: float(threshold)}


def described_copy(folder: Path, to: Path, description: Mapping[str, Any]) -> None:
    """Copy a model folder, with another model.json."""
    shutil.copytree(folder, to, dirs_exist_ok=True)
    (to / DESCRIPTION_FILE).write_bytes(_text(description))


def _text(description: Mapping[str, Any]) -> bytes:
    return (json.dumps(description, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def read_description(folder: Path) -> dict[str, Any]:
    """Read model.json.

    Raises:
        InputError: not a model folder, or one of another format.
    """
    path = folder / DESCRIPTION_FILE
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        if description["format"] != FORMAT:
            raise InputError(f"{path} has format {description['format']!r}; this program reads format {FORMAT}.")
        for name, kind in _KINDS.items():
            outer, _, inner = name.rpartition(".")
            found = description.get(outer, {}) if outer else description
            if not isinstance(found.get(inner, kind()), kind):
                raise TypeError(f"{name} is {found[inner]!r:.60}")
    except FileNotFoundError:
        raise _lacks(folder, DESCRIPTION_FILE) from None
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise no_description(folder, error) from None
    return description


def read_weights(folder: Path, description: Mapping[str, Any]) -> bytes:
    """The bytes of the weights, which are those that the description means.

    Raises:
        InputError: they are missing or damaged.
    """
    name = WEIGHTS_FILE
    try:
        expected, name = description["weights"]["sha256"], Path(description["weights"].get("file", name)).name
        weights = (folder / name).read_bytes()
    except FileNotFoundError:
        raise _lacks(folder, name) from None
    except (KeyError, TypeError, AttributeError) as error:
        raise no_description(folder, error) from None
    if hashlib.sha256(weights).hexdigest() != expected:
        raise InputError(f"{folder / name} is not what {DESCRIPTION_FILE} describes: copy or train again.")
    return weights


def no_description(folder: Path, error: Exception) -> InputError:
    return InputError(f"{folder / DESCRIPTION_FILE} does not describe a model ({error!r}).")


def _lacks(folder: Path, name: str) -> InputError:
    return InputError(f"{folder} is not a model folder: no {name}. Give the output `model` of train.")


def framework_of(folder: Path) -> str:
    """The framework of a model folder's model; "torch" where its description cannot be read, or does not say."""
    try:
        description = json.loads((folder / DESCRIPTION_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return "torch"  # which says what is wrong with the folder
    name = description.get(FRAMEWORK) if isinstance(description, dict) else None
    return name if isinstance(name, str) else "torch"


def tensors_of(folder: Path) -> str:
    """The framework that a model folder's model computes with, as processes join by it; "" for a model of functions,
    which needs none."""
    name = framework_of(folder)
    return "" if name == FUNCTIONS else name
