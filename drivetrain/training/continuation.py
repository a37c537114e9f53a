"""The model that a training goes on from, if that was asked for: the folder that fetch_previous writes.

    continues.json      {"group": "retraining", "version": "7", "content_hash": "0a1b..."}; {} for nothing
    model/...           the earlier model's files
    model/training/...  its training state, where it was published: a checkpoint, or a script's own files

A training that is given such a folder publishes its own last state beside its model, so that the next one goes on from
that. One that is not publishes none: who continues its model starts from the weights alone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from drivetrain.base.errors import InputError
from drivetrain.registry.model_package import CONTINUES_FILE

MODEL = "model"
STATE = "training"
# What the launcher keeps in a folder of checkpoints.
OWN = ".drivetrain"


@dataclass(frozen=True)
class Continuation:
    """An earlier model to go on from.

    Attributes:
        about: group, version and content_hash, as far as they are known; empty where the training starts anew.
        model: the folder with its files.
    """

    about: Mapping[str, str] = field(default_factory=dict[str, str])
    model: Path | None = None

    @property
    def name(self) -> str:
        """For people: `retraining version 7`, or `the model 0a1b2c3d4e5f`."""
        if "version" in self.about:
            return f"{self.about['group']} version {self.about['version']}"
        return f"the model {self.about['content_hash'][:12]}"

    @property
    def state(self) -> Path | None:
        """The folder of its training state; None where it was published without one."""
        folder = None if self.model is None else self.model / STATE
        return folder if folder is not None and folder.is_dir() else None


def read_continuation(folder: Path) -> Continuation:
    """
    Raises:
        InputError: no folder that fetch_previous wrote.
    """
    path = folder / CONTINUES_FILE
    try:
        about: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{folder} has no {CONTINUES_FILE}. Give continue_from in a pipeline, which fetches the model that it "
            "names, or the output of fetch_previous."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
    if not _is_about(about):
        raise InputError(f"{path} does not say what to continue. Give the output of fetch_previous.")
    if not about:
        return Continuation()
    model = folder / MODEL
    if not model.is_dir():
        raise InputError(f"{folder} has no folder {MODEL}/ with the model's files. Give the output of fetch_previous.")
    return Continuation(about, model)


def _is_about(given: Any) -> bool:
    if not isinstance(given, Mapping):
        return False
    about = cast("Mapping[str, Any]", given)
    texts = all(isinstance(text, str) for text in about.values())
    return texts and (not about or "content_hash" in about) and (("group" in about) == ("version" in about))


def restore_state(continuation: Continuation, checkpoints: Path) -> bool:
    """Put the training state that an earlier script left into this one's folder of checkpoints; whether that was done
    now. It is done once: a restart goes on from what the script itself has saved since.

    A start that is killed half-way leaves no mark (the last file that is written), so the next one does it again.
    """
    mark, content_hash = checkpoints / OWN / "continued", continuation.about.get("content_hash", "")
    if continuation.state is None or (mark.is_file() and mark.read_text(encoding="utf-8") == content_hash):
        return False
    for path in _of_script(checkpoints):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.copytree(continuation.state, checkpoints, dirs_exist_ok=True)
    mark.parent.mkdir(exist_ok=True)
    mark.write_text(content_hash, encoding="utf-8")
    return True


def publish_files(checkpoints: Path, model: Path) -> None:
    """Keep what a script left in its folder of checkpoints with its model, for the training that goes on from it."""
    for path in _of_script(checkpoints):
        to = model / STATE / path.name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(path, to, dirs_exist_ok=True) if path.is_dir() else shutil.copy2(path, to)


def _of_script(checkpoints: Path) -> list[Path]:
    return [path for path in checkpoints.iterdir() if path.name != OWN] if checkpoints.is_dir() else []
